"""Importing is light, and the public names are a list that only changes on purpose."""

import subprocess
import sys

from tests.waiting import MOST_S

import headgate

UNASKED = (
    "headgate.graph.graph",
    "headgate.guard.ladder",
    "headgate.guard.resume",
    "headgate.index.large",
    "headgate.index.shared",
    "headgate.ingest.load",
    "headgate.keys",
    "headgate.memory.sessions",
    "headgate.stores.memory.store",
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
    assert {m for m in loaded("import headgate") - before if not m.startswith("_")} == {"headgate"}


def test_the_nouns_load_no_dependency():
    found = loaded("from headgate import Chunk, ContextBudget, HeadgateError, LoopError")
    assert found.isdisjoint(HEAVY)


def test_a_request_loads_no_code_that_it_does_not_run(tmp_path):
    store = str(tmp_path / "kb")
    with headgate.Headgate.open(store) as hg:
        hg.add([{"id": "a", "text": "Refunds for late parcels are paid by Anna Berg in May."}])
    found = loaded(
        f"from headgate import Headgate\nwith Headgate.open({store!r}) as hg:\n"
        "    assert hg.context('How are refunds for late parcels of Anna Berg paid?').chunks"
    )
    assert "headgate.stages.retrieve" in found
    assert found.isdisjoint(UNASKED)


def test_the_gateway_of_a_wrapped_agent_loads_no_page_and_no_framework():
    found = loaded("import headgate.service.wrap.gateway")
    assert "headgate.service.proxy.app" in found
    assert found.isdisjoint({"fastapi", "headgate.service.app", "headgate.service.dashboard.app"})


def test_every_public_name_resolves_and_is_listed_in_order():
    assert list(headgate.__all__) == sorted(headgate.__all__)
    assert all(getattr(headgate, name) is not None for name in headgate.__all__)
    assert set(headgate.__all__) <= set(dir(headgate))


def test_an_unknown_name_is_an_attribute_error():
    assert not hasattr(headgate, "Headgates")
