"""What must hold of the charts. `checks.py NAME [FILE...]` prints what does not, and then fails. The files are rendered charts."""

import json
import re
import sys
from pathlib import Path

import yaml

CHART = Path("charts/trawler")
CLUSTER_WIDE = {"CustomResourceDefinition", "ClusterRole", "ClusterRoleBinding", "Namespace"}

# What the operator and its libraries count.
METRICS = {
    "up", "controller_runtime_reconcile_total", "controller_runtime_reconcile_errors_total", "controller_runtime_reconcile_time_seconds_bucket",
    "workqueue_depth", "rest_client_requests_total", "leader_election_master_status", "trawler_runs", "trawler_run_tasks", "trawler_tokens",
    "trawler_node_freshness_seconds", "trawler_nodes", "trawler_crawler_exits_total", "trawler_queue_up", "trawler_redis_up",
}
STATES = {
    "trawler_run_tasks": {"queued", "delayed", "leased", "done", "dead", "dropped"},
    "trawler_tokens": {"budget", "used"},
    "trawler_nodes": {"online", "offline", "dead", "stale"},
}
# Fields of the operator's configuration, and of its part "crawler": those that are always there, and those that may be.
CONFIG = ({"tokens", "crawler", "crawlerClasses"}, set())
CRAWLER = (
    {"image", "imagePullPolicy", "serviceAccountName", "redisUrl", "podLabels", "logLevel", "terminationGracePeriodSeconds"},
    {"imagePullSecrets", "redisSecretName", "redisPasswordKey", "redisCaKey", "podAnnotations", "resources", "allowPrivateNetworks", "contact", "proxy"},
)
CLASS = (set(), {"resources", "nodeSelector", "tolerations", "affinity", "priorityClassName"})


class Strict(yaml.SafeLoader):
    """Refuses a key that is there twice: the API server takes the last one, silently."""


def mapping(loader, node):
    keys = [loader.construct_object(key) for key, _ in node.value]
    twice = {key for key in keys if keys.count(key) > 1}
    if twice:
        raise yaml.YAMLError(f"{sorted(twice)} twice{node.start_mark}")
    return {loader.construct_object(key): loader.construct_object(value, deep=True) for key, value in node.value}


Strict.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, mapping)


def objects(path):
    return [item for item in yaml.load_all(Path(path).read_text(), Strict) if item]


def name(item):
    return f"{item['kind']} {item['metadata']['name']}"


def of_kind(items, *kinds):
    return [item for item in items if item["kind"] in kinds]


def pods(items):
    """Name, labels and spec of every pod that comes of the objects."""
    for item in items:
        if item["kind"] == "Pod":
            yield name(item), item["metadata"]["labels"], item["spec"]
        elif item["kind"] in ("Deployment", "StatefulSet", "Job", "DaemonSet"):
            template = item["spec"]["template"]
            yield name(item), template["metadata"]["labels"], template["spec"]


def config_of(items):
    [found] = [item for item in of_kind(items, "ConfigMap") if "config.yaml" in item["data"]]
    return yaml.load(found["data"]["config.yaml"], Strict)


def leaves(value, path=()):
    """Paths of values that are no group: scalars, lists, and maps that are free to fill."""
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from leaves(inner, (*path, key))
    else:
        yield path


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
            if item["metadata"].get("annotations", {}).get("helm.sh/resource-policy") != "keep":
                yield f"{path}: {name(item)} goes with the release"
    for item in of_kind(objects("manifests/install.yaml"), "CustomResourceDefinition"):
        if "annotations" in item["metadata"]:
            yield f"install.yaml: {name(item)} has annotations of Helm's"


def versions():
    version = re.search(r'^version = "(.*)"$', Path("Cargo.toml").read_text(), re.MULTILINE).group(1)
    for chart in ("trawler", "trawler-crds"):
        facts = yaml.safe_load(Path(f"charts/{chart}/Chart.yaml").read_text())
        for field in ("version", "appVersion"):
            if str(facts[field]) != version:
                yield f"charts/{chart}/Chart.yaml: {field} is {facts[field]}, Cargo.toml has {version}"


def schema_paths(schema, root, path=()):
    while "$ref" in schema:
        schema = root["$defs"][schema["$ref"].rsplit("/", 1)[1]]
    yield path
    for key, inner in schema.get("properties", {}).items():
        yield from schema_paths(inner, root, (*path, key)) if len(path) < 4 else ()


# Maps that are free to fill in the values, so that what is in them is no value of its own.
FREE = {"labels", "alertLabels", "annotations", "podLabels", "podAnnotations", "nodeSelector", "commonLabels", "crawlerClasses", "resources", "affinity"}


def own(path):
    """The part of a path up to the first free map."""
    for index, key in enumerate(path):
        if key in FREE:
            return path[: index + 1]
    return path


def values():
    defaults = {own(path) for path in leaves(yaml.safe_load((CHART / "values.yaml").read_text()))}
    known = set(schema_paths(*[json.loads((CHART / "values.schema.json").read_text())] * 2))
    set_by_tests = set()
    for file in CHART.glob("ci/*.yaml"):
        set_by_tests |= {own(path) for path in leaves(yaml.safe_load(file.read_text()))}
    templates = "".join(path.read_text() for path in CHART.rglob("templates/**/*") if path.is_file())
    templates += (CHART / "files/alerts.yaml").read_text()
    for path in sorted(defaults):
        dotted = ".".join(path)
        if path not in known:
            yield f"{dotted} is not in values.schema.json"
        if path not in set_by_tests:
            yield f"{dotted} is set in no file of ci/"
        # Groups are handed on as a whole, or opened with "with"; their last key must be read somewhere.
        if not re.search(rf"\.{path[-1]}\b", templates):
            yield f"{dotted} is used by no template"
    for path in sorted(set_by_tests - defaults):
        yield f"{'.'.join(path)} is set in ci/ and is no value"


def schema():
    for chart in ("trawler", "trawler-crds"):
        root = json.loads(Path(f"charts/{chart}/values.schema.json").read_text())
        defaults = yaml.safe_load(Path(f"charts/{chart}/values.yaml").read_text())
        for path in schema_paths(root, root):
            place = defaults
            for key in own(path):
                place = place.get(key) if isinstance(place, dict) else None
            if path and path[0] not in ("global", "enabled") and place is None and own(path) == path:
                yield f"{chart}: the schema has {'.'.join(path)}, which values.yaml does not"
        yield from open_objects(root, chart)


def open_objects(part, place):
    if isinstance(part, dict):
        is_free = place in ("trawler.properties.global", "trawler-crds.properties.global")
        if part.get("type") == "object" and "additionalProperties" not in part and not is_free:
            yield f"{place} takes any key"
        for key, inner in part.items():
            yield from open_objects(inner, f"{place}.{key}")
    elif isinstance(part, list):
        for inner in part:
            yield from open_objects(inner, place)


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


def restricted(*paths):
    """The standard's fields one by one, and what the project asks for beyond it."""
    for path in paths:
        for owner, _, spec in pods(objects(path)):
            place = f"{path}: {owner}"
            context = spec.get("securityContext", {})
            if context.get("runAsNonRoot") is not True or context.get("runAsUser", 1) == 0:
                yield f"{place} may run as root"
            if context.get("seccompProfile") != {"type": "RuntimeDefault"}:
                yield f"{place} has no seccomp profile"
            if any(spec.get(field) for field in ("hostNetwork", "hostPID", "hostIPC")) or context.get("sysctls"):
                yield f"{place} reaches into the machine"
            if spec.get("enableServiceLinks") is not False:
                yield f"{place} has the addresses of all Services in its environment"
            allowed = {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"}
            for volume in spec.get("volumes", []):
                if not set(volume) - {"name"} <= allowed:
                    yield f"{place} has the volume {volume}"
            for container in spec.get("initContainers", []) + spec["containers"]:
                inner = container.get("securityContext", {})
                wanted = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
                if inner != wanted:
                    yield f"{place}/{container['name']}: its security context is {inner}, not {wanted}"
                if any("hostPort" in port for port in container.get("ports", [])):
                    yield f"{place}/{container['name']} has a port of the machine"
                limits, requests = (container.get("resources", {}).get(key, {}) for key in ("limits", "requests"))
                if "memory" not in limits or not {"cpu", "memory"} <= set(requests):
                    yield f"{place}/{container['name']} has no requests or no limit of memory"


def selected(labels, selector):
    return all(labels.get(key) == value for key, value in selector.items())


def selectors(*paths):
    for path in paths:
        items = objects(path)
        known = [(owner, labels) for owner, labels, _ in pods(items)]
        known.append(("crawlers", config_of(items)["crawler"]["podLabels"]))
        for item in of_kind(items, "Service", "Deployment", "StatefulSet", "NetworkPolicy", "PodDisruptionBudget"):
            spec = item["spec"]
            selector = spec.get("podSelector", spec.get("selector"))
            selector = selector.get("matchLabels", selector)
            found = [owner for owner, labels in known if selected(labels, selector)]
            if len(found) != 1:
                yield f"{path}: {name(item)} selects {found}"
            elif item["kind"] in ("Deployment", "StatefulSet") and found != [name(item)]:
                yield f"{path}: {name(item)} selects {found}"
        for item in of_kind(items, "ServiceMonitor"):
            found = [s for s in of_kind(items, "Service") if selected(s["metadata"]["labels"], item["spec"]["selector"]["matchLabels"])]
            if [[port["name"] for port in service["spec"]["ports"]] for service in found] != [["metrics", "health"]]:
                yield f"{path}: the ServiceMonitor selects {found}"


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
    for before, line in zip(lines, lines[1:]):
        if line.startswith("- apiGroups") and not before.startswith("# "):
            yield f"no comment before: {line}"
    paths = "observe|apply|report|start|leader"
    comments = [line for before, line in zip(lines, lines[1:]) if line.startswith("# ") and not before.startswith("# ") and lines.index(line) > 12]
    yield from (f"names no part of the operator: {line}" for line in comments if not re.match(rf"# ({paths})\b", line))


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


def fields(place, found, allowed):
    needed, optional = allowed
    yield from (f"{place}: {key} is missing" for key in sorted(needed - set(found)))
    yield from (f"{place}: {key} is not read by the operator" for key in sorted(set(found) - needed - optional))


def config(*paths):
    for path in paths:
        items = objects(path)
        found = config_of(items)
        yield from fields(path, found, CONFIG)
        yield from fields(f"{path}: crawler", found["crawler"], CRAWLER)
        for key, value in found["crawlerClasses"].items():
            yield from fields(f"{path}: crawlerClasses.{key}", value, CLASS)
        if not isinstance(found["tokens"], int) or not isinstance(found["crawler"]["terminationGracePeriodSeconds"], int):
            yield f"{path}: a whole number is none"
        # What the operator is told, and what is made for crawlers, is the same Redis.
        [deployment] = of_kind(items, "Deployment")
        [container] = deployment["spec"]["template"]["spec"]["containers"]
        variables = {entry["name"]: entry.get("value") for entry in container["env"]}
        is_bundled = bool(of_kind(items, "StatefulSet"))
        if ("--redis-secret" in container["args"]) != is_bundled:
            yield f"{path}: the operator makes a Secret for a Redis that is not its own, or none for its own"
        if is_bundled:
            [service] = [item for item in of_kind(items, "Service") if "redis" in item["metadata"]["name"]]
            for role, url in (("owner", variables["TRAWLER_REDIS"]), ("crawler", found["crawler"]["redisUrl"])):
                expected = f"redis://trawler-{variables['TRAWLER_INSTANCE']}-{role}@{service['metadata']['name']}:6379/0"
                if url != expected:
                    yield f"{path}: the {role}'s Redis is {url}, not {expected}"


def no_secrets(*paths):
    for path in paths:
        items = objects(path)
        yield from (f"{path}: {name(item)}" for item in of_kind(items, "Secret"))
        if re.search(r"redis(s?)://[^@\s\"]*:[^@/\s\"]*@", Path(path).read_text()):
            yield f"{path}: a URL with a password"


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


def expressions(items):
    [rule] = of_kind(items, "PrometheusRule")
    for alert in rule["spec"]["groups"][0]["rules"]:
        yield alert["alert"], alert["expr"]
    [dashboard] = [item for item in of_kind(items, "ConfigMap") if item["metadata"]["name"].endswith("-dashboard")]
    for panel in json.loads(next(iter(dashboard["data"].values())))["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"]


def metrics(path):
    used = set()
    for place, expression in expressions(objects(path)):
        for metric, labels in re.findall(r"\b([a-z_]+)\{([^}]*)\}", expression):
            used.add(metric)
            if metric not in METRICS:
                yield f"{place}: {metric} is counted nowhere"
            if "namespace=" not in labels or "job=" not in labels:
                yield f"{place}: counts other instances too"
            for states in re.findall(r'state=~?"([^"]*)"', labels):
                unknown = set(states.split("|")) - STATES.get(metric, set())
                if unknown:
                    yield f"{place}: {metric} has no state {sorted(unknown)}"
    yield from (f"{metric} is shown nowhere" for metric in sorted(METRICS - used))
    described = Path("docs/operations.md").read_text()
    yield from (f"docs/operations.md does not describe {metric}" for metric in METRICS - {"up"} if metric.removesuffix("_bucket") not in described)


def runbooks(path):
    [rule] = of_kind(objects(path), "PrometheusRule")
    headings = set(re.findall(r"^#+ (Trawler[A-Za-z]+)$", Path("docs/operations.md").read_text(), re.MULTILINE))
    alerts = {alert["alert"]: alert["annotations"]["runbook_url"] for alert in rule["spec"]["groups"][0]["rules"]}
    yield from (f"{alert} has no runbook in docs/operations.md" for alert in sorted(alerts.keys() - headings))
    yield from (f"docs/operations.md has a runbook for {heading}, which is no alert" for heading in sorted(headings - alerts.keys()))
    yield from (f"{alert} leads to {url}" for alert, url in alerts.items() if not url.endswith(f"#{alert.lower()}"))


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


def main():
    faults = list(globals()[sys.argv[1]](*sys.argv[2:]))
    print("\n".join(faults))
    sys.exit(1 if faults else 0)


main()
