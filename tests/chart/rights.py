"""What must hold of rights."""

import json
import re

from common import CHART, config_of, name, objects, of_kind

# The parts of the operator.
PARTS = ("start", "leader", "observe", "apply", "report")


def roles(*paths):
    for path in paths:
        items = objects(path)
        if len(of_kind(items, "Role")) != 1 or len(of_kind(items, "RoleBinding")) != 1 or of_kind(items, "ClusterRoleBinding"):
            yield f"{path}: not exactly one Role and one RoleBinding"
        for item in of_kind(items, "Role", "ClusterRole"):
            if "*" in json.dumps(item["rules"]):
                yield f"{path}: {name(item)} has a wildcard"
            if item["kind"] == "ClusterRole" and any(rule["apiGroups"] != ["trawler.dev"] for rule in item["rules"]):
                yield f"{path}: {name(item)} is about more than the four kinds"
        [binding] = of_kind(items, "RoleBinding")
        [deployment] = of_kind(items, "Deployment")
        accounts = [subject["name"] for subject in binding["subjects"]]
        if accounts != [deployment["spec"]["template"]["spec"]["serviceAccountName"]]:
            yield f"{path}: the Role is bound to {accounts}"


def commented_rules():
    lines = (CHART / "templates/operator/role.yaml").read_text().splitlines()
    comment = []
    for line in lines[lines.index("rules:") + 1 :]:
        if line.startswith("# "):
            comment.append(line)
        elif line.startswith("- apiGroups") and not (comment and re.match(rf"# ({'|'.join(PARTS)})\b", comment[0])):
            yield f"the rule that begins with {line} has no comment that begins with one of {PARTS}"
        if line.startswith("  verbs"):
            comment = []


def crawlers(*paths):
    for path in paths:
        items = objects(path)
        account = config_of(items)["crawler"]["serviceAccountName"]
        [found] = [item for item in of_kind(items, "ServiceAccount") if item["metadata"]["name"] == account]
        if found.get("automountServiceAccountToken") is not False:
            yield f"{path}: the crawlers' token is mounted"
        for binding in of_kind(items, "RoleBinding", "ClusterRoleBinding"):
            if any(subject["name"] == account for subject in binding["subjects"]):
                yield f"{path}: {name(binding)} gives crawlers rights"
