"""What must hold of the objects as such."""

import json
import re
from pathlib import Path

import yaml

from common import name, objects, of_kind

CLUSTER_WIDE = {"CustomResourceDefinition", "ClusterRole", "ClusterRoleBinding", "Namespace"}


def definitions(default, crds, install):
    sources = {item["metadata"]["name"]: item["spec"] for item in (yaml.safe_load(path.read_text()) for path in Path("crds").glob("*.yaml"))}
    for path in (default, crds, install):
        made = {item["metadata"]["name"]: item["spec"] for item in of_kind(objects(path), "CustomResourceDefinition")}
        if made != sources:
            yield f"{path}: {sorted(key for key in sources.keys() | made.keys() if sources.get(key) != made.get(key))} differ"
        if path != install:
            continue
        for document in re.split(r"^---\n", Path(path).read_text(), flags=re.MULTILINE):
            if len(document.encode()) > 262144:
                yield f"{path}: a document is too large for kubectl apply"


def kept(*paths):
    for path in paths:
        for item in of_kind(objects(path), "CustomResourceDefinition"):
            wanted = {"helm.sh/resource-policy": "keep", "argocd.argoproj.io/sync-options": "Prune=false"}
            if item["metadata"].get("annotations") != wanted:
                yield f"{path}: {name(item)} goes with the release"
    for item in of_kind(objects("manifests/install.yaml"), "CustomResourceDefinition"):
        if "annotations" in item["metadata"]:
            yield f"install.yaml: {name(item)} has annotations of other tools"


def versions():
    version = re.search(r'^version = "(.*)"$', Path("Cargo.toml").read_text(), re.MULTILINE).group(1)
    for chart in ("trawler", "trawler-crds"):
        facts = yaml.safe_load(Path(f"charts/{chart}/Chart.yaml").read_text())
        for field in ("version", "appVersion"):
            if str(facts[field]) != version:
                yield f"charts/{chart}/Chart.yaml: {field} is {facts[field]}, Cargo.toml has {version}"


def no_lookup():
    for path in Path("charts").rglob("templates/**/*"):
        if path.is_file() and re.search(r"\blookup\b|\brand[A-Z]|\bgenCA|\buuidv4|\bnow\b *[|}]", path.read_text()):
            yield f"{path}: looks into the cluster, or makes something anew each time"


def no_duplicates(*paths):
    for path in paths:
        try:
            items = objects(path)
        except yaml.YAMLError as error:
            yield f"{path}: {error}"
            continue
        names = [(name(item), item["metadata"].get("namespace")) for item in items]
        yield from (f"{path}: {entry} twice" for entry in set(names) if names.count(entry) > 1)


def namespaced(*paths):
    for path in paths:
        items = objects(path)
        expected = "trawler" if "install" in str(path) else "one"
        for item in items:
            namespace = item["metadata"].get("namespace")
            if namespace != (None if item["kind"] in CLUSTER_WIDE else expected):
                yield f"{path}: {name(item)} is in the namespace {namespace}"
        if "install" in str(path):
            if items[0]["kind"] != "Namespace":
                yield f"{path}: the namespace does not come first"
            for word in ("helm.sh/", "managed-by", "# Source"):
                if word in Path(path).read_text():
                    yield f"{path}: has {word}, which only Helm understands"


def no_secrets(*paths):
    for path in paths:
        items = objects(path)
        yield from (f"{path}: {name(item)}" for item in of_kind(items, "Secret"))
        if re.search(r"redis(s?)://[^@\s\"]*:[^@/\s\"]*@", Path(path).read_text()):
            yield f"{path}: a URL with a password"


def stable(*paths):
    """Selectors can't be changed, and a pod's labels must not change with the version, or Redis restarts at each upgrade."""
    for path in paths:
        for item in of_kind(objects(path), "Deployment", "StatefulSet"):
            template = item["spec"]["template"]["metadata"]
            texts = [item["spec"]["selector"], template["labels"], item["spec"].get("volumeClaimTemplates")]
            if "0.1.0" in json.dumps(texts) or "helm.sh/chart" in json.dumps(texts):
                yield f"{path}: {name(item)} has the chart's version in its labels"
            if not re.fullmatch("[0-9a-f]{64}", template["annotations"].get("checksum/config", "")):
                yield f"{path}: {name(item)} does not restart when its configuration changes"


def apart(one, two):
    def names(path):
        return {(item["kind"], item["metadata"].get("namespace"), item["metadata"]["name"]) for item in objects(path)}

    yield from (f"{kind} {title} is in both" for kind, _, title in sorted(names(one) & names(two)) if kind != "CustomResourceDefinition")


def lengths(path):
    for item in objects(path):
        # A Service's name is a label of DNS; a StatefulSet's gets eleven characters more in a label of its pods.
        longest = {"Service": 63, "StatefulSet": 52}.get(item["kind"], 63)
        if item["kind"] != "CustomResourceDefinition" and len(item["metadata"]["name"].split(":")[-2 if ":" in item["metadata"]["name"] else 0]) > longest:
            yield f"{name(item)} is longer than {longest}"
        for key, value in item["metadata"]["labels"].items():
            if len(value) > 63:
                yield f"{name(item)}: the label {key} is longer than 63"
    [deployment] = of_kind(objects(path), "Deployment")
    instance = {entry["name"]: entry.get("value") for entry in deployment["spec"]["template"]["spec"]["containers"][0]["env"]}["TRAWLER_INSTANCE"]
    if not 0 < len(instance) <= 40:
        yield f"the instance {instance} has {len(instance)} characters"
