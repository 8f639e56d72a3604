"""Judges one run of an interoperability test: check.py RUN NODES EXPECTED HIDDEN REPORT RECORDS.

RUN is "first", "second" or "incremental"; prints a line per check, which begins with "ok" or "FAILED".
"""

import collections
import json
import re
import sys


def check(name, found, expected):
    if found == expected:
        print(f"ok      {name}")
    else:
        print(f"FAILED  {name}: expected {expected}, found {found}")


def main():
    run, nodes, expected, hidden, report_path, records_path = sys.argv[1:]
    expected = int(expected)
    with open(report_path, encoding="utf-8") as file:
        report = json.load(file)
    with open(records_path, encoding="utf-8") as file:
        records = [json.loads(line) for line in file]

    written = collections.Counter(record["node"] for record in records)
    distinct = collections.defaultdict(set)
    for record in records:
        distinct[record["node"]].add(record["id"])
    changes = (expected, 0, 0, 0) if run == "first" else (0, 0, expected, 0)
    check(f"{run} run: nodes", len(report["nodes"]), int(nodes))
    for node in report["nodes"]:
        name = node["name"]
        prefix = f"{name}, {run} run"
        check(f"{prefix}: complete", (node["state"], node.get("message")), ("Complete", None))
        check(f"{prefix}: {expected} records", (node["records"], written[name], len(distinct[name])), (expected,) * 3)
        if run == "incremental":
            found = tuple(node[key] for key in ("added", "updated", "deleted"))
            check(f"{prefix}: added, updated, deleted", found, (0, 0, 0))
            can_not = "its protocol has no way to ask for changes"
            how = ("Full", can_not) if node["protocol"].startswith("DSP") else ("Incremental", None)
            check(f"{prefix}: how it was read", (node["read"], node.get("inFullBecause")), how)
        else:
            found = tuple(node[key] for key in ("added", "updated", "unchanged", "deleted"))
            check(f"{prefix}: added, updated, unchanged, deleted", found, changes)
        sections = [section["section"] for section in node["sections"]]
        # A nested catalogue that leads back is the section that is being read already.
        check(f"{prefix}: no section twice", len(sections), len(set(sections)))
        check(f"{prefix}: nothing unreadable", node["rejected"], 0)
    leaked = sorted(record["id"] for record in records if re.search(hidden, json.dumps(record)))
    check(f"{run} run: nothing that is hidden", leaked, [])


main()
