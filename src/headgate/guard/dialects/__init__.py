"""Dialects: one file for each API, with all that is known of it. A new API is a new file and its line here."""

from headgate.guard.dialects.chat import ChatDialect
from headgate.guard.dialects.completions import CompletionsDialect
from headgate.guard.dialects.dialect import Dialect
from headgate.guard.dialects.messages import MessagesDialect
from headgate.guard.dialects.responses import ResponsesDialect

DIALECTS: tuple[type[Dialect], ...] = (
    ChatDialect,
    CompletionsDialect,
    MessagesDialect,
    ResponsesDialect,
)


def dialect_for(path: str) -> Dialect:
    """The dialect of a path; that of OpenAI's chat for paths that belong to none."""
    found = (kind for kind in DIALECTS if path == kind.path or path.startswith(f"{kind.path}/"))
    return next(found, ChatDialect)()
