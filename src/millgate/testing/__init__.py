"""Shipped fakes and contracts: test your own store or agent with what Millgate is tested with.

Names load when they are first used, so that the fakes work if pytest is not installed.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from millgate.testing.fakes import FailingStore, FixedClock, ScriptedModel, strict
    from millgate.testing.store import StoreContract

__all__ = ["FailingStore", "FixedClock", "ScriptedModel", "StoreContract", "strict"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = "store" if name == "StoreContract" else "fakes"
    return getattr(import_module(f"{__name__}.{home}"), name)
