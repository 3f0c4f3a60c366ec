"""A framework that is not installed is named with the line that installs it."""

import importlib
import sys

import pytest

from millgate.errors import MissingExtra

MODULES = {
    "langchain": ("langchain_core", "langchain"),
    "langchain_agent": ("langchain", "langchain"),
    "llamaindex": ("llama_index", "llamaindex"),
    "openai_agents": ("agents", "openai-agents"),
    "pydantic_ai": ("pydantic_ai", "pydantic-ai"),
}


@pytest.mark.parametrize("module", MODULES)
def test_without_its_package_an_integration_names_the_pip_line(module, monkeypatch):
    package, extra = MODULES[module]
    own = f"millgate.integrations.{module}"
    for name in [own, *sys.modules]:
        if name == own or name.split(".")[0] == package:
            monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtra) as raised:
        importlib.import_module(own)
    assert raised.value.hint == f"run in the clone of the repository: pip install '.[{extra}]'"


def test_hermes_needs_no_package():
    assert importlib.import_module("millgate.integrations.hermes")
