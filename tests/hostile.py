"""Hostile input: texts made to be slow, and a check that time grows no faster than the text.

`pumped` reads a regular expression's parse tree. For each repeat in it, it builds texts that reach the repeat, feed it,
and then fail, which is how one backtracks longest. `grows_faster` measures CPU time of this thread at two sizes: four
times the text takes four times as long if time is linear, and sixteen times if it is quadratic.
"""

import re
import sys
import time
from collections.abc import Callable, Iterator
from itertools import islice, product
from re import _constants as ops  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]

SMALL = 1_000
QUICK_S = 0.000_25  # at the small size: half a million steps, as a quadratic search takes, last longer on any machine
MOST = 16  # characters of a pattern that are tried as pumps
ALLOWED = {4: 9.0, 8: 27.0}  # between 4 (linear) and 16 (quadratic), and between 8 and 64
ENDINGS = ("\x01", "x", "\n")
TYPICAL = " \n\ta0_.<#[|\"'é漢"


REPEATS = (ops.MAX_REPEAT, ops.MIN_REPEAT, ops.POSSESSIVE_REPEAT)


def grows_faster(work: Callable[[str], object], make: Callable[[int], str]) -> bool:
    """Whether the time that the work takes grows faster than the text.

    What looks so three times is looked at once more, at eight times the size: a busy machine can make four times the
    text take nine times as long, but not eight times the text twenty-seven times.
    """
    if _seconds(work, make(SMALL)) < QUICK_S:
        return False
    return all(
        _seconds(work, make(SMALL * factor)) > ALLOWED[factor] * _seconds(work, make(SMALL))
        for factor in (4, 4, 4, 8)
    )


def count_calls(work: Callable[[], object]) -> int:
    """How many functions the work calls, and how often it resumes generators: the same on every machine."""
    calls = 0

    def profile(_, event, __):
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(before)
    return calls


def pumped(pattern: re.Pattern[str]) -> Iterator[Callable[[int], str]]:
    """Makers of hostile texts of a given length for one pattern."""
    tree = parser.parse(pattern.pattern, pattern.flags & ~re.DEBUG)
    letters = [*TYPICAL, *sorted({*_letters(tree)} - {*TYPICAL})[:MOST]]
    places = {("", pump) for pump in letters}
    places |= {
        (prefix, pump) for prefix, body in _repeats(tree, "") for pump in _pumps(body, letters)
    }
    for (prefix, pump), ending in product(sorted(places), ENDINGS):
        yield lambda size, p=prefix, u=pump, e=ending: p + u * (size // len(u)) + e
        if prefix:
            yield lambda size, p=prefix, u=pump, e=ending: (p + u * 8) * (size // (len(p) + 8)) + e


def repeats_that_go_back(pattern: re.Pattern[str] | re.Pattern[bytes]) -> Iterator[object]:
    """Every repeat of a group without a small bound into which the engine may go back."""
    yield from _kept(parser.parse(pattern.pattern, pattern.flags & ~re.DEBUG))


def _kept(tree) -> Iterator[object]:
    for op, value in tree:
        if op in (ops.MAX_REPEAT, ops.MIN_REPEAT) and value[1] > 64 and not _is_one_sign(value[2]):
            yield value[2]
        for below in _inner(op, value):
            yield from _kept(below)


def _is_one_sign(body) -> bool:
    """Whether the engine counts the repeats of this instead of keeping them."""
    return len(body) == 1 and body[0][0] in (ops.LITERAL, ops.NOT_LITERAL, ops.IN, ops.ANY)


def _seconds(work: Callable[[str], object], text: str) -> float:
    start = time.thread_time()
    work(text)
    return time.thread_time() - start


def _inner(op, value) -> list:
    """The trees below a node."""
    if op in REPEATS:
        return [value[2]]
    if op is ops.SUBPATTERN:
        return [value[3]]
    if op is ops.ATOMIC_GROUP:
        return [value]
    if op in (ops.ASSERT, ops.ASSERT_NOT):
        return [value[1]]
    return value[1] if op is ops.BRANCH else []


def _repeats(tree, prefix: str) -> Iterator[tuple[str, object]]:
    """Every repeat without a small bound, with a text that leads up to it."""
    for op, value in tree:
        if op in REPEATS and value[1] > 64:
            yield prefix, value[2]
        for below in _inner(op, value):
            yield from _repeats(below, prefix)
        prefix += _sample_of(op, value)


def _sample(tree) -> str:
    """A short text that the tree matches."""
    return "".join(_sample_of(op, value) for op, value in tree)


def _sample_of(op, value) -> str:
    if op is ops.LITERAL:
        return chr(value)
    if op in (ops.NOT_LITERAL, ops.ANY):
        return "a"
    if op is ops.IN:
        return next(_members(value), "a")
    if op in (ops.ASSERT, ops.ASSERT_NOT):
        return ""
    times = min(max(value[0], 1), 40) if op in REPEATS else 1
    return "".join(_sample(below) for below in _inner(op, value)[:1]) * times


def _pumps(body, letters: list[str]) -> set[str]:
    """What feeds a repeat: a sample of its body, and every letter that the body takes."""
    try:
        one = re.compile(f"(?:{_class(body)})\\Z") if len(body) == 1 else None
    except (KeyError, re.error):
        one = None
    fit = {c for c in letters if one is None or one.match(c)}
    return {_sample(body) or "a", *fit}


def _class(body) -> str:
    op, value = next(iter(body))
    if op is ops.NOT_LITERAL:
        return f"[^{re.escape(chr(value))}]"
    if op is ops.LITERAL:
        return re.escape(chr(value))
    if op is ops.ANY:
        return "."
    raise KeyError(op)


def _letters(tree) -> Iterator[str]:
    """A few of the characters that a pattern speaks of."""
    for op, value in tree:
        if op in (ops.LITERAL, ops.NOT_LITERAL):
            yield chr(value)
        elif op is ops.IN:
            yield from islice(_members(value), 4)
        for below in _inner(op, value):
            yield from _letters(below)


_CATEGORIES = {
    ops.CATEGORY_DIGIT: "0", ops.CATEGORY_NOT_DIGIT: "a", ops.CATEGORY_SPACE: " ",
    ops.CATEGORY_NOT_SPACE: "a", ops.CATEGORY_WORD: "a", ops.CATEGORY_NOT_WORD: "-",
}  # fmt: skip


def _members(items) -> Iterator[str]:
    negated = items and items[0][0] is ops.NEGATE
    if negated:
        yield from "a0 -"
        return
    for op, value in items:
        if op is ops.LITERAL:
            yield chr(value)
        elif op is ops.RANGE:
            yield chr(value[0])
        elif op is ops.CATEGORY:
            yield _CATEGORIES[value]
