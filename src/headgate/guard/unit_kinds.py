"""Unit kinds: what kind of text repeats, and how long it must repeat before anyone may act.

A ruler of dashes, a table's padding or a list of zeros repeats in every good answer; a sentence does not.
So the unit of a repetition (its first `period` characters) is put into one of a few kinds, and each kind
has two lengths, both growing with the period p:
    suspect  repeated characters after which the tail is held back
    stall    characters of the whole run, first copy included, after which the answer is cut
"""

from collections import Counter
from typing import Literal

from headgate.policy import Policy, Positive, PositiveCount

UnitKind = Literal["blank", "rule", "sparse", "dull", "data", "tiny", "code", "prose"]

SHORT = 40  # periods below this may be fillers, which are held back later
SAMPLE = 1024  # characters of a unit that are looked at; a longer unit does not change its kind


def kind_of(unit: str) -> UnitKind:
    """The kind of a unit, from its alphabet.

    blank   one character (and newlines) over more than 8: base64 of zeros
    rule    no letter, digit or emoji: rulers, box drawing, indentation
    sparse  long, with at most 4 different characters or hardly a letter: tables, ASCII art
    dull    long, with at most 6 different characters
    data    short, nearly all digits and separators (`0, 0, 0, `, `L 36 36`) or encoded, as base64 is (`ACQAJAAk`)
    tiny    at most 4 characters
    code    at least 8 % symbols, or some and at least 40 % blanks: indented
    prose   all the rest
    """
    counts = Counter(unit[:SAMPLE])
    size = counts.total()
    alphanumeric = sum(n for c, n in counts.items() if c.isalnum() or c >= "\U0001f000")
    distinct = len(counts) - ("\n" in counts)
    if distinct <= 1 and size > 8:
        return "blank" if alphanumeric else "rule"
    if not alphanumeric:
        return "rule"
    if size > 20:
        return _kind_of_long(counts, size, alphanumeric, distinct)
    if distinct > 1 and (_count_digits(counts) >= 0.75 * alphanumeric or _is_encoded(unit)):
        return "data"
    if size <= 4:
        return "tiny"
    return _kind_of_words(counts, size, alphanumeric)


def _count_digits(counts: Counter[str]) -> int:
    return sum(n for c, n in counts.items() if c.isdigit())


def _is_encoded(unit: str) -> bool:
    """Whether a unit of 5 characters and more is one ASCII word in mixed case, capitals inside it."""
    if len(unit) <= 4 or not unit.isascii() or not unit.isalnum():
        return False
    return not (unit.islower() or unit.isupper() or unit.istitle())


def _kind_of_long(counts: Counter[str], size: int, alphanumeric: int, distinct: int) -> UnitKind:
    if distinct <= 4 or alphanumeric <= 0.2 * size:
        return "sparse"
    return "dull" if distinct <= 6 else _kind_of_words(counts, size, alphanumeric)


def _kind_of_words(counts: Counter[str], size: int, alphanumeric: int) -> UnitKind:
    spaces = sum(n for c, n in counts.items() if c.isspace())
    symbols = size - alphanumeric - spaces
    return "code" if symbols >= 0.08 * size or (symbols and spaces >= 0.4 * size) else "prose"


class RepeatPolicy(Policy):
    """How long a repetition may go on, by kind of its unit; all lengths in characters.

    Clean answers of a small real model hold up to 2.99 exact copies of a paragraph and no more, so no
    kind of text is cut before its third copy is complete.
    """

    copies: Positive = 3.0
    """Whole copies that every stall needs, whatever its kind."""
    prose_floor: PositiveCount = 180
    """Shortest run of prose that stalls; chants and choruses of clean answers stay below."""
    prose_base: PositiveCount = 50
    """Prose stalls at base + slope x period, the floor or the copies, whichever is longest."""
    prose_slope: Positive = 2.2
    """See prose_base."""
    code_base: PositiveCount = 240
    """Code stalls at base + slope x period: tables, stack traces and logs hold many equal lines ..."""
    code_slope: Positive = 4.5
    """... see code_base ..."""
    code_cap: PositiveCount = 900
    """... up to this length, from which on the copies alone count."""
    one: PositiveCount = 256
    """A single letter, digit or emoji."""
    tiny: PositiveCount = 160
    """Units of 2 to 4 characters."""
    data: PositiveCount = 480
    """Lists of one number."""
    rule: PositiveCount = 400
    """Rulers and blanks with a period up to 8."""
    wide_rule: PositiveCount = 1024
    """Rulers with a longer period."""
    sparse: PositiveCount = 640
    """Tables, ASCII art, deep indentation ..."""
    sparse_copies: Positive = 4.5
    """... and so many copies: nested data repeats its blocks."""
    blank: PositiveCount = 8192
    """One letter in lines: base64 of a zero-padded file."""
    suspect_floor: PositiveCount = 40
    """Repeated characters before the tail is held back ..."""
    suspect_slope: Positive = 1.05
    """... or this many periods; a little over 1, so that one natural repeat is never held."""
    suspect_filler: PositiveCount = 120
    """The floor for rulers, tables, tiny units and data whose period is under 40."""

    def kind(self, unit: str) -> UnitKind:
        """The kind of a unit; see kind_of."""
        return kind_of(unit)

    def stall(self, period: int, kind: str) -> int:
        """Characters of the run, first copy included, at which it is a stall."""
        return int(max(self._min_length(period, kind), self.copies * period))

    def _min_length(self, period: int, kind: str) -> float:
        match kind:
            case "blank":
                return self.blank
            case "rule":
                return self._rule_length(period)
            case "sparse":
                return max(self.sparse, self.sparse_copies * period)
            case "data":
                return self.data
            case "tiny":
                return self.tiny if period > 1 else self.one
            case "dull":
                return min(128 + 4.4 * period, 1200)
            case _:
                return self._text_length(period, kind)

    def _rule_length(self, period: int) -> float:
        if period > 8:
            return self.wide_rule
        return max(self.rule, min(4 * (64 + 2.2 * period), self.wide_rule))

    def _text_length(self, period: int, kind: str) -> float:
        least = max(self.prose_floor, self.prose_base + self.prose_slope * period)
        if kind == "code":
            wanted = min(self.code_base + self.code_slope * period, self.code_cap)
            least = max(least, wanted)
        return least

    def suspect(self, period: int, kind: str) -> int:
        """Repeated characters, first copy not counted, after which the tail is held back."""
        filler = period < SHORT and kind not in ("prose", "code", "dull")
        floor = self.suspect_filler if filler else self.suspect_floor
        return int(max(floor, self.suspect_slope * period))

    def min_suspect(self, period: int) -> int:
        """A lower bound of `suspect` that needs no kind; the first, cheap comparison."""
        if period <= 4:
            return self.suspect_filler
        return int(max(self.suspect_floor, self.suspect_slope * period))
