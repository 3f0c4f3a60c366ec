"""Masks: two results are the same when they differ only in what changes by itself.

By itself change: times, durations, ids, addresses, ports, temporary paths and serial numbers. Each becomes one sign.
What may be progress stays: "12 of 50", "3/10", "45 %", counts of tests, bytes and rows, plain ids of records.
Masking goes line by line, and lines that were masked before are remembered. Every expression is linear: runs are possessive
or bounded, and none stands inside another.
"""

import re
from collections.abc import Callable, Iterator
from functools import lru_cache

from headgate.text.late_pattern import compile_late

LONG_LINE = 2_000  # longer ones, as JSON on one line, are cut at commas too
LONG_TEXT = 100_000  # longer results are compared as they are: masking takes time, a copy is a copy
BESIDE = 48  # characters beside a UUID that make it a detail of its line

_NOTE = "\n\n[headgate: "  # how a note of ours begins: it is no part of the result

_MONTH = "(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]{0,6}"
_CLOCK = r"\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d{1,9})?)?"
_ZONE = r"(?: ?(?:Z\b|UTC|GMT|CES?T|[ECMP][SD]T|[+-]\d{2}:?\d{2}\b))?"
_UNIT = (
    "(?:ns|us|µs|μs|ms|msecs?|secs?|mins?|hrs?|(?:nano|micro|milli)?seconds?|minutes?|hours?|days?)"
)
# What numbers the calls of a service and not the things it serves.
_SERIAL = (
    "(?:request|req|trace|span|correlation|session|transaction|connection|conn|invocation|process|thread|worker|call|"
    "response|execution|operation|attempt|retry|try|iteration|seq|sequence|counter|pid|tid|ppid|port|seed)"
)
_TAKES = (
    "(?:elapsed|duration|took|latency|uptime|runtime|wall[ _-]?time|cpu[ _-]?time|total[ _-]?time|time[ _-]?taken|time)"
)  # fmt: skip
_PREFIXES = "req|call|toolu|msg|chatcmpl|resp|trace|sess|session|conn|evt|rid|cid|txn|inv|exec"
_IS = r"""["']?\s{0,2}[:=#]?\s{0,2}["']?"""
_NOT_PROGRESS = r"(?!\s{0,2}(?:/|of\b|out of\b|%|percent\b))"

Replace = str | Callable[[re.Match[str]], str]


def _temporary(found: re.Match[str]) -> str:
    """A path under a folder for temporary files, without its random names."""
    return re.sub(r"[^/\\]{1,255}", lambda part: "*" if _is_random(part[0]) else part[0], found[0])


def _is_random(name: str) -> bool:
    digits = sum(map(str.isdigit, name))
    return name.startswith(("tmp", "temp")) or (len(name) >= 6 and digits > 0) or digits >= 4


def _identifier(found: re.Match[str]) -> str:
    """An id with a service's prefix, if the rest looks drawn and not named."""
    rest = found[2]
    digits = sum(map(str.isdigit, rest))
    return f"{found[1]}*" if digits >= 2 and len(rest) >= 6 else found[0]


def _record(found: re.Match[str]) -> str:
    """A UUID without a label: beside a sentence it is a detail, by itself it is the result."""
    return "*" if len(found.string) - len(found[0]) >= BESIDE else found[0]


# For each rule: what a line must hold for it to apply (looking is cheap), what it finds, and what stands for that.
_RULES: tuple[tuple[tuple[str, ...], re.Pattern[str], Replace], ...] = tuple(
    (needs, compile_late(rule, re.IGNORECASE), replace)
    for needs, rule, replace in (
        (
            ("/tmp", "/var/folders", "/dev/shm", "\\temp"),  # noqa: S108  (names to look for)
            r"(?:/tmp|/var/folders|/dev/shm|\\temp)[/\\][\w.+\\/-]{1,400}",
            _temporary,
        ),
        (
            ("-",),
            rf"\b({_SERIAL}[_ -]?(?:id|no|number)?{_IS})[0-9a-f]{{8}}-[0-9a-f-]{{27}}\b",
            r"\1*",
        ),
        (("-",), r"\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b", _record),
        (("id",), rf"\b({_SERIAL}[_ -]?id{_IS})[\w.:-]{{4,80}}+", r"\1*"),
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
        ((), rf"(?<![\w.])(?:\d++(?:\.\d++)?(?: ?(?:{_UNIT}|s)|[mh])(?![a-z_]) ?)+", "*"),
        (("m",), r"(?<![\w.])\d++m ?\d++(?:\.\d++)?s\b", "*"),
        (
            ("elapsed", "duration", "took", "latency", "time"),
            rf"\b({_TAKES}(?:[_ ]?(?:in )?(?:{_UNIT}|s))?{_IS})\d++(?:\.\d++)?(?![\w.]){_NOT_PROGRESS}",
            r"\1*",
        ),
        (
            tuple(_SERIAL[3:-1].split("|")),
            rf"\b({_SERIAL}(?:[_ ](?:id|no|number|count))?{_IS})\d++(?!\w){_NOT_PROGRESS}",
            r"\1*",
        ),
        (
            ("localhost:", "127.0.0.1:", "0.0.0.0:", "]:"),
            r"(localhost|127\.0\.0\.1|0\.0\.0\.0|\[::1?\]):\d{2,5}\b",
            r"\1:*",
        ),
    )
)
_DIGIT = re.compile(r"\d")


@lru_cache(maxsize=8192)
def mask(line: str) -> str:
    """The line with a sign in place of each part that changes by itself."""
    if not (_DIGIT.search(line) or "tmp" in line):
        return line
    low = line.lower()
    for needs, rule, replace in _RULES:
        if not needs or any(need in low for need in needs):
            line = rule.sub(replace, line)
    return line


def normalize(text: str) -> str:
    """The text without what changes by itself and without its layout; equal for equal results.

    One longer than LONG_TEXT stays as it is.
    """
    if len(text) > LONG_TEXT:
        return text
    return "\n".join([mask(line) for line in _lines(text)])


def without_note(text: str) -> str:
    """A result as the tool gave it, where a note of ours stands behind it."""
    if not text.endswith("]"):
        return text
    if text.startswith(_NOTE.lstrip()):
        return ""
    at = text.rfind(_NOTE)
    return text[:at] if at >= 0 else text


def note_of(text: str) -> str:
    """A note in the form that `without_note` knows."""
    return f"{_NOTE}{text}]"


def _lines(text: str) -> Iterator[str]:
    """Lines with their white space collapsed, empty ones left out."""
    for line in text.splitlines():
        for part in line.split(",") if len(line) > LONG_LINE else (line,):
            if words := " ".join(part.split()):
                yield words
