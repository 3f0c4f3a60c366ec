"""Masks: two results of a tool are the same if they differ only in parts that change on every call.

Such parts are times, durations, ids, addresses, ports, temporary paths and serial numbers. Each becomes one sign.
A hexadecimal word behind a label (`Chunk ID: f6ac62`) is an id if it is another one of the same length in the other
result. A paragraph in brackets that an agent appends, and that counts the copies itself, is no part of the result.
What may be progress stays: "12 of 50", "3/10", "45 %", counts of tests, bytes and rows, plain ids of records. Masking
goes line by line, from the first to the last in which two results differ, and short lines are remembered. Every
expression is linear: runs are possessive or bounded, and none stands inside another.
"""

import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from millgate.text.lazy_pattern import lazy_compile

# Longer lines, as JSON on one line, are cut at commas too. Chosen, not measured.
LONG_LINE = 2_000
LONG_TEXT = 100_000  # longer results are compared as they are: masking takes time, a copy is a copy
BESIDE = 48  # characters beside a UUID that make it a detail of its line
# Characters of changed lines that one `Effort` masks: a second. Eight copies of the longest results have 1.6 million.
MOST_MASKED = 2_000_000
REMEMBERED = 500  # characters of a line that is remembered once masked: all of them take 10 MB

_NOTE = "\n\n[millgate: "  # how a note of ours begins: it is not part of the result

_MONTH = "(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]{0,6}"
_CLOCK = r"\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d{1,9})?)?"
_ZONE = r"(?: ?(?:Z\b|UTC|GMT|CES?T|[ECMP][SD]T|[+-]\d{2}:?\d{2}\b))?"
_UNIT = (
    "(?:ns|us|µs|μs|ms|msecs?|secs?|mins?|hrs?|(?:nano|micro|milli)?seconds?|minutes?|hours?|days?)"
)
# What numbers the calls of a service and not the things it serves.
_SERIAL = (
    "(?:request|req|trace|span|correlation|session|transaction|connection|conn|invocation|process|thread|worker|call|"
    "response|execution|operation|attempt|retry|try|iteration|seq|sequence|counter|pid|tid|ppid|pgid|port|seed)"
)
_TAKES = (
    "(?:elapsed|duration|took|latency|uptime|runtime|wall[ _-]?time|cpu[ _-]?time|total[ _-]?time|time[ _-]?taken|time)"
)  # fmt: skip
_PREFIXES = "req|call|toolu|msg|chatcmpl|resp|trace|sess|session|conn|evt|rid|cid|txn|inv|exec"
_IS = r"""["']?\s{0,2}[:=#]?\s{0,2}["']?"""
_NOT_PROGRESS = r"(?!\s{0,2}(?:/|of\b|out of\b|%|percent\b))"

Replace = str | Callable[[re.Match[str]], str]


def _temporary(found: re.Match[str]) -> str:
    """A path under a folder for temporary files, with `*` for its random names."""
    return re.sub(r"[^/\\]{1,255}", lambda part: "*" if _is_random(part[0]) else part[0], found[0])


def _is_random(name: str) -> bool:
    digits = sum(map(str.isdigit, name))
    return name.startswith(("tmp", "temp")) or (len(name) >= 6 and digits > 0) or digits >= 4


def _identifier(found: re.Match[str]) -> str:
    """An id with a service's prefix, if the rest looks drawn and not named."""
    rest = found[2]
    digits = sum(map(str.isdigit, rest))
    return f"{found[1]}*" if digits >= 2 and len(rest) >= 6 else found[0]


def _keep_label(found: re.Match[str]) -> str:
    """The name of a value, with `*` for the value."""
    return f"{found[1]}*"


def _record(found: re.Match[str]) -> str:
    """A UUID without a label: beside a sentence it is a detail, alone it is the result."""
    return "*" if len(found.string) - len(found[0]) >= BESIDE else found[0]


# For each rule: what a line must hold for it to apply (looking is cheap), what it finds, and what stands for that.
_RULES: tuple[tuple[tuple[str, ...], re.Pattern[str], Replace], ...] = tuple(
    (needs, lazy_compile(rule, re.IGNORECASE), replace)
    for needs, rule, replace in (
        (
            ("/tmp", "/var/folders", "/dev/shm", "\\temp"),  # noqa: S108  (names to look for)
            r"(?:/tmp|/var/folders|/dev/shm|\\temp)[/\\][\w.+\\/-]{1,400}",
            _temporary,
        ),
        (
            ("-",),
            rf"\b({_SERIAL}[_ -]?(?:id|no|number)?{_IS})[0-9a-f]{{8}}-[0-9a-f-]{{27}}\b",
            _keep_label,
        ),
        (("-",), r"\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b", _record),
        (("id",), rf"\b({_SERIAL}[_ -]?id{_IS})[\w.:-]{{4,80}}+", _keep_label),
        (
            tuple(_PREFIXES.split("|")),
            rf"\b((?:{_PREFIXES})[-_])(\w{{6,80}}+)",
            _identifier,
        ),
        (("0x",), r"\b0x[0-9a-f]{4,16}\b", "*"),
        ((":",), rf"\b\d{{4}}[-/]\d{{2}}[-/]\d{{2}}[T _]{_CLOCK}{_ZONE}", "*"),
        (
            (":",),
            rf"\b(?:{_MONTH} {{1,2}}\d{{1,2}}|\d{{1,2}} {_MONTH})(?:,? \d{{4}})?,? {_CLOCK}{_ZONE}(?: \d{{4}})?",
            "*",
        ),
        ((":",), rf"\b\d{{1,3}}:\d{{2}}:\d{{2}}(?:[.,]\d{{1,9}})?{_ZONE}", "*"),
        (
            ("16", "17", "18", "19"),
            r"(?<![\w.])1[6-9]\d{8}(?:\d{3}|\d{6}|\d{9})?(?:\.\d{1,9})?(?![\w%])(?! ?(?:bytes|rows|lines|items)\b)",
            "*",
        ),
        (("",), rf"(?<![\w.])(?:\d++(?:\.\d++)?(?: ?(?:{_UNIT}|s)|[mh])(?![a-z_]) ?)++", "*"),
        (("m",), r"(?<![\w.])\d++m ?\d++(?:\.\d++)?s\b", "*"),
        (
            ("elapsed", "duration", "took", "latency", "time"),
            rf"\b({_TAKES}(?:[_ ]?(?:in )?(?:{_UNIT}|s))?{_IS})\d++(?:\.\d++)?(?![\w.]){_NOT_PROGRESS}",
            _keep_label,
        ),
        (
            tuple(_SERIAL[3:-1].split("|")),
            rf"\b({_SERIAL}(?:[_ ](?:id|no|number|count))?{_IS})\d++(?!\w){_NOT_PROGRESS}",
            _keep_label,
        ),
        (
            ("localhost:", "127.0.0.1:", "0.0.0.0:", "]:"),
            r"(localhost|127\.0\.0\.1|0\.0\.0\.0|\[::1?\]):\d{2,5}\b",
            lambda found: f"{found[1]}:*",
        ),
    )
)
_DIGIT = re.compile(r"\d")
BRACKETS = (
    2_000  # characters of a paragraph in brackets that an agent appends; longer ones are results
)
HEX_DIGITS = 6  # of an id at least: shorter words are numbers, units and versions more often
_WORDS = re.compile(r"([0-9A-Za-z]+)")
_HEX = re.compile(r"(?:[0-9a-f]+|[0-9A-F]+)")
# A number that is not part of "3 of 10" or "45 %": those are progress.
_NUMBER = re.compile(rf"(?<![\w.])\d{{1,4}}(?![\w.]\d){_NOT_PROGRESS}")


def mask(line: str) -> str:
    """The line with a sign in place of each part that changes on every call."""
    if not (_DIGIT.search(line) or "tmp" in line):
        return line
    low = line.lower()
    for needs, rule, replace in _RULES:
        for need in needs:
            if need in low:
                line = rule.sub(replace, line)
                break
    return line


@dataclass(slots=True)
class Effort:
    """How many characters were masked for the results of one conversation, which bounds the time."""

    chars: int = 0


def is_same(left: str, right: str, *, ids: bool = True, effort: Effort | None = None) -> bool:
    """Whether two results are equal once normalized, `ids` aside or not. Equal beginnings and ends are not read.

    After an effort of MOST_MASKED characters only equal results are the same.
    """
    if left == right:
        return True
    effort = effort or Effort()
    if max(len(left), len(right)) > LONG_TEXT or effort.chars > MOST_MASKED:
        return False
    ours, theirs = _split(left), _split(right)
    start = _count_equal(ours, theirs)
    ours, theirs = ours[start:], theirs[start:]
    end = _count_equal(ours[::-1], theirs[::-1])
    ours, theirs = ours[: len(ours) - end], theirs[: len(theirs) - end]
    effort.chars += sum(map(len, ours)) + sum(map(len, theirs))
    ours, theirs = _mask_parts(ours), _mask_parts(theirs)
    if len(ours) != len(theirs):
        return False
    pairs = zip(ours, theirs, strict=True)
    return all(a == b or (ids and _differ_in_ids(a, b)) for a, b in pairs)


def _split(text: str) -> list[str]:
    """The lines of a text, long ones cut at commas too."""
    return [
        part
        for line in text.splitlines()
        for part in (line.split(",") if len(line) > LONG_LINE else (line,))
    ]


def _count_equal(ours: Sequence[str], theirs: Sequence[str]) -> int:
    """How many parts both begin with."""
    differ = (n for n, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b)
    return next(differ, min(len(ours), len(theirs)))


def _mask_parts(parts: Sequence[str]) -> list[str]:
    """The masked parts without their layout and without blank ones; short ones are remembered."""
    return [
        masked
        for part in parts
        if (masked := _mask_short(part) if len(part) <= REMEMBERED else _mask_words(part))
    ]


def _mask_words(part: str) -> str:
    return mask(" ".join(part.split()))


_mask_short = lru_cache(maxsize=8192)(_mask_words)


def _differ_in_ids(left: str, right: str) -> bool:
    """Whether two lines differ only in hexadecimal words that stand behind a word: that names them.

    A hash that begins its line is the result itself, as that of `sha256sum`.
    """
    if len(left) != len(right):
        return False
    ours, theirs = _WORDS.split(left), _WORDS.split(right)
    if len(ours) != len(theirs):
        return False
    has_label = False
    for a, b in zip(ours, theirs, strict=True):
        if a != b and not (has_label and _are_drawn(a, b)):
            return False
        has_label = has_label or (len(a) > 1 and a.isalpha())
    return True


def _are_drawn(left: str, right: str) -> bool:
    """Whether two words are drawn ids: hexadecimal, of one length, and different in more than half of their places.

    Together they have letters and digits: numbers may be progress. So may ids that are counted up.
    """
    both = left + right
    return (
        len(left) == len(right) >= HEX_DIGITS
        and _HEX.fullmatch(both) is not None
        and not both.isdigit()
        and not both.isalpha()
        and 2 * sum(map(operator.ne, left, right)) > len(left)
    )


def without_counts(left: str, right: str) -> tuple[str, str] | None:
    """Both results without the last paragraph in which an agent counts the copies of a call; None if it does not.

    Such a paragraph stands in brackets, is the same in both but for one number, and that grows by one with the copy. It
    may begin with the second or third copy.
    """
    ours, theirs = _last_brackets(left), _last_brackets(right)
    mine, others = _NUMBER.findall(ours), _NUMBER.findall(theirs)
    if ours and theirs:
        pairs = {(int(a), int(b)) for a, b in zip(mine, others, strict=False) if a != b}
        is_count = (
            len(pairs) == 1
            and all(abs(a - b) == 1 for a, b in pairs)
            and _NUMBER.sub("", ours) == _NUMBER.sub("", theirs)
        )
    else:
        is_count = bool(mine or others) and {*mine, *others} <= {"2", "3"}
    if not is_count:
        return None
    return left.removesuffix(ours), right.removesuffix(theirs)


def _last_brackets(text: str) -> str:
    """The last paragraph if it is a sentence or more in brackets, else "". A list of values has no words."""
    at = text.rfind("\n\n[", -BRACKETS - 3) if text.endswith("]") else -1
    paragraph = text[at:] if at >= 0 else ""
    return paragraph if sum(map(str.isalpha, paragraph.split())) >= 5 else ""


def without_note(text: str) -> str:
    """A result as the tool gave it, without a note of ours at its end."""
    if not text.endswith("]"):
        return text
    if text.startswith(_NOTE.lstrip()):
        return ""
    at = text.rfind(_NOTE)
    return text[:at] if at >= 0 else text


def note_of(text: str) -> str:
    """A note in the form that `without_note` knows."""
    return f"{_NOTE}{text}]"
