"""Rules: which texts are never folded, and which may not be pointed to.

    error           a failed call: what went wrong must stand where the model looks for it
    conflict        a listing of merge conflicts: a model that overlooks one commits it. Nothing points there either.
    short           a result of at most 40 lines, as of a listing: the pointer would take its place on the screen
    first reading   the first reading of a file: what is read first is edited next, and an edit copies its lines

Images, thinking, signed blocks, system prompts and a person's words are not results of tools, so none of them is
folded. A mark for the provider's cache stays on its block and decides nothing: agents move it from message to message,
and a text that was folded only while it has no mark would break the cache that the mark is for.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from millgate.sessions.folding.texts import NamedText

Rule = Literal["error", "conflict", "short", "first reading"]
RULES: frozenset[Rule] = frozenset(get_args(Rule))

SCREEN = 40  # lines of a result that is short: what a terminal of common height shows at once
HEAD = 400  # characters in which a result says that it failed
_FAILED = re.compile(
    r"\s{0,8}(?:<returncode>(?!0<)|exit code:? [1-9]|(?:fatal|error|[a-z_.]{0,60}(?:error|exception)):|"
    r"<tool_use_error>|traceback \(most recent)",
    re.IGNORECASE,
)
_TRACEBACK = "Traceback (most recent call last)"
_MARKERS = re.compile(r"(?<![<>])(?:<{7}|>{7}) ")  # longer rows of brackets are headings
_CONFLICTS = ("CONFLICT (", "Unmerged paths:", "both modified:", "both added:")
# Anthropic's edits of the window that take nothing but thinking, which is never pointed to.
_HARMLESS = "clear_thinking"
_CLEARS_RESULTS = "clear_tool_uses"


def is_failed(part: NamedText) -> bool:
    """Whether a result tells of an error."""
    return part.is_error or _FAILED.match(part.text[:HEAD]) is not None or _TRACEBACK in part.text


def lists_conflicts(text: str) -> bool:
    """Whether a text shows a merge conflict."""
    if any(mark in text for mark in _CONFLICTS):
        return True
    # looking for plain text first is some hundred times faster
    return ("<<<<<<< " in text or ">>>>>>> " in text) and _MARKERS.search(text) is not None


@dataclass(frozen=True, slots=True)
class Clears:
    """What a request lets the server clear from the window before the model reads it."""

    everything: bool = False
    results: bool = False
    calls: bool = False
    kept_tools: frozenset[str] = frozenset()
    """Tools whose calls and results stay."""

    def may_clear(self, part: NamedText) -> bool:
        """Whether the server may clear this text."""
        if self.everything:
            return True
        if part.tool in self.kept_tools:
            return False
        return (part.kind == "result" and self.results) or (part.kind == "call" and self.calls)


def clears_of(fields: Mapping[str, Any]) -> Clears:
    """What the fields of a request let the server clear; an edit that is not known may clear everything."""
    context = fields.get("context_management")
    if fields.get("truncation") == "auto":
        return Clears(everything=True)
    if not context:
        return Clears()
    edits = context.get("edits") if isinstance(context, dict) else context
    results = calls = False
    kept: list[frozenset[str]] = []
    for edit in edits if isinstance(edits, list) else (None,):
        kind = str(edit.get("type")) if isinstance(edit, dict) else ""
        if kind.startswith(_CLEARS_RESULTS):
            assert isinstance(edit, dict)
            results, calls = True, calls or bool(edit.get("clear_tool_inputs"))
            names = edit.get("exclude_tools")
            named = names if isinstance(names, list) else ()
            kept.append(frozenset(name for name in named if isinstance(name, str)))
        elif not kind.startswith(_HARMLESS):
            return Clears(everything=True)
    tools = frozenset.intersection(*kept) if kept else frozenset()
    return Clears(results=results, calls=calls, kept_tools=tools)
