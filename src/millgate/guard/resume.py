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
from typing import Any, Literal

from millgate.errors import InputError
from millgate.guard.policy import SAMPLING, Resume
from millgate.transcript.places import text_block

Message = Mapping[str, Any]
History = Literal["kept", "before", "opening"]  # see ResumeAttempt

# Said to the model, never shown to the client. Measured on a small chat model: asking to go on or to
# finish recovers nearly always, and most answers then end by themselves.
TURNS = (
    "You repeated yourself. Go on from there without repeating anything, or finish your answer.",
    "You are still repeating yourself. Say only what is new, briefly, and then finish.",
    "Stop repeating. Finish your answer now in one or two new sentences.",
)


@dataclass(frozen=True, slots=True)
class ResumeAttempt:
    """One attempt to resume: the turn, and where the answer so far ends in the history that the model sees.

    kept     where the client's text ends, within the loop
    before   at the last line or sentence before the loop
    opening  the same within the first OPENING characters: what misled the model may stand anywhere later. An answer
             that is no longer than that is kept, since a greedy model says the same to the same again
    """

    turn: str
    history: History = "kept"


NUDGE = (
    "You started to repeat yourself, so the repetition was removed. Continue your answer from there without repeating "
    "anything. If there is nothing new to add, finish with one sentence."
)
FINISH = "Stop here. Write one short closing sentence for your answer and nothing else."

# For targets that take no sampling. Measured on a small chat model, greedily: going back to the last sentence before
# the loop helps every wording, and asking for a closing sentence is the surest (docs/figures.md).
ATTEMPTS_BY_WORDS = (
    ResumeAttempt(NUDGE, "before"),
    ResumeAttempt(FINISH, "before"),
    ResumeAttempt(FINISH, "opening"),
)
OPENING = 300  # characters; see ResumeAttempt

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
    steering: str = ""  # text that must not come back in the answer
    answer_now: bool = (
        False  # whether the reasoning looped, and should be as short as the API allows
    )


@dataclass(frozen=True, slots=True)
class Stop:
    """Where the answer was stopped: what the client has of it, where the loop begins in that, and what looped."""

    text: str
    onset: int | None = None  # None: not in the text
    whole: bool = False  # a tool call or structured output, of which the client has nothing
    reasoning: bool = False


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
    return tuple(as_message(message) for message in messages)


def as_message(message: object) -> Message:
    """A message as a mapping; its parts may be objects of an SDK too."""
    plain = _plain(message)
    if not isinstance(plain, Mapping):
        raise InputError(
            f"a message is {type(message).__name__}, not a mapping",
            hint='give {"role": ..., "content": ...}, a message of an SDK, or a string',
        )
    content = plain.get("content")
    if isinstance(content, list) and any(hasattr(part, "model_dump") for part in content):
        return {**plain, "content": [_plain(part) for part in content]}
    return plain


def _plain(value: object) -> object:
    """An SDK's object as plain values, without the fields it does not set; other values unchanged."""
    dump = getattr(value, "model_dump", None)
    return dump(mode="json", by_alias=True, exclude_unset=True) if callable(dump) else value


def next_call(
    messages: tuple[Message, ...],
    stop: Stop,
    *,
    attempt: int,
    divergence: str | None = None,
    how: Resume = "auto",
    sampling: Sequence[Mapping[str, float]] = SAMPLING,
) -> Call:
    """The call that goes on from a stop, for the given attempt (1 is the first); no sampling: by words alone."""
    changed = sampling[min(attempt, len(sampling)) - 1] if sampling else None
    if how == "auto":
        how = "continuation" if divergence is None else "prefill"
    if how == "restart" and changed is not None:
        return Call(messages, changed, answer_now=stop.reasoning)
    asked = _choose_attempt(stop, attempt, by_words=changed is None)
    text = stop.text if divergence is not None else _history(stop, asked.history)
    if how == "prefill":
        injected = divergence or ""
        if not text + injected:
            return Call(messages, changed)
        return Call(_append_answer(messages, text + injected), changed, injected)
    turn = asked.turn if divergence is None else divergence
    history = _append_answer(messages, text) if text else messages
    return Call(_append_turn(history, turn), changed, turn, stop.reasoning)


def _choose_attempt(stop: Stop, number: int, *, by_words: bool) -> ResumeAttempt:
    if stop.reasoning:
        return ResumeAttempt(ANSWER_NOW)
    if not by_words:
        return ResumeAttempt(TURNS[min(number, len(TURNS)) - 1])
    if stop.whole:
        return ResumeAttempt(RETRY)
    return ATTEMPTS_BY_WORDS[min(number, len(ATTEMPTS_BY_WORDS)) - 1]


def _history(stop: Stop, shown: History) -> str:
    """The part of the answer so far that the model is shown."""
    if shown == "kept":
        return stop.text
    text = before_loop(stop)
    if shown == "before":
        return text
    return text[: last_boundary(text[:OPENING]) or OPENING] if len(text) > OPENING else stop.text


def before_loop(stop: Stop) -> str:
    """The text up to the last line or sentence that ends before the loop; up to the loop if none does."""
    if stop.onset is None:
        return stop.text
    # The end of a sentence may already count as part of the loop, if each copy ends with one too.
    return stop.text[: last_boundary(stop.text[: stop.onset + 2]) or stop.onset]


def _append_answer(messages: tuple[Message, ...], text: str) -> tuple[Message, ...]:
    """The messages with the answer so far at the end, joined to a last assistant message if there is one."""
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


def first_boundary(text: str, reach: int) -> int:
    """Where to end near the start of `text`: after a line or sentence, else after a word, else 0."""
    near = text[:reach]
    ends = [at + len(mark) for mark in ENDS if (at := near.find(mark)) >= 0]
    if ends:
        return min(ends)
    blank = near.find(" ")
    return blank if blank > 0 else 0


def last_boundary(text: str) -> int:
    """Where the last line or sentence that ends inside `text` ends; 0 when none does."""
    return max(at + len(mark) if (at := text.rfind(mark)) >= 0 else 0 for mark in ENDS)


class SteeringFilter:
    """Removes a steering text from a stream, even if it is split over pieces."""

    def __init__(self, steering: str) -> None:
        self._steering = steering
        self._kept = ""

    def feed(self, text: str) -> str:
        """The text that may be sent; what could be the start of the steering text waits."""
        steering = self._steering
        if not steering:
            return text
        text = (self._kept + text).replace(steering, "")
        size = next(
            (
                n
                for n in range(min(len(text), len(steering) - 1), 0, -1)
                if text.endswith(steering[:n])
            ),
            0,
        )
        self._kept = text[len(text) - size :]
        return text[: len(text) - size]

    def end(self) -> str:
        """What waited, and was not the steering text."""
        kept, self._kept = self._kept, ""
        return kept


class SentText:
    """The content that the client has, and what the model is shown of it.

    A loop that is cut at its onset is left out of the history, although the client may have its first characters.
    """

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._omitted: list[tuple[int, int]] = []  # spans that the model is not shown

    def append(self, text: str) -> None:
        """Take in what goes out."""
        self._parts.append(text)

    def __str__(self) -> str:
        return "".join(self._parts)

    @property
    def parts(self) -> int:
        """How many parts were sent."""
        return len(self._parts)

    def text_from(self, part: int) -> str:
        """What was sent from this part on."""
        return "".join(self._parts[part:])

    @property
    def last(self) -> str:
        """The last character, empty if nothing was sent."""
        return self._parts[-1][-1:] if self._parts else ""

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
