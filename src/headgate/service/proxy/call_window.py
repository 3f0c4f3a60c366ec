"""Call window: what the window of one call holds, in tokens, as a step of its trace.

The x-ray reads the request as it would read it from a log. Texts are not kept, only sizes: by kind, by the tools whose
results stand there, of tool definitions, of blocks that Headgate injected, of what stands there twice or was made stale
by an edit.
"""

import time
from collections.abc import Mapping
from typing import Any

from headgate.guard.steps import as_json
from headgate.notes import Stage
from headgate.text.fence import LABEL, without_fences
from headgate.text.tokens import estimate_tokens
from headgate.types import Step
from headgate.xray.findings import KINDS
from headgate.xray.formats import entries_of
from headgate.xray.parts import parts_of
from headgate.xray.session import SessionBuilder

TOOLS = 8  # tools that are named, those that brought most


def window_step(fields: Mapping[str, Any], length: int) -> Step:
    """The window that a request's fields describe; `length` is the model's, 0 where unknown."""
    began = time.perf_counter()
    builder = SessionBuilder("", "")
    entries = list(entries_of(dict(fields)))
    for entry in entries:
        builder.take(entry)
    found = builder.finish()
    definitions = fields.get("tools")
    tools = estimate_tokens(as_json(definitions)) if definitions else 0
    facts: dict[str, float | str] = {
        "tokens": found.added + tools,
        **{kind: found.by_kind.get(kind, 0) for kind in KINDS},
        "tools": tools,
        "repeated": found.repeated,
        "stale": found.stale,
        "injected": sum(_count_injected(m) for entry in entries for m in entry.snapshot or ()),
        "length": length,
        **{f"result {use.tool}": use.tokens for use in found.tools[:TOOLS] if use.tokens},
    }
    facts = {name: value for name, value in facts.items() if value}
    return Step(Stage.WINDOW, time.perf_counter() - began, facts=facts)


def _count_injected(message: dict[str, Any]) -> int:
    """The tokens of the fenced blocks in a message of a person or of the system."""
    content = message.get("content")
    if isinstance(content, str) and f"<{LABEL} " not in content:
        return 0
    return sum(
        _count_fenced(part.text) for part in parts_of(message) if part.kind in ("human", "system")
    )


def _count_fenced(text: str) -> int:
    rest = without_fences(text)
    return estimate_tokens(text) - estimate_tokens(rest) if rest != text else 0
