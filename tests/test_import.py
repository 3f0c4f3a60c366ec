"""Importing is light, and the public names are a list that only changes on purpose."""

import subprocess
import sys

import headgate

HEAVY = ("numpy", "pydantic", "rich", "click", "orjson", "Stemmer", "asyncio")


def loaded(statement):
    script = f"{statement}\nimport sys\nprint(*sorted(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    return set(done.stdout.split())


def test_a_plain_import_loads_the_package_and_nothing_of_it():
    before = loaded("from importlib import import_module; import typing")
    assert {m for m in loaded("import headgate") - before if not m.startswith("_")} == {"headgate"}


def test_the_nouns_load_no_dependency():
    found = loaded("from headgate import Chunk, ContextBudget, HeadgateError, LoopError")
    assert found.isdisjoint(HEAVY)


def test_every_public_name_resolves_and_is_listed_in_order():
    assert list(headgate.__all__) == sorted(headgate.__all__)
    assert all(getattr(headgate, name) is not None for name in headgate.__all__)
    assert set(headgate.__all__) <= set(dir(headgate))


def test_an_unknown_name_is_an_attribute_error():
    assert not hasattr(headgate, "Headgates")
