"""Millgate: the gate between an LLM agent and its model.

Names resolve on first use, so that importing the package costs nothing and loads no dependency.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from millgate.errors import (
        ConfigError,
        GuardError,
        InputError,
        LimitError,
        LoopError,
        MillgateError,
        MissingExtra,
        NotFound,
        StoreError,
        UpstreamError,
    )
    from millgate.gateway import Millgate
    from millgate.guard import Guard
    from millgate.sessions.folding import expand, fold
    from millgate.settings import Settings
    from millgate.types import Candidate, Chunk, Context, ContextBudget, Plan, Request, Tier, Window

__version__ = "0.1.0"

_HOME = {
    "Candidate": "types",
    "Chunk": "types",
    "ConfigError": "errors",
    "Context": "types",
    "ContextBudget": "types",
    "Guard": "guard",
    "GuardError": "errors",
    "Millgate": "gateway",
    "MillgateError": "errors",
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
    "expand": "sessions.folding",
    "fold": "sessions.folding",
}

__all__ = [
    "Candidate",
    "Chunk",
    "ConfigError",
    "Context",
    "ContextBudget",
    "Guard",
    "GuardError",
    "InputError",
    "LimitError",
    "LoopError",
    "Millgate",
    "MillgateError",
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
