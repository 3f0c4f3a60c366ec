"""Resume: how the model is asked to go on after a cut.

prefill       the assistant's text so far stands last; the model continues it
continuation  the assistant's text so far, then a short user turn that says what to do
restart       the request as it was (nothing was sent yet, or what was sent cannot be continued)
Divergence None says it in plain words, more firmly each time; a string is injected as it is.
Sampling changes from the first attempt on: greedy decoding walks straight back into its loop. If the target takes no
changed sampling, the words change instead: go back to the last sentence before the loop, then ask for an end.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from millgate.errors import InputError
from millgate.guard.policy import SAMPLING, Resume
from millgate.transcript.places import text_block

Message = Mapping[str, Any]

# Said to the model, never shown to the client. Measured on a small chat model: asking to go on or to
# finish recovers nearly always, and most answers then end by themselves.
TURNS = (
    "You repeated yourself. Go on from there without repeating anything, or finish your answer.",
    "You are still repeating yourself. Say only what is new, briefly, and then finish.",
    "Stop repeating. Finish your answer now in one or two new sentences.",
)

# For targets that take no sampling. Measured on a small chat model, greedily: going back to the last sentence before
# the loop helps every wording, and asking for a closing sentence is the surest (docs/figures.md).
NUDGE = (
    "You started to repeat yourself, so the repetition was removed. Continue your answer from there without repeating "
    "anything. If there is nothing new to add, finish with one sentence."
)
FINISH = "Stop here. Write one short closing sentence for your answer and nothing else."
TURNS_BY_WORDS = (NUDGE, FINISH, FINISH)
# Characters of a longer answer that the last of them shows: what misled the model may stand anywhere later. A shorter
# answer is shown whole, since a greedy model says the same to the same again.
OPENING = 300

# For a tool call or structured output that looped and was thrown away whole.
RETRY = "Your last attempt repeated itself without end and was discarded. Do it again, and keep it short."

# For a loop inside the reasoning: more reasoning is what it must not do.
ANSWER_NOW = "Your reasoning went round in circles. Stop reasoning and give your answer now."

# Said to the client, in the model's place, where every attempt has looped.
CLOSING = "I stopped here, since I kept repeating myself."


@dataclass(frozen=True, slots=True)
class Call:
    """One call of the model: the messages, and changed sampling, if any."""

    messages: tuple[Message, ...]
    sampling: Mapping[str, float] | None = None
    steering: str = ""
    """Text that must not come back in the answer."""
    answer_now: bool = False
    """Whether the reasoning looped, and should be as short as the API allows."""


def conversation(messages: str | Sequence[Message]) -> tuple[Message, ...]:
    """Messages as a tuple of mappings; a bare string is one user message.

    Objects of an SDK, such as the message of an earlier answer, are taken as what the SDK would send for them.
    """
    if isinstance(messages, str):
        return ({"role": "user", "content": messages},)
    if not isinstance(messages, Iterable):
        raise InputError(
            f"messages is {type(messages).__name__}, not a list of messages",
            hint='give [{"role": "user", "content": ...}], or a string',
        )
    return tuple(map(_as_message, messages))


def _as_message(message: object) -> Message:
    """A message as a mapping; its parts may be objects of an SDK too."""
    plain = _plain(message)
    if not isinstance(plain, Mapping):
        raise InputError(
            f"a message is {type(message).__name__}, not a mapping",
            hint='give {"role": ..., "content": ...}, a message of an SDK, or a string',
        )
    content = plain.get("content")
    if isinstance(content, list) and any(hasattr(part, "model_dump") for part in content):
        return {**plain, "content": list(map(_plain, content))}
    return plain


def _plain(value: object) -> object:
    """An SDK's object as plain values, without the fields it does not set; other values unchanged."""
    dump = getattr(value, "model_dump", None)
    return dump(mode="json", by_alias=True, exclude_unset=True) if callable(dump) else value


def next_call(
    messages: tuple[Message, ...],
    text: str,
    *,
    attempt: int,
    onset: int | None = None,
    whole: bool = False,
    reasoning: bool = False,
    divergence: str | None = None,
    how: Resume = "auto",
    sampling: Sequence[Mapping[str, float]] = SAMPLING,
) -> Call:
    """The call that goes on from the text that the client has, for the given attempt (1 is the first).

    `onset` is where the loop begins in that text, if it does there. It may have been in the `reasoning`, or in a tool
    call or structured output, of which the client gets nothing or the `whole`. No sampling: by words alone.
    """
    number = attempt - 1
    changed = sampling[min(number, len(sampling) - 1)] if sampling else None
    if how == "auto":
        how = "continuation" if divergence is None else "prefill"
    if how == "restart" and changed is not None:
        return Call(messages, changed, answer_now=reasoning)
    turns: Sequence[str] = TURNS
    if divergence is not None:
        turns = (divergence,)
    elif reasoning:
        turns = (ANSWER_NOW,)
    elif changed is None and whole:
        turns = (RETRY,)
    elif changed is None:
        turns = TURNS_BY_WORDS
        text = _go_back(text, onset, is_last=attempt >= len(turns))
    turn = turns[min(number, len(turns) - 1)]
    if how == "prefill":
        injected = divergence or ""
        return Call(_append_answer(messages, text + injected), changed, injected)
    history = _append_turn(_append_answer(messages, text), turn)
    return Call(history, changed, turn, reasoning)


def _go_back(text: str, onset: int | None, *, is_last: bool) -> str:
    """The text up to the last line or sentence before the loop; the last time, the same of how a long text begins."""
    before = text
    if onset is not None:
        # The end of a sentence may already count as part of the loop, if each copy ends with one too.
        before = text[: last_boundary(text[: onset + 2]) or onset]
    if not is_last:
        return before
    opening = before[: last_boundary(before[:OPENING]) or OPENING]
    return opening if len(before) > OPENING else text


def _append_answer(messages: tuple[Message, ...], text: str) -> tuple[Message, ...]:
    """The messages with the answer so far at the end, joined to a last assistant message if there is one."""
    if not text:
        return messages
    last = messages[-1] if messages else {}
    if last.get("role") == "assistant" and isinstance(last.get("content"), str):
        return (*messages[:-1], {**last, "content": last["content"] + text})
    return (*messages, {"role": "assistant", "content": text})


def _append_turn(messages: tuple[Message, ...], turn: str) -> tuple[Message, ...]:
    """The messages with a user turn at the end; two user turns become one, which strict templates ask for."""
    last = messages[-1] if messages else {}
    content = last.get("content")
    if last.get("role") == "user" and isinstance(content, str):
        return (*messages[:-1], {**last, "content": f"{content}\n\n{turn}"})
    if last.get("role") == "user" and isinstance(content, Sequence):
        return (*messages[:-1], {**last, "content": [*content, text_block(turn, content)]})
    return (*messages, {"role": "user", "content": turn})


ENDS = ("\n", ". ", "! ", "? ", "。", "！", "？")  # of a line or a sentence


def first_boundary(text: str) -> int:
    """Where to end near the start of `text`: after a line or sentence, else after a word, else 0."""
    ends = [at + len(mark) for mark in ENDS if (at := text.find(mark)) >= 0]
    return min(ends, default=max(0, text.find(" ")))


def last_boundary(text: str) -> int:
    """Where the last line or sentence that ends inside `text` ends; 0 when none does."""
    return max(at + len(mark) if (at := text.rfind(mark)) >= 0 else 0 for mark in ENDS)


class SteeringFilter:
    """Removes a steering text from a stream, even if it is split over pieces."""

    def __init__(self, steering: str = "") -> None:
        self._steering = steering
        self._kept = ""

    def feed(self, text: str) -> str:
        """The text that may be sent; what could be the start of the steering text waits."""
        steering = self._steering
        if not steering:
            return text
        text = (self._kept + text).replace(steering, "")
        most = min(len(text), len(steering) - 1)
        size = next((n for n in range(most, 0, -1) if text.endswith(steering[:n])), 0)
        self._kept = text[len(text) - size :]
        return text[: len(text) - size]

    def end(self) -> str:
        """What waited, and was not the steering text."""
        kept, self._kept = self._kept, ""
        return kept


class SentText:
    """The content that the client has, and what the model is shown of it.

    A loop that is cut at its onset is not shown, though the client may have its first characters.
    """

    def __init__(self) -> None:
        self.parts: list[str] = []
        self._omitted: list[tuple[int, int]] = []

    def __str__(self) -> str:
        return "".join(self.parts)

    @property
    def last(self) -> str:
        """The last character, empty if nothing was sent."""
        return self.parts[-1][-1:] if self.parts else ""

    def omit_from(self, onset: int) -> None:
        """Do not show the model what was sent from this offset on."""
        self._omitted = [part for part in self._omitted if part[0] < onset]
        self._omitted.append((onset, len(str(self))))

    def shown(self, end: int | None = None) -> str:
        """What the model is shown of the content up to `end`."""
        text = str(self)[:end]
        for start, stop in reversed(self._omitted):
            text = text[:start] + text[stop:]
        return text
