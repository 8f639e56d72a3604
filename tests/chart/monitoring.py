"""What must hold of alerts and of the dashboard."""

import json
import re
from pathlib import Path

from common import objects, of_kind

# What the operator and its libraries count.
METRICS = {
    "up", "controller_runtime_reconcile_total", "controller_runtime_reconcile_errors_total", "controller_runtime_reconcile_time_seconds_bucket",
    "leader_election_master_status", "trawler_runs", "trawler_run_tasks", "trawler_tokens",
    "trawler_node_freshness_seconds", "trawler_nodes", "trawler_crawler_exits_total", "trawler_queue_up", "trawler_redis_up",
}
STATES = {
    "trawler_run_tasks": {"queued", "delayed", "leased", "done", "dead", "dropped"},
    "trawler_tokens": {"budget", "used"},
    "trawler_nodes": {"online", "offline", "dead", "stale"},
}


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
