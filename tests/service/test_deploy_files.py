"""The board and the alert rules in deploy/ ask for metrics that the service has, with labels that they have."""

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROW = re.compile(r"^\| `(millgate_\w+)` \| (\w+) \| ([^|]*) \|", re.MULTILINE)
KNOWN = {name: (kind, labels) for name, kind, labels in ROW.findall((ROOT / "docs/metrics.md").read_text())}  # fmt: skip


def expressions(name):
    text = (ROOT / "deploy" / name).read_text()
    if name.endswith(".json"):
        return [
            target["expr"] for panel in json.loads(text)["panels"] for target in panel["targets"]
        ]
    return re.findall(r"expr: (.*)", text)


@pytest.mark.parametrize("name", ["grafana.json", "alerts.yaml"])
def test_every_metric_exists_with_its_labels(name):
    found = expressions(name)
    assert len(found) > 5
    for expression in found:
        for metric, selector in re.findall(r"(millgate_\w+)(?:\{(\w+))?", expression):
            kind, labels = KNOWN[metric.removesuffix("_bucket")]
            assert metric.endswith("_bucket") == (kind == "histogram"), metric
            grouped = re.findall(r"by \(([^)]*)\)", expression)
            asked = {label.strip() for one in grouped for label in one.split(",")} | {selector}
            assert asked - {"le", ""} <= set(labels.replace(" ", "").split(",")), expression
