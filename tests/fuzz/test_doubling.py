"""Fuzzing time: a text twice as long takes twice as long to read, whatever it is made of.

Every function that takes one text (or bytes) is found by its signature, private ones too, and every public method of
a class that is made of nothing, in the packages that read what comes from outside. A case is one of them and one
hostile text, which grows from 2 kB until a call takes long or the text has its full size: 10 MB in a long run. The CPU
time may grow with an exponent of 1.2 at most.
"""

import importlib
import inspect
import math
import os
import pkgutil
import time
from contextlib import suppress
from functools import cache, wraps
from itertools import count
from typing import get_type_hints

from tests.fuzz.cases import fuzz_slowest

import millgate
from millgate.errors import MillgateError

READERS = ("guard", "ingest", "knowledge", "ranking", "service.proxy", "sessions", "pipeline.stages", "text", "transcript")  # fmt: skip
# The first takes a name of ours, the next two run in a child process that has limits of its own. The two after them
# measure from 8 MB on, which is a step and no growth; `measure` itself is tried. One reads what we wrote ourselves, and
# the class of all dialects has no names of its own.
LEFT_OUT = {
    "millgate.text.data.load", "millgate.ingest.child.main", "millgate.ingest.office.read_pdf",
    "millgate.text.bounded_json.loads", "millgate.text.bounded_json.why_too_large",
    "millgate.service.proxy.compaction_steps._unpack",
    "millgate.guard.dialects.dialect.Dialect.owns", "millgate.guard.dialects.dialect.Dialect.serves",
}  # fmt: skip
LONG = "FUZZ_CASES" in os.environ
SMALLEST, LARGEST = 2_000, 10_000_000 if LONG else 100_000
ENOUGH_S = 0.25 if LONG else 0.05  # of one call: its growth is known by then
# A call that takes less is mostly noise, and memory that is fetched for the first time.
TELLING_S = ENOUGH_S / 10
STEP = 4  # between a size and the next
# Between two sizes whose times are compared: a quadratic function takes 256 times as long.
FACTOR = STEP * STEP
MOST = 1.2
NUMBERS = count()
UNITS = (
    "a", " ", "\n", "a ", "a\n", "ab ", "word ", "Word ", "a.", "a, ", "A. B. ", "1", "1 ", "1. ", "9,", "-", "- a\n", "--", "_", "a_", "/", "/a", "\\", "\\a", "a/b\\",
    "(", ")", "()", "[", "]", "[1] ", "[a](", "{", "{}", "<", ">", "<a", "<a>", "</a", "<!--", "&", "&a", "&#", '"', "'", '"a', "`", "```\n", "~~~\n", "#", "# a\n", "*", "**a", "|", "|a",
    "|a|\n", "=", "a=", "===\n", ":", "a: ", "::", ";", "@", "a@", "$", "%", "%41", "+", "^", "!", "?", "é", "e\u0301", "\u0300", "ß", "İ", "漢", "漢字、", "あ", "ไ", "א", "한", "😀", "👩\u200d",
    "\ufdfa", "ﬁ", "\u200b", "\u202e", "\ufeff", "\x00", "\x1b[", "\r", "\r\n", "\t", "data: a\n", "data:\n\n", ":a\n", "event: x\n", "[DONE]", "mg_", "sk-a", "ghp_a", "eyJ", "://a:", "a:b@",
    "-----BEGIN ", "<ref>", "</ref>", "<|im_start|>", "\n\nHuman:", "[2024-01-01] A: ", "User: ", "import a\n", "def a():\n", "a,b\n", '{"a":', "[[", '\\"', "\\u0041", "aA", "aA1_", "a'b ",
)  # fmt: skip


@cache
def readers():
    """Every function and method of the packages that takes one text and nothing else that it must be given."""
    found = []
    for package in READERS:
        whole = importlib.import_module(f"millgate.{package}")
        names = [each.name for each in pkgutil.walk_packages(whole.__path__, f"millgate.{package}.")]  # fmt: skip
        for name in (f"millgate.{package}", *names):
            try:
                module = importlib.import_module(name)
            except (millgate.errors.MissingExtra, ModuleNotFoundError):  # of an extra
                continue
            for function in _functions(module):
                kind = _text_kind(function)
                if kind is not None and f"{name}.{function.__qualname__}" not in LEFT_OUT:
                    found.append((function, kind))
    return sorted(found, key=lambda pair: f"{pair[0].__module__}.{pair[0].__qualname__}")


def _functions(module):
    """What a module defines: its functions, and the methods of its classes that need no object or are public."""
    for value in list(vars(module).values()):
        if getattr(value, "__module__", "") != module.__name__:
            continue
        if inspect.isfunction(value) and not value.__name__.startswith("__"):
            yield value
        elif inspect.isclass(value):
            for name, kept in vars(value).items():
                if isinstance(kept, classmethod | staticmethod):
                    yield getattr(value, name)
                elif inspect.isfunction(kept) and not name.startswith("_") and _is_made_of_nothing(value):  # fmt: skip
                    yield _of_a_new_one(value, kept)


def _is_made_of_nothing(kind):
    """Whether a class makes an object without being given anything."""
    if inspect.isabstract(kind) or getattr(kind, "_is_protocol", False):
        return False
    needed = inspect.signature(kind).parameters.values()
    return all(p.default is not p.empty or p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in needed)  # fmt: skip


def _of_a_new_one(kind, method):
    """A function that calls the method of an object that nobody has used."""

    @wraps(method)
    def call(*given):
        return method(kind(), *given)

    hints = inspect.signature(method)
    call.__signature__ = hints.replace(parameters=[*hints.parameters.values()][1:])
    return call


def _text_kind(function):
    """`str` or `bytes` if that is all that a function must be given; else None."""
    if inspect.iscoroutinefunction(function):
        return None
    needed = [p for p in inspect.signature(function).parameters.values() if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]  # fmt: skip
    if len(needed) != 1 or needed[0].kind is needed[0].KEYWORD_ONLY:
        return None
    with suppress(NameError):
        kind = get_type_hints(function).get(needed[0].name)
        return kind if kind in (str, bytes) else None
    return None


def made(rng):
    """A maker of hostile texts of any length."""
    unit = rng.choice(UNITS) if rng.random() < 0.7 else rng.choice(UNITS) + rng.choice(UNITS)
    head, tail = rng.choice(("", "", *UNITS)), rng.choice(("", "", "\x01", "\n", *UNITS))
    return lambda size: head + unit * (size // len(unit)) + tail


def seconds(function, text):
    """CPU time of this thread for one call, result or error."""
    began = time.thread_time()
    with suppress(MillgateError, ValueError, RecursionError, OSError):
        result = function(text)
        if inspect.isgenerator(result):
            for _ in result:
                pass
    return time.thread_time() - began


def exponent(function, kind, make):
    """How fast the time grows with the text: by the last two sizes that lie far apart; 0 if it takes next to none."""
    times, size = {}, SMALLEST
    while size <= LARGEST:
        text = f"{make(size)}{next(NUMBERS)}"  # another one each time: some functions remember it
        times[size] = seconds(function, text if kind is str else text.encode())
        if times[size] > ENOUGH_S:
            break
        size *= STEP
    last = max(times)
    first = last // FACTOR
    if first not in times or times[last] < TELLING_S:
        return 0.0
    return math.log(times[last] / max(times[first], TELLING_S / FACTOR**2), FACTOR)


@fuzz_slowest
def test_the_time_of_every_reader_grows_no_faster_than_its_text(rng):
    function, kind = rng.choice(readers())
    make = made(rng)
    # what looks so once is looked at again: a busy machine makes a single time too long
    found = min(exponent(function, kind, make) for _ in range(4)) if exponent(function, kind, make) > MOST else 0.0  # fmt: skip
    where = f"{function.__module__}.{function.__qualname__}"
    assert found <= MOST, f"{where} on {make(24)!r}: time grows with the power {found:.2f}"


def test_the_readers_of_foreign_text_are_found():
    names = {f"{function.__module__}.{function.__qualname__}" for function, _ in readers()}
    assert len(names) > 150
    assert {"millgate.transcript.words._without_elements", "millgate.ingest.ignore._without_spaces"} <= names  # fmt: skip
    assert {"millgate.knowledge.project.project_of", "millgate.text.redact.redact", "millgate.service.proxy.sse.payload", "millgate.text.nfkc.nfc"} <= names  # fmt: skip
