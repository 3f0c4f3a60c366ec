"""Importing is light, and the public names are a list that only changes on purpose."""

import subprocess
import sys

from tests.waiting import MOST_S

import millgate

UNASKED = (
    "millgate.knowledge.graph",
    "millgate.circles.steps",
    "millgate.guard.resume",
    "millgate.ingest.load",
    "millgate.keys",
    "millgate.knowledge.turns",
    "millgate.stores.temporary",
    "numpy.ma",
)
HEAVY = ("numpy", "pydantic", "rich", "click", "orjson", "Stemmer", "asyncio")


def loaded(statement):
    script = f"{statement}\nimport sys\nprint(*sorted(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=MOST_S
    )
    return set(done.stdout.split())


def test_a_plain_import_loads_the_package_and_nothing_of_it():
    before = loaded("from importlib import import_module; import typing")
    assert {m for m in loaded("import millgate") - before if not m.startswith("_")} == {"millgate"}


def test_the_nouns_load_no_dependency():
    found = loaded("from millgate import Chunk, ContextBudget, MillgateError, LoopError")
    assert found.isdisjoint(HEAVY)


def test_a_request_loads_no_code_that_it_does_not_run(tmp_path):
    store = str(tmp_path / "kb")
    with millgate.Millgate.open(store) as gate:
        gate.add([{"id": "a", "text": "Refunds for late parcels are paid by Anna Berg in May."}])
    found = loaded(
        f"from millgate import Millgate\nwith Millgate.open({store!r}) as gate:\n"
        "    assert gate.context('How are refunds for late parcels of Anna Berg paid?').chunks"
    )
    assert "millgate.pipeline.stages.retrieve" in found
    assert found.isdisjoint(UNASKED)


def test_the_gateway_of_a_wrapped_agent_loads_no_page_and_no_framework():
    found = loaded("import millgate.wrap.gateway")
    assert "millgate.service.proxy.app" in found
    assert found.isdisjoint({"fastapi", "millgate.service.app", "millgate.service.dashboard.app"})


def test_every_public_name_resolves_and_is_listed_in_order():
    assert list(millgate.__all__) == sorted(millgate.__all__)
    assert all(getattr(millgate, name) is not None for name in millgate.__all__)
    assert set(millgate.__all__) <= set(dir(millgate))


def test_an_unknown_name_is_an_attribute_error():
    assert not hasattr(millgate, "Millgates")
