"""What must hold of the values: each is described, bounded by the schema, and makes a difference."""

import copy
import json
import os
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import yaml

from common import CHART

# Maps that are free to fill in the values, so that what is in them is no value of its own.
FREE = {"labels", "alertLabels", "annotations", "podLabels", "podAnnotations", "nodeSelector", "commonLabels", "crawlerClasses", "resources", "affinity"}


def own(path):
    """The part of a path up to the first free map."""
    for index, key in enumerate(path):
        if key in FREE:
            return path[: index + 1]
    return path


def leaves(value, path=()):
    """Paths of values that are no group: scalars, lists, and maps that are free to fill."""
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from leaves(inner, (*path, key))
    else:
        yield path


def schema_paths(schema, root, path=()):
    while "$ref" in schema:
        schema = root["definitions"][schema["$ref"].rsplit("/", 1)[1]]
    yield path
    for key, inner in schema.get("properties", {}).items():
        yield from schema_paths(inner, root, (*path, key)) if len(path) < 4 else ()


def read(path):
    return yaml.safe_load(Path(path).read_text())


def values():
    defaults = {own(path) for path in leaves(read(CHART / "values.yaml"))}
    root = json.loads((CHART / "values.schema.json").read_text())
    known = set(schema_paths(root, root))
    set_by_tests = {own(path) for file in CHART.glob("ci/*.yaml") for path in leaves(read(file))}
    for path in sorted(defaults):
        if path not in known:
            yield f"{'.'.join(path)} is not in values.schema.json"
        if path not in set_by_tests:
            yield f"{'.'.join(path)} is set in no file of ci/"
    for path in sorted(set_by_tests - defaults):
        yield f"{'.'.join(path)} is set in ci/ and is no value"


def rendered(values):
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        yaml.safe_dump(values, file)
        command = [os.environ["HELM"], "template", "trawler", str(CHART), "--namespace", "one", "-f", file.name]
        done = subprocess.run(command, capture_output=True, text=True)
    # That a template refuses a value is a difference; that the schema does is a fault of this test.
    if "specifications of the schema" in done.stderr:
        raise SystemExit(done.stderr)
    return done.stdout or done.stderr


def looked_up(values, path):
    for key in path:
        values = values[key]
    return values


def other_than(value, default):
    """Another value of the same kind: the default, or where that is the same, the opposite or nothing."""
    if value != default:
        return default
    return not value if isinstance(value, bool) else type(value)()


def with_other(values, defaults, path):
    changed = copy.deepcopy(values)
    place = looked_up(changed, path[:-1])
    place[path[-1]] = other_than(place[path[-1]], looked_up(defaults, path))
    return changed


def used():
    """With each value changed, something else must be rendered: from all values, from an external Redis, or from the defaults."""
    defaults = read(CHART / "values.yaml")
    everything = merged(defaults, read(CHART / "ci/all-values.yaml"))
    bases = [everything, merged(defaults, read(CHART / "ci/external-redis-values.yaml"))]
    # A digest goes before a tag.
    bases.append(merged(everything, {"image": {"digest": ""}, "redis": {"image": {"digest": ""}}}))
    was = [rendered(base) for base in bases]

    def is_used(path):
        return any(rendered(with_other(base, defaults, path)) != before for base, before in zip(bases, was))

    paths = sorted({own(path) for path in leaves(defaults)})
    with ThreadPoolExecutor(2) as pool:
        for path, found in zip(paths, pool.map(is_used, paths)):
            if not found:
                yield f"{'.'.join(path)} changes nothing"


def merged(below, above):
    if not isinstance(below, dict) or not isinstance(above, dict):
        return above
    return {key: merged(below[key], above[key]) if key in below and key in above else above.get(key, below.get(key)) for key in below | above}


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
        if part.get("type") == "object" and part.get("additionalProperties", True) is True and not is_free:
            yield f"{place} takes any key"
        for key, inner in part.items():
            yield from open_objects(inner, f"{place}.{key}")
    elif isinstance(part, list):
        for inner in part:
            yield from open_objects(inner, place)
