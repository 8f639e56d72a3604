"""What must hold of the operator's configuration."""

from common import config_of, objects, of_kind

# Fields of the operator's configuration, and of its part "crawler": those that are always there, and those that may be.
CONFIG = ({"tokens", "crawler", "crawlerClasses"}, set())
CRAWLER = (
    {"image", "imagePullPolicy", "serviceAccountName", "redisUrl", "podLabels", "logLevel", "terminationGracePeriodSeconds"},
    {"imagePullSecrets", "redisSecretName", "redisPasswordKey", "redisCaKey", "podAnnotations", "resources", "allowPrivateNetworks", "contact", "proxy"},
)
CLASS = (set(), {"resources", "nodeSelector", "tolerations", "affinity", "priorityClassName"})


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
