"""Headgate: the gate between an LLM agent and its model.

Names resolve on first use, so that importing the package costs nothing and loads no dependency.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headgate.errors import (
        ConfigError,
        GuardError,
        HeadgateError,
        InputError,
        LimitError,
        LoopError,
        MissingExtra,
        NotFound,
        StoreError,
        UpstreamError,
    )
    from headgate.folding import expand, fold
    from headgate.gateway import Headgate
    from headgate.guard import Guard
    from headgate.settings import Settings
    from headgate.types import Candidate, Chunk, Context, ContextBudget, Plan, Request, Tier, Window

__version__ = "0.1.0"

_HOME = {
    "Candidate": "types",
    "Chunk": "types",
    "ConfigError": "errors",
    "Context": "types",
    "ContextBudget": "types",
    "Guard": "guard",
    "GuardError": "errors",
    "Headgate": "gateway",
    "HeadgateError": "errors",
    "InputError": "errors",
    "LimitError": "errors",
    "LoopError": "errors",
    "MissingExtra": "errors",
    "NotFound": "errors",
    "Plan": "types",
    "Request": "types",
    "Settings": "settings",
    "StoreError": "errors",
    "Tier": "types",
    "UpstreamError": "errors",
    "Window": "types",
    "expand": "folding",
    "fold": "folding",
}

__all__ = [
    "Candidate",
    "Chunk",
    "ConfigError",
    "Context",
    "ContextBudget",
    "Guard",
    "GuardError",
    "Headgate",
    "HeadgateError",
    "InputError",
    "LimitError",
    "LoopError",
    "MissingExtra",
    "NotFound",
    "Plan",
    "Request",
    "Settings",
    "StoreError",
    "Tier",
    "UpstreamError",
    "Window",
    "expand",
    "fold",
]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
