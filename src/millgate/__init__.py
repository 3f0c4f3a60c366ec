"""Millgate: the gate between an LLM agent and its model.

Names resolve on first use, so that importing the package costs nothing and loads no dependency.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from millgate.errors import AccessError as AccessError
    from millgate.errors import BusyError as BusyError
    from millgate.errors import ClosingError as ClosingError
    from millgate.errors import ConfigError as ConfigError
    from millgate.errors import DamagedError as DamagedError
    from millgate.errors import DeadlineError as DeadlineError
    from millgate.errors import GuardError as GuardError
    from millgate.errors import InputError as InputError
    from millgate.errors import LimitError as LimitError
    from millgate.errors import LoopError as LoopError
    from millgate.errors import MillgateError as MillgateError
    from millgate.errors import MissingExtra as MissingExtra
    from millgate.errors import NotFound as NotFound
    from millgate.errors import NotReady as NotReady
    from millgate.errors import PartialCallError as PartialCallError
    from millgate.errors import PausedError as PausedError
    from millgate.errors import QuotaError as QuotaError
    from millgate.errors import ScopeError as ScopeError
    from millgate.errors import StoreError as StoreError
    from millgate.errors import UpstreamError as UpstreamError
    from millgate.errors import UpstreamTimeout as UpstreamTimeout
    from millgate.gateway import Millgate as Millgate
    from millgate.guard import Detector as Detector
    from millgate.guard import Guard as Guard
    from millgate.guard import GuardedStream as GuardedStream
    from millgate.guard import GuardPolicy as GuardPolicy
    from millgate.guard import GuardReport as GuardReport
    from millgate.protocols import Bands as Bands
    from millgate.protocols import Clock as Clock
    from millgate.protocols import Embedder as Embedder
    from millgate.protocols import Grader as Grader
    from millgate.protocols import MemoryProvider as MemoryProvider
    from millgate.protocols import Retriever as Retriever
    from millgate.protocols import Store as Store
    from millgate.protocols import TokenCounter as TokenCounter
    from millgate.protocols import WebSearch as WebSearch
    from millgate.sessions.folding.folder import expand as expand
    from millgate.sessions.folding.folder import fold as fold
    from millgate.settings import Settings as Settings
    from millgate.types import Candidate as Candidate
    from millgate.types import Chunk as Chunk
    from millgate.types import Context as Context
    from millgate.types import ContextBudget as ContextBudget
    from millgate.types import Document as Document
    from millgate.types import Edge as Edge
    from millgate.types import Fact as Fact
    from millgate.types import Key as Key
    from millgate.types import Plan as Plan
    from millgate.types import Report as Report
    from millgate.types import Request as Request
    from millgate.types import Review as Review
    from millgate.types import Sifted as Sifted
    from millgate.types import Step as Step
    from millgate.types import Strategy as Strategy
    from millgate.types import Tier as Tier
    from millgate.types import Trace as Trace
    from millgate.types import Window as Window
    from millgate.types.notes import Fate as Fate
    from millgate.types.notes import Note as Note
    from millgate.types.notes import NoteCode as NoteCode
    from millgate.types.notes import Stage as Stage

__version__ = "0.1.0"

_NAMES = {
    "gateway": "Millgate",
    "settings": "Settings",
    "types": "Candidate Chunk Context ContextBudget Document Edge Fact Key Plan Report Request Review"
    " Sifted Step Strategy Tier Trace Window",
    "types.notes": "Fate Note NoteCode Stage",
    "protocols": "Bands Clock Embedder Grader MemoryProvider Retriever Store TokenCounter WebSearch",
    "guard": "Detector Guard GuardPolicy GuardReport GuardedStream",
    "sessions.folding.folder": "expand fold",
    "errors": "AccessError BusyError ClosingError ConfigError DamagedError DeadlineError GuardError"
    " InputError LimitError LoopError MillgateError MissingExtra NotFound NotReady PartialCallError"
    " PausedError QuotaError ScopeError StoreError UpstreamError UpstreamTimeout",
}
"""The names that stay, by the module that each comes from. All others may change in any release."""

_HOME = {name: home for home, names in _NAMES.items() for name in names.split()}

__all__ = sorted(_HOME)  # noqa: PLE0605  (it is a list)


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
