"""Judges objects with the Lua of docs/gitops.md, in the Redis at the socket that is named."""

import json
import re
import subprocess
import sys
import textwrap
from pathlib import Path


def condition(kind, status, message="as it is"):
    return {"type": kind, "status": status, "reason": "Why", "message": message}


def an_object(kind, *conditions, generation=1, observed=1, suspend=False):
    item = {"kind": kind, "metadata": {"generation": generation}, "spec": {"suspend": suspend}}
    if conditions:
        item["status"] = {"observedGeneration": observed, "conditions": list(conditions)}
    return item


CASES = [
    ("a Catalog that nobody looked at", an_object("Catalog"), "Progressing"),
    ("a Catalog that is ready", an_object("Catalog", condition("Ready", "True")), "Healthy"),
    ("a Catalog that was ready before the last change", an_object("Catalog", condition("Ready", "True"), generation=2), "Progressing"),
    ("a Catalog that is being looked at", an_object("Catalog", condition("Ready", "Unknown")), "Progressing"),
    ("a node without its Secret", an_object("CatalogNode", condition("Ready", "False"), condition("Stalled", "True")), "Degraded"),
    ("a node that is suspended", an_object("CatalogNode", condition("Ready", "False"), suspend=True), "Suspended"),
    ("a Catalog without nodes", an_object("Catalog", condition("Ready", "False")), "Progressing"),
    ("a policy that is ready", an_object("ThrottlePolicy", condition("Ready", "True")), "Healthy"),
    ("a run that crawls", an_object("CrawlRun", condition("Succeeded", "Unknown"), condition("Reconciling", "True")), "Progressing"),
    ("a run that ended well", an_object("CrawlRun", condition("Succeeded", "True")), "Healthy"),
    ("a run that ended badly", an_object("CrawlRun", condition("Succeeded", "False"), condition("Stalled", "True")), "Degraded"),
    (
        "a run that is frozen",
        an_object("CrawlRun", condition("Succeeded", "Unknown"), condition("Reconciling", "True"), condition("Frozen", "True"), suspend=True),
        "Suspended",
    ),
    ("a run that is over and suspended", an_object("CrawlRun", condition("Succeeded", "True"), suspend=True), "Healthy"),
    ("a held deletion", an_object("Catalog", condition("Ready", "True"), condition("DeletionHeld", "True")), "Healthy"),
]


def main():
    document = Path("docs/gitops.md").read_text()
    [block] = re.findall(r"health\.lua: \|\n(.*?)```", document, re.DOTALL)
    script = "local obj = cjson.decode(ARGV[1])\nlocal function judge()\n" + textwrap.dedent(block) + "\nend\nreturn cjson.encode(judge())"
    faults = 0
    for title, item, expected in CASES:
        command = ["redis-cli", "-s", sys.argv[1], "EVAL", script, "0", json.dumps(item)]
        answer = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
        judged = json.loads(answer) if answer.startswith("{") else {"status": answer}
        if judged.get("status") != expected or not isinstance(judged.get("message"), str):
            faults += 1
            print(f"{title}: {judged}, expected {expected}")
    sys.exit(1 if faults else 0)


main()
