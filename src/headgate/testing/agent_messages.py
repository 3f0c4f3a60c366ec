"""Agent messages: what an agent did, turn by turn, written as the messages of one of the three APIs."""

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Api = Literal["chat", "messages", "responses"]
APIS: tuple[Api, ...] = ("chat", "messages", "responses")


@dataclass(frozen=True, slots=True)
class MadeCall:
    """A call as a session tells it: tool, arguments, result."""

    tool: str
    arguments: dict[str, Any]
    result: str


@dataclass(frozen=True, slots=True)
class Turn:
    """What one message of the model did: it spoke, or called (several at once), or a person spoke."""

    calls: tuple[MadeCall, ...] = ()
    text: str = ""
    human: str = ""


def render(turns: Sequence[Turn], api: Api, *, seed: int = 0) -> list[dict[str, Any]]:
    """The session as messages of one API; the seed moves white space and order of JSON."""
    chance = random.Random(seed)  # noqa: S311
    written: list[dict[str, Any]] = []
    for number, turn in enumerate(turns):
        write = {"chat": _chat, "messages": _messages, "responses": _responses}[api]
        written += write(turn, number, chance)
    return written


def _chat(turn: Turn, number: int, chance: random.Random) -> Iterator[dict[str, Any]]:
    if turn.human:
        yield {"role": "user", "content": turn.human}
        return
    calls = [
        {
            "id": f"call_{number}_{n}",
            "type": "function",
            "function": {"name": call.tool, "arguments": _dump(call.arguments, chance)},
        }
        for n, call in enumerate(turn.calls)
    ]
    yield {"role": "assistant", "content": turn.text or None} | (
        {"tool_calls": calls} if calls else {}
    )
    for n, call in _shuffle_results(turn, chance):
        yield {"role": "tool", "tool_call_id": f"call_{number}_{n}", "content": call.result}


def _messages(turn: Turn, number: int, chance: random.Random) -> Iterator[dict[str, Any]]:
    if turn.human:
        yield {"role": "user", "content": turn.human}
        return
    blocks: list[dict[str, Any]] = [{"type": "text", "text": turn.text}] if turn.text else []
    for n, call in enumerate(turn.calls):
        shuffled = dict(chance.sample(list(call.arguments.items()), len(call.arguments)))
        blocks.append({"type": "tool_use", "id": f"toolu_{number}_{n}", "name": call.tool, "input": shuffled})  # fmt: skip
    yield {"role": "assistant", "content": blocks}
    if turn.calls:
        results = [
            {"type": "tool_result", "tool_use_id": f"toolu_{number}_{n}", "content": [{"type": "text", "text": call.result}]}
            for n, call in _shuffle_results(turn, chance)
        ]  # fmt: skip
        yield {"role": "user", "content": results}


def _responses(turn: Turn, number: int, chance: random.Random) -> Iterator[dict[str, Any]]:
    if turn.human:
        yield {"role": "user", "content": [{"type": "input_text", "text": turn.human}]}
        return
    yield {"type": "reasoning", "id": f"rs_{number}", "summary": []}
    if turn.text:
        parts = [{"type": "output_text", "text": turn.text}]
        yield {"type": "message", "role": "assistant", "content": parts}
    for n, call in enumerate(turn.calls):
        yield {"type": "function_call", "call_id": f"call_{number}_{n}", "name": call.tool, "arguments": _dump(call.arguments, chance)}  # fmt: skip
    for n, call in _shuffle_results(turn, chance):
        yield {"type": "function_call_output", "call_id": f"call_{number}_{n}", "output": call.result}  # fmt: skip


def _shuffle_results(turn: Turn, chance: random.Random) -> list[tuple[int, MadeCall]]:
    """Results of parallel calls, in the order they came back."""
    return chance.sample(list(enumerate(turn.calls)), len(turn.calls))


def _dump(arguments: dict[str, Any], chance: random.Random) -> str:
    names = chance.sample(list(arguments), len(arguments))
    indent = chance.choice((None, None, 2))
    return json.dumps({name: arguments[name] for name in names}, indent=indent)
