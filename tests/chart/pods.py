"""What must hold of pods, and of what selects them."""

from common import config_of, name, objects, of_kind, pods, selected


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


def mounted(*paths):
    """What pods refer to is there: in the release, made by the operator, or named by the values."""
    for path in paths:
        items = objects(path)
        there = {(item["kind"], item["metadata"]["name"]) for item in items}
        for _, _, spec in pods(items):
            for container in spec["containers"]:
                arguments = container.get("args", [])
                if "--redis-secret" in arguments:
                    there.add(("Secret", arguments[arguments.index("--redis-secret") + 1]))
        if "external" in path:
            there.add(("Secret", "harvest-redis"))
        for owner, _, spec in pods(items):
            wanted = {("ServiceAccount", spec["serviceAccountName"])} if "serviceAccountName" in spec else set()
            for volume in spec.get("volumes", []):
                wanted |= {("ConfigMap", volume["configMap"]["name"])} if "configMap" in volume else set()
                wanted |= {("Secret", volume["secret"]["secretName"])} if "secret" in volume else set()
            yield from (f"{path}: {owner} needs the {kind} {title}, which nobody makes" for kind, title in sorted(wanted - there))
            volumes = {volume["name"] for volume in spec.get("volumes", [])} | claims(items, owner)
            for container in spec["containers"]:
                for mount in container.get("volumeMounts", []):
                    if mount["name"] not in volumes:
                        yield f"{path}: {owner} mounts {mount['name']}, which is no volume"


def claims(items, owner):
    templates = [item["spec"].get("volumeClaimTemplates", []) for item in items if name(item) == owner and item["kind"] == "StatefulSet"]
    return {claim["metadata"]["name"] for found in templates for claim in found}
