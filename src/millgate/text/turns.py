"""Turns: the head of a chat line in any format: who speaks, and when.

    [8 May, 2023] Ann: …     12/03/2023, 21:14 - Ann: …     <ann> …     **Ann:** …     ann (21:14): …     user: …

A head is a date, a speaker, or both; what it does not have is empty. Metadata that name the speaker go before
the form of the text. `kind: conversation` marks a turn whose speaker is unknown, and `kind: documents` a text that is
not a turn, whatever it opens with. A name before a colon does not prove a conversation ("Note: …" looks like a
turn): the whole collection does, see the index.
"""

from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from millgate.text.lazy_pattern import lazy_compile

CONVERSATION = "conversation"
DOCUMENTS = "documents"
_LONGEST = 60  # characters of a speaker's name
_HEAD = 200  # characters of a line that are looked at for its head
_FEW = 8  # lines; a log of half as many turns is too short to be sure of

_NAME = r"[^\W\d_][\w .'’-]{0,30}?"
_CLOCK = r"\d{1,4}[./:-][\d./:-]{1,16}(?:[T, ]{1,3}\d{1,2}[:.]\d\d[\d:.,Z+-]{0,12})?(?:\s?[AaPp]\.?[Mm]\b\.?)?"
_DATE = lazy_compile(rf"\[([^\]\n]{{0,60}})\]\s*|\(({_CLOCK})\)\s*|({_CLOCK})\s+(?:[-–—]\s+)?")
_SPEAKER = lazy_compile(
    rf"<@?({_NAME})>\s*"  # <ann>
    rf"|(?:\*\*|__)({_NAME})(?::(?:\*\*|__)|(?:\*\*|__)\s*:)\s*"  # **Ann:** and **Ann**:
    rf"|@?({_NAME})(?:,?\s*[\[(]([^\])\n]{{1,40}})[\])])?\s*(?::(?:\s+|$)|：\s*)"  # Ann: and Ann (21:14):
    rf"|@?({_NAME})\s*[,—–-]\s+\[?({_CLOCK})\]?\s*\n"  # Ann — 21:14, and the words below
)
# One of these ends every speaker; most texts have none in reach.
_AFTER_NAME = lazy_compile(r"[:：>\n]")
_REACH = 120  # characters from a name's begin within which its head ends
_ROLES = frozenset({"user", "assistant", "system", "tool", "human", "ai", "bot", "agent", "model"})
# What a line that surely is a turn begins with: a bracket, a role, or a name with a number on its line.
_PROMISING = lazy_compile(rf"[<\[(]|(?:@|\*\*|__)?(?i:{'|'.join(sorted(_ROLES))})|\S[^\d\n]*+\d|\d")
_MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
# What tells a time from any other note in brackets, such as "[core]" or "(v1.2)": a clock, a date with its year, a day
# before a word ("8 May", "8. März"), an English month before a number, or a day as it is written in East Asia.
_MOMENT = lazy_compile(
    r"\b\d{1,2}:\d\d\b|\b\d{4}[./-]\d{1,2}[./-]\d{1,2}\b|\b\d{1,2}[./-]\d{1,2}[./-]\d{4}\b"
    r"|\b\d{1,2}/\d{1,2}/\d\d\b|\b\d{1,2}\.?(?:st|nd|rd|th)?\s+(?:of\s+|de\s+)?[^\W\d_]{3}|\d{1,2}\s?[月월]"
    rf"|\b(?i:{'|'.join(month[:3] for month in _MONTHS)})[a-z]*\.?\s+\d"
)


class TurnParts(NamedTuple):
    """A text parted into date, speaker and what is said; the first two are empty in most texts.

    `declared` is whether metadata said that this is a turn. `certain` is whether its head can hardly be a label: a
    speaker with a time, in angle brackets, or by a role.
    """

    date: str
    speaker: str
    body: str
    declared: bool = False
    certain: bool = False


_NO_TURN = TurnParts("", "", "")


def part(text: str, metadata: Mapping[str, Any] | None = None) -> TurnParts:
    """Part a text at the head of a chat line, and take from its metadata what they tell."""
    if metadata and metadata.get("kind") == DOCUMENTS:
        return TurnParts("", "", text)
    line = _part(text)
    return _complete(line, metadata) if metadata else line


def _part(text: str) -> TurnParts:
    dated = _DATE.match(text)
    begin = dated.end() if dated else 0
    date = next(filter(None, dated.groups()), "") if dated else ""
    match = _SPEAKER.match(text, begin) if _AFTER_NAME.search(text, begin, begin + _REACH) else None
    if match is None:
        # a bare number is a date only before a speaker; one in brackets is always
        return (
            TurnParts(date, "", text[begin:])
            if text[:1] == "[" and dated
            else TurnParts("", "", text)
        )
    tag, marked, plain, when, above, moment = match.groups()
    if tag and f"</{tag}>" in text:
        return TurnParts("", "", text)  # an element of HTML or XML
    if when and not any(map(str.isdigit, when)):
        return TurnParts("", "", text)
    if plain and not (date or when) and _is_label(plain, match[0]):
        return TurnParts("", "", text)
    speaker = (tag or marked or plain or above or "").strip()
    date = date or when or moment or ""
    certain = bool(tag or _MOMENT.search(date)) or speaker.lower() in _ROLES
    return TurnParts(date, speaker, text[match.end() :], certain=certain)


def _is_label(name: str, head: str) -> bool:
    """Whether a bare name stands over a blank line, as "Example:" over a block of code does; only roles speak so."""
    return head.count("\n") > 1 and name.lower() not in _ROLES


def _complete(line: TurnParts, metadata: Mapping[str, Any]) -> TurnParts:
    role = metadata.get("role")
    known = metadata.get("speaker") or metadata.get("sender")
    speaker = known or (role if isinstance(role, str) and role.lower() in _ROLES else "")
    if not isinstance(speaker, str) or not (speaker or metadata.get("kind") == CONVERSATION):
        return line
    date = line.date or _date(metadata)
    speaker = line.speaker or speaker.strip()[:_LONGEST]
    return TurnParts(date, speaker, line.body, declared=True, certain=line.certain)


def _date(metadata: Mapping[str, Any]) -> str:
    """When it was said: a text as it stands, seconds since the epoch as a date."""
    when = next((metadata[key] for key in ("time", "timestamp", "date") if metadata.get(key)), "")
    if isinstance(when, int | float) and not isinstance(when, bool):
        try:
            return format_time(when)
        except (OverflowError, OSError, ValueError):
            return ""
    return when[:60] if isinstance(when, str) else ""


def add_head(text: str, metadata: Mapping[str, Any]) -> str:
    """A text under the head that its metadata tell; as it stands if they tell none, or if it has its own."""
    turn = part(text, metadata)
    if not turn.declared or not turn.speaker or turn.body != text:
        return text
    return f"[{turn.date}] {turn.speaker}: {text}" if turn.date else f"{turn.speaker}: {text}"


def split_turns(text: str) -> Sequence[int]:
    """Where the turns of a chat log begin, in order; nothing for a text that is none.

    A log is known by lines whose heads are certain, which make up half of its lines, by at least two of them from each
    speaker.
    """
    lines = text.splitlines(keepends=True)
    if 2 * len(lines) < _FEW:
        return []
    filled = len(lines) - sum(map(str.isspace, lines))
    spare = len(lines) - max(filled, _FEW) / 2  # may be no heads
    starts = array("q")  # a list of a million turns takes five times as much
    speakers: Counter[str] = Counter()
    place = 0
    for line in lines:
        turn = _part(line[:_HEAD]) if _PROMISING.match(line, 0, _HEAD) else _NO_TURN
        if turn.certain:
            starts.append(place)
            speakers[turn.speaker] += 1
        else:
            spare -= 1
            if spare < 0:  # most texts are not logs, and show it soon
                return []
        place += len(line)
    return starts if len(starts) >= 2 * len(speakers) else []


def format_time(seconds: float) -> str:
    """Seconds since the epoch as people ask for them, month by name; an error if no calendar reaches that far."""
    moment = datetime.fromtimestamp(seconds, UTC)
    return f"{moment:%H:%M} on {moment.day} {_MONTHS[moment.month - 1]}, {moment.year}"
