"""Cases: hostile values from a seed, and how many of them a run tries.

All that is in a case comes from its seed, so a failure is repeated by its number. An ordinary run tries the first few
seeds, always the same. `make fuzz CASES=100000` tries that many in a row from a seed drawn by chance, a tenth of them
if a case takes long, and says how many of each; SEED=1 names the first.
"""

import functools
import inspect
import json
import os
from collections.abc import Callable
from random import Random

import pytest

CASES = int(os.environ.get("FUZZ_CASES", "50"))
FIRST = int(os.environ.get("FUZZ_SEED", "0"))
TRIED: dict[str, int] = {}
"""How many cases of each test have been tried without a failure."""


class Case(Random):
    """The source of one case, which shows its seed if it fails."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._seed = seed

    def __repr__(self) -> str:
        return f"Case({self._seed})"


def fuzz(test: Callable[..., None]) -> Callable[..., None]:
    """A test that gets a case as `rng`, many times."""
    return _repeat(test, CASES)


def fuzz_slow(test: Callable[..., None]) -> Callable[..., None]:
    """The same if a case takes milliseconds: a tenth of the cases, and no fewer than ten."""
    return _repeat(test, max(10, CASES // 10))


def fuzz_slowest(test: Callable[..., None]) -> Callable[..., None]:
    """The same if a case takes a good part of a second: a fiftieth of the cases, and no fewer than ten."""
    return _repeat(test, max(10, CASES // 50))


def _repeat(test: Callable[..., None], count: int) -> Callable[..., None]:
    @functools.wraps(test)
    def run(**fixtures: object) -> None:
        for seed in range(FIRST, FIRST + count):
            rng = Case(seed)
            try:
                test(rng=rng, **fixtures)
            except BaseException as error:
                error.add_note(f"by {rng!r}")
                raise
        TRIED[test.__name__] = count

    asked = inspect.signature(test).parameters.values()
    run.__signature__ = inspect.Signature([p for p in asked if p.name != "rng"])  # type: ignore[attr-defined]
    return pytest.mark.fuzz(run)


_SPICE = [
    "", "\x00", "\u0300" * 40, "<ref>", "</ref>", "[1] ", "</s>", "<|im_end|>", "```\n", "|a|b|\n", "# ", "> ", "漢字", "👩‍👧", "\u202e", "\ufeff",
    "'\"", "\\", "OR 1=1 --", "*" * 30, "a" * 300, "\ud800", "\udfff", "İ", "ß", "\ufdfa", "\u2028", "\x1b[2J", "\r\n", "\r", "\t", "%s", "{}", "../", "C:\\", "-0",
    "1e400", "NaN", "١٢", "9" * 400, "data: ", "[DONE]", "mg_" + "a" * 43, "sk-" + "a1" * 20, "://u:p@h", "# a\n\n", "\n- b\n", "<p>", "<!--", "&#x110000;",
]  # fmt: skip
_LETTERS = "abcdefgh XYZ.,;:!?-_/\\()[]{}<>\"'`~@#$%^&*+=|0123456789\n\t\x00\x7f\x85éßñ漢字仮名ไทยעבα\u0301\u200d\u202e\ufeff😀🏳"
_NUMBERS = [
    0, -1, 1, 2**31, 2**53, 2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 2**64 - 1, 2**64, 10**30, 10**400,
    0.0, -0.0, 0.5, 1e308, -1e308, 5e-324, 9007199254740993.0, True, False, None,
]  # fmt: skip
_KEYS = ["id", "text", "content", "type", "role", "name", "index", "delta", "message", "choices", "query", "", "\0", "__class__", "value", "input"]  # fmt: skip


def text(rng: Random, pieces: int = 8) -> str:
    """Some text: ordinary letters, strange ones, and what has a meaning somewhere."""
    return "".join(_piece(rng) for _ in range(rng.randrange(pieces)))


def _piece(rng: Random) -> str:
    kind = rng.randrange(4)
    if kind == 0:
        return rng.choice(_SPICE)
    if kind == 1:
        return "".join(chr(rng.randrange(0x110000)) for _ in range(rng.randrange(6)))
    return "".join(rng.choices(_LETTERS, k=rng.randrange(30)))


def number(rng: Random) -> int | float | None:
    """Some number, or what some programs take for one."""
    kind = rng.randrange(3)
    if kind == 0:
        return rng.choice(_NUMBERS)
    return rng.randint(-(2**66), 2**66) if kind == 1 else rng.uniform(-1e9, 1e9)


def value(rng: Random, depth: int = 3) -> object:
    """Some JSON value."""
    kind = rng.randrange(6 if depth else 4)
    if kind < 2:
        return text(rng, 4)
    if kind < 4:
        return number(rng)
    if kind == 4:
        return [value(rng, depth - 1) for _ in range(rng.randrange(4))]
    names = (rng.choice(_KEYS) if rng.random() < 0.7 else text(rng, 2) for _ in range(rng.randrange(4)))  # fmt: skip
    return {name: value(rng, depth - 1) for name in names}


def mutate(rng: Random, good: object, chance: float = 0.1) -> object:
    """A JSON value with some of its parts replaced by others, left out, or doubled."""
    if rng.random() < chance:
        return value(rng)
    if isinstance(good, dict):
        kept = {k: mutate(rng, v, chance) for k, v in good.items() if rng.random() > chance / 3}
        return kept | ({rng.choice(_KEYS): value(rng)} if rng.random() < chance / 2 else {})
    if isinstance(good, list):
        kept = [mutate(rng, v, chance) for v in good if rng.random() > chance / 3]
        return kept * 2 if rng.random() < chance / 3 else kept
    return good


def encoded(rng: Random, good: object) -> bytes:
    """A mutated value as JSON, now and then with damaged bytes."""
    raw = json.dumps(mutate(rng, good), ensure_ascii=rng.random() < 0.5)
    data = raw.encode("utf-8", "surrogatepass")
    return damage(rng, data) if rng.random() < 0.2 else data


def damage(rng: Random, data: bytes, times: int = 3) -> bytes:
    """Bytes with some of them changed, cut out, doubled, or put between."""
    found = bytearray(data)
    for _ in range(rng.randrange(1, times + 1)):
        at = rng.randrange(len(found) + 1)
        end = min(len(found), at + rng.choice((1, 1, 4, 64)))
        kind = rng.randrange(4)
        if kind == 0 and at < len(found):
            found[at] = rng.randrange(256)
        elif kind == 1:
            del found[at:end]
        elif kind == 2:
            found[at:at] = found[at:end]
        else:
            found[at:at] = rng.randbytes(rng.choice((1, 4, 16)))
    return bytes(found)


def cut(rng: Random, data: bytes) -> list[bytes]:
    """The bytes in parts, as a connection might bring them."""
    size = rng.randrange(1, 80)
    return [data[at : at + size] for at in range(0, len(data), size)]
