"""Repair: two things that break a prompt cache and say nothing to the model, put as they were in the last request.

"tools": the same tools in another order are put back into the order of the last request. "marks": a request of
Anthropic's API that adds to the last one, and holds no `cache_control`, gets one on its last block, since a bridge on
the way may have dropped it. Both are off unless the setting `proxy.repair` names them.

A repair depends on the request and the last one of its conversation alone, so it can be run again. What the model reads
stays the same: tools are a set to it, and marks are for the provider. Text that changes by itself, such as the time of
day, is not held constant: the model would read a time that is over.
"""

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import orjson

from millgate.sessions.prompt_cache.difference import compare
from millgate.sessions.prompt_cache.segments import Prompt, read_prompt

# Blocks that may carry a mark; thinking may not, nor may a text that is empty (Anthropic's documentation).
_MARKED = ("text", "image", "document", "tool_use", "tool_result")
_MARK = {"type": "ephemeral"}


class Repair(NamedTuple):
    """The fields that are other than the client sent them, and what was done, in words."""

    fields: Mapping[str, Any]
    done: tuple[str, ...]


def repair(
    fields: Mapping[str, Any], last: Prompt, kinds: Collection[str], *, takes_marks: bool
) -> Repair | None:
    """What to send otherwise; None if nothing is to be repaired.

    `last` is the last request of the conversation as it was sent. `takes_marks` is whether the API has `cache_control`.
    """
    changed: dict[str, Any] = {}
    done = []
    if "tools" in kinds and (tools := _in_order(fields.get("tools"), last)):
        changed["tools"] = tools
        done.append("the tools are in the order of the last request")
    if "marks" in kinds and takes_marks:
        messages = _with_mark({**fields, **changed}, last)
        if messages:
            changed["messages"] = messages
            done.append("cache_control is put on the last block")
    return Repair(changed, tuple(done)) if changed else None


def _in_order(tools: object, last: Prompt) -> list[object] | None:
    """The tools in the order of the last request; None if they stand so, or are not the same tools."""
    if not isinstance(tools, list):
        return None
    wanted = [(e.checksum, e.chars) for e in last.elements if e.kind == "tool"]
    mine = [(e.checksum, e.chars) for e in read_prompt({"tools": tools}).elements]
    if mine == wanted or len(set(mine)) < len(mine) or sorted(mine) != sorted(wanted):
        return None
    return [tools[mine.index(key)] for key in wanted]


def _with_mark(fields: Mapping[str, Any], last: Prompt) -> list[object] | None:
    """The messages with a mark on their last block; None if there is one, or the request does not add to the last."""
    messages = fields.get("messages")
    if not isinstance(messages, list) or not messages or b'"cache_control"' in orjson.dumps(fields):
        return None
    found = compare(last, read_prompt(fields, before=last))
    if found is not None and found.change != "mark missing":
        return None
    message = messages[-1]
    content = message.get("content") if isinstance(message, dict) else None
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    if not isinstance(blocks, list) or not blocks or not isinstance(block := blocks[-1], dict):
        return None
    if block.get("type") not in _MARKED or block.get("text") == "":
        return None
    marked = [*blocks[:-1], {**block, "cache_control": _MARK}]
    return [*messages[:-1], {**message, "content": marked}]
