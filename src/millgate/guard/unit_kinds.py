"""Unit kinds: what kind of text repeats, and how long it must repeat before anyone may act.

A ruler of dashes, a table's padding or a list of zeros repeats in every good answer; a sentence does not.
So the unit of a repetition (its first `period` characters) is put into one of a few kinds, and each kind
has two lengths, both growing with the period p:
    suspect  repeated characters after which the tail is held back
    stall    characters of the whole run, first copy included, after which the answer is cut
"""

from collections import Counter
from typing import Literal

from millgate.types.policy import Policy, Positive, PositiveCount

UnitKind = Literal[
    "blank", "padding", "ruled", "rule", "sparse", "dull", "token", "dense", "data", "tiny", "code", "lines", "prose"
]  # fmt: skip

WORDS: tuple[UnitKind, ...] = ("prose", "lines")
TINY = 8  # periods below this are held back after a few characters
SHORT = 40  # periods below this may be fillers, which are held back later
SAMPLE = 1024  # characters of a unit that are looked at; a longer unit does not change its kind
PADDING = frozenset(" -=_.:*#~+|─│")  # what cells are filled and rules are drawn with
DENSE = 6  # different symbols without a blank that make an esoteric program or a pattern
DULL = 6  # different characters up to which a long unit has a tiny alphabet


def kind_of(unit: str) -> UnitKind:
    """The kind of a unit, from its alphabet.

    blank    one character (and newlines) over more than 8: base64 of zeros
    padding  short, of blanks and ruler characters alone: the cells and rules of a table
    ruled    one ruler character in lines: lines to write on
    rule     no letter, digit or emoji: other symbols, and longer rules, box drawing, indentation
    sparse   long, with at most 4 different characters or hardly a letter: tables, ASCII art
    dull     long, with at most 6 different characters and no digit
    token    letters and digits in one word that no language has: `GCTA`, `1234567890`, `0123456789abcdef`, base64
    dense    without a blank, with 6 and more different symbols: esoteric programs, regular expressions
    data     short, nearly all digits and separators (`0, 0, 0, `, `L 36 36`); or long, with a digit and at most 6
             different characters: a row of a matrix, of a map of tiles, of bytes
    tiny     at most 4 characters
    code     at least 8 % symbols, or some and at least 40 % blanks: indented
    lines    prose with line ends in it: a line of verse, an item of a list, a refrain
    prose    all the rest, and paragraphs: what has a blank line in it
    """
    counts = Counter(unit[:SAMPLE])
    size = counts.total()
    alphanumeric = sum(
        n for c, n in counts.items() if c.isalnum() or c >= "\U0001f000" or _is_braille(c)
    )
    distinct = len(counts) - ("\n" in counts)
    if distinct <= 1 and size > 8:
        return "blank" if alphanumeric else _kind_of_rule(counts)
    if not alphanumeric:
        return "padding" if size <= TINY and PADDING.issuperset(counts) else "rule"
    if _is_token(unit, distinct):
        return "token"
    if size > 20:
        return _kind_of_long(unit, counts, alphanumeric, distinct)
    if distinct > 1 and _count_digits(counts) >= 0.75 * alphanumeric:
        return "data"
    if size <= 4:
        return "tiny"
    return _kind_of_words(unit, counts, alphanumeric)


def _kind_of_rule(counts: Counter[str]) -> UnitKind:
    return "ruled" if PADDING.issuperset(counts.keys() - {"\n"}) else "rule"


def _is_braille(char: str) -> bool:
    return "\u2800" <= char <= "\u28ff"


def _count_digits(counts: Counter[str]) -> int:
    return sum(n for c, n in counts.items() if c.isdigit())


def _is_token(unit: str, distinct: int) -> bool:
    """Whether a unit is one ASCII word with digits in it or capitals inside, as an identifier is."""
    if distinct < 2 or not unit.isascii() or not unit.isalnum():
        return False
    return not (unit.isalpha() and (unit.islower() or unit.istitle()))


def _kind_of_long(unit: str, counts: Counter[str], alphanumeric: int, distinct: int) -> UnitKind:
    if distinct <= DULL and _count_digits(counts):
        return "data"
    if distinct <= 4 or alphanumeric <= 0.2 * counts.total():
        return "sparse"
    return "dull" if distinct <= DULL else _kind_of_words(unit, counts, alphanumeric)


def _kind_of_words(unit: str, counts: Counter[str], alphanumeric: int) -> UnitKind:
    size = counts.total()
    spaces = sum(n for c, n in counts.items() if c.isspace())
    symbols = size - alphanumeric - spaces
    if not spaces and _count_symbols(counts) >= DENSE:
        return "dense"
    if symbols >= 0.08 * size or (symbols and spaces >= 0.4 * size):
        return "code"
    if "\n" not in counts or "\n\n" in unit + unit[0]:  # the unit comes again behind itself
        return "prose"
    return "lines"


def _count_symbols(counts: Counter[str]) -> int:
    return sum(c.isascii() and not c.isalnum() for c in counts)


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
    lines_floor: PositiveCount = 300
    """Shortest run of lines that stalls: refrains and lists of short items stay below."""
    lines_copies: Positive = 4.1
    """Least copies of lines: a chorus is sung three or four times, so that it needs a part of a fifth ..."""
    longest_lines: PositiveCount = 256
    """... and a longer unit is not a chorus."""
    code_base: PositiveCount = 240
    """Code stalls at base + slope x period: tables, stack traces and logs hold many equal lines ..."""
    code_slope: Positive = 4.5
    """... see code_base ..."""
    code_cap: PositiveCount = 750
    """... up to this length, from which on the copies alone count."""
    one: PositiveCount = 256
    """A single letter, digit or emoji."""
    tiny: PositiveCount = 160
    """Units of 2 to 4 characters."""
    data: PositiveCount = 480
    """Lists of one number ..."""
    data_copies: Positive = 22.0
    """... or this many equal rows: maps and matrices have twenty and more ..."""
    data_cap: PositiveCount = 1500
    """... up to this length."""
    token: PositiveCount = 800
    """Keys and placeholders: they are written out in code ..."""
    tiny_token: PositiveCount = 384
    """... as are sequences over a tiny alphabet, in units of 2 to 4 characters ..."""
    dense: PositiveCount = 2048
    """... and so are esoteric programs."""
    padding: PositiveCount = 1024
    """One blank or ruler character: cells of a table are padded to the longest ..."""
    ruler: PositiveCount = 400
    """... and several of them."""
    ruled: PositiveCount = 2048
    """Lines to write on."""
    rule: PositiveCount = 300
    """Other symbols with a period up to 8."""
    wide_rule: PositiveCount = 1024
    """Rulers with a longer period."""
    sparse: PositiveCount = 440
    """Tables, ASCII art, deep indentation ..."""
    sparse_copies: Positive = 8.0
    """... and this many copies: boards have equal rows, and nested data repeats its blocks."""
    blank: PositiveCount = 8192
    """One letter in lines: base64 of a zero-padded file."""
    suspect_tiny: PositiveCount = 17
    """Characters of a run, first copy included, before one with a period below 8 is held back ..."""
    suspect_floor: PositiveCount = 40
    """... repeated characters for all others ..."""
    suspect_slope: Positive = 1.05
    """... or this many periods; a little over 1, so that one natural repeat is never held."""
    suspect_filler: PositiveCount = 120
    """The floor for rulers, tables and data whose period is under 40, and for padding."""

    def kind(self, unit: str) -> UnitKind:
        """The kind of a unit; see kind_of."""
        return kind_of(unit)

    def stall(self, period: int, kind: str) -> int:
        """Characters of the run, first copy included, at which it is a stall."""
        return int(max(self._min_length(period, kind), self.copies * period))

    def _min_length(self, period: int, kind: str) -> float:
        match kind:
            case "prose" | "lines" | "code":
                return self._text_length(period, kind)
            case "tiny":
                return self.tiny if period > 1 else self.one
            case "token":
                return self.token if period > 4 else self.tiny_token
            case "data":
                return max(self.data, min(self.data_copies * period, self.data_cap))
            case "dull":
                return min(128 + 4.4 * period, 1200)
            case "dense":
                return self.dense
            case _:
                return self._filler_length(period, kind)

    def _filler_length(self, period: int, kind: str) -> float:
        match kind:
            case "padding":
                return self.ruler if period > 1 else self.padding
            case "ruled":
                return self.ruled
            case "rule":
                return self.rule if period <= TINY else self.wide_rule
            case "sparse":
                return max(self.sparse, self.sparse_copies * period)
            case _:
                return self.blank

    def _text_length(self, period: int, kind: str) -> float:
        least = max(self.prose_floor, self.prose_base + self.prose_slope * period)
        if kind == "code":
            wanted = min(self.code_base + self.code_slope * period, self.code_cap)
            least = max(least, wanted)
        if kind != "lines":
            return least
        copies = self.lines_copies if period <= self.longest_lines else self.copies
        return max(least, self.lines_floor, copies * period)

    def suspect(self, period: int, kind: str) -> int:
        """Repeated characters, first copy not counted, after which the tail is held back."""
        if kind == "padding":
            return self.suspect_filler
        if period < TINY:
            return self.suspect_tiny - period
        filler = period < SHORT and kind in ("blank", "rule", "sparse", "data")
        floor = self.suspect_filler if filler else self.suspect_floor
        return int(max(floor, self.suspect_slope * period))

    def min_suspect(self, period: int) -> int:
        """A lower bound of `suspect` that needs no kind; the first, cheap comparison."""
        if period < TINY:
            return self.suspect_tiny - period
        return int(max(self.suspect_floor, self.suspect_slope * period))
