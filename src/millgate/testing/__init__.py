"""Shipped fakes and contracts: test your own store or agent with what Millgate is tested with.

Names load when they are first used, so that the fakes work if pytest is not installed.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from millgate.testing.fakes import FailingStore, FixedClock, strict
    from millgate.testing.model import ScriptedModel
    from millgate.testing.store import StoreContract

__all__ = ["FailingStore", "FixedClock", "ScriptedModel", "StoreContract", "strict"]

_HOME = {
    "FailingStore": "fakes",
    "FixedClock": "fakes",
    "ScriptedModel": "model",
    "StoreContract": "store",
    "strict": "fakes",
}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
