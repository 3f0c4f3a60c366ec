"""A request: one question to the gate."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from millgate.errors import InputError
from millgate.text.letters import replace_surrogates
from millgate.types.check import check_choice, check_type, check_unit, unique_names
from millgate.types.lengths import FOLDER_CHARS, LABEL_CHARS, NAME_CHARS, SESSION_CHARS
from millgate.types.plan import ContextBudget
from millgate.types.window import Window

# Query and window have theirs in the settings (`Limits`). The engine checks them: a trace that an older release stored
# may hold more.
LENGTHS: Final = {
    "tenant": NAME_CHARS,
    "session": SESSION_CHARS,
    "asker": NAME_CHARS,
    "cwd": FOLDER_CHARS,
    "task": LABEL_CHARS,
}
"""How many characters the texts of a request may have."""


@dataclass(frozen=True, slots=True)
class Request:
    """One question to the gate, and everything the caller knows about the moment it is asked in.

    `collection` is one name or several. A value of the wrong type is an InputError that names the field.
    """

    query: str
    """What the context is for."""
    budget: int = 1000
    """How large the block may be, in tokens."""
    tenant: str = "default"
    """Whose data to search."""
    collection: str | Sequence[str] = "main"
    """Which collection to search, or which ones."""
    window: Window = field(default_factory=Window)
    """What the model already sees."""
    k: int | None = None
    """How many chunks to give at most; without it, as many as fit."""
    context_budget: ContextBudget | None = None
    """How full the model's window is; the fuller, the less is given."""
    task: str | None = None
    """The kind of task, if the caller knows it."""
    session: str = ""
    """The conversation this belongs to."""
    asker: str = ""
    """The caller, if there are many: the id of a key. It bounds how many questions one caller may send to a person."""
    cwd: str = ""
    """The caller's working folder. The nearest folder above with a repository or project file names the project."""
    penalize: bool = True
    """Whether to push down what the model already sees."""
    graph: bool = True
    """Whether knowledge edges take part."""
    best_effort: bool = False
    """Whether to give what the model already sees when there is nothing else."""
    floor: float | None = None
    """The share of the expected evidence that 1,000 tokens of a chunk must hold; without it, grade.floor."""
    detail: Literal["whole", "preview"] = "whole"
    """Whole chunks, or previews of at most 300 characters."""
    order: Literal["rank", "edges"] = "rank"
    """Best first, or the best ones at both ends."""

    def __post_init__(self) -> None:
        for name in ("query", "tenant", "session", "asker", "cwd"):
            check_type(name, getattr(self, name), str)
        for name in ("penalize", "graph", "best_effort"):
            check_type(name, getattr(self, name), bool)
        check_type("budget", self.budget, int)
        check_type("window", self.window, Window)
        check_type("task", self.task, str, optional=True)
        check_type("context_budget", self.context_budget, ContextBudget, optional=True)
        check_type("k", self.k, int, optional=True)
        if self.k is not None and self.k < 1:
            raise InputError(f"k is {self.k}; it must be 1 or more, or None for whatever fits")
        if self.floor is not None:
            check_unit("floor", self.floor)
        check_choice("detail", self.detail, ("whole", "preview"))
        check_choice("order", self.order, ("rank", "edges"))
        for name in ("query", "session", "task"):  # what a trace keeps is UTF-8
            value = getattr(self, name)
            if value and not value.isascii():
                object.__setattr__(self, name, replace_surrogates(value))
        object.__setattr__(self, "collection", unique_names("collection", self.collection))

    @property
    def collections(self) -> tuple[str, ...]:
        """The names of the collections that are asked."""
        return (self.collection,) if isinstance(self.collection, str) else tuple(self.collection)
