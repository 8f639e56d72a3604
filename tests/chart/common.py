"""Reading rendered charts."""

from pathlib import Path

import yaml

CHART = Path("charts/trawler")


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


def selected(labels, selector):
    return all(labels.get(key) == value for key, value in selector.items())
