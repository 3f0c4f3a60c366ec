"""Sessions: the memory and the engine of one agent find each other by the agent's session.

hermes-agent makes both and tells neither of the other. The engine knows how full the window is, which the memory must
heed; the memory knows whose store it is, which the engine must not leave. Neither is kept alive from here.
"""

from collections.abc import Sequence
from typing import Protocol
from weakref import WeakValueDictionary

from millgate.gateway import Millgate
from millgate.integrations.hermes.host import Message
from millgate.types import ContextBudget


class SessionEngine(Protocol):
    """An engine, as a memory sees it."""

    def window(self) -> ContextBudget | None:
        """How full the window is; None if it is not known."""
        ...

    def recall(self, question: str, texts: Sequence[str]) -> str:
        """The block for a question; `texts` is what the model sees."""
        ...


class SessionMemory(Protocol):
    """A memory, as an engine sees it."""

    @property
    def gate(self) -> Millgate | None:
        """The gate of the session's tenant; None before it is open."""
        ...

    def see(self, texts: Sequence[str], messages: Sequence[Message]) -> None:
        """What the model sees in the coming turn: nothing of it is recalled again, and what left it is missed."""
        ...


engines: WeakValueDictionary[str, SessionEngine] = WeakValueDictionary()
"""The engine of each session."""
memories: WeakValueDictionary[str, SessionMemory] = WeakValueDictionary()
"""The memory of each session."""


def window_of(session: str) -> ContextBudget | None:
    """How full the window of a session is; None if no engine of ours serves it."""
    engine = engines.get(session)
    return engine.window() if engine is not None else None
