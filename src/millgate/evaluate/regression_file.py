"""The file of regression tests: TOML that people write by hand, or that `millgate test --record` writes.

    [[test]]
    question = "How long do refunds take?"
    must = ["docs/refunds.md#2"]         # ids of chunks or documents; * and ? stand for any characters
    must_not = ["docs/old/*"]
    contains = ["14 days"]               # text that the block has to hold

`window`, `budget`, `k` and `collection` are those of the request. They may stand above all tests, too, and hold then
for those that do not say otherwise. `recorded` says how things were when a test was written, so that a failure can name
what has changed since.
"""

import json
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from millgate.errors import InputError
from millgate.operations.presence import did_you_mean
from millgate.types import Request

_SHARED = ("budget", "k", "collection", "window")
_DEFAULT = Request("")


@dataclass(frozen=True, slots=True)
class Recorded:
    """How things were when a test was recorded: the release, settings other than the default, digests of the texts."""

    version: str = ""
    settings: Mapping[str, str] = field(default_factory=dict, hash=False)
    texts: Mapping[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class Case:
    """One question, and what must and must not enter."""

    question: str
    name: str = ""
    must: tuple[str, ...] = ()
    must_not: tuple[str, ...] = ()
    contains: tuple[str, ...] = ()
    window: tuple[str, ...] = ()
    budget: int = _DEFAULT.budget
    k: int | None = None
    collection: str = "main"
    recorded: Recorded = Recorded()


_CASE = TypeAdapter(Case)


def read_cases(path: Path) -> list[Case]:
    """The tests of a file; an error says in which test what is wrong."""
    try:
        tree = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}", hint=f"record one: millgate test {path} --record 'A question?'") from error  # fmt: skip
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"{path} is not valid TOML: {error}", hint="mend that line") from error
    tests = tree.pop("test", [])
    _refuse_unknown(tree, _SHARED, f"{path}")
    if not isinstance(tests, list) or not tests or not all(isinstance(t, dict) for t in tests):
        raise InputError(f"{path} holds no tests", hint="begin each with a line [[test]]")
    return [_parse(tree | test, f"{path}, test {n}") for n, test in enumerate(tests, 1)]


def _parse(data: dict[str, Any], where: str) -> Case:
    _refuse_unknown(data, [f.name for f in fields(Case)], where)
    if isinstance(data.get("window"), str):
        data["window"] = [data["window"]]
    try:
        case = _CASE.validate_python(data)
    except ValidationError as invalid:
        wrong = invalid.errors()[0]
        name = ".".join(map(str, wrong["loc"]))
        raise InputError(f"{where}: {name}: {wrong['msg'].lower()}", hint="see: millgate test --help") from invalid  # fmt: skip
    if not (case.must or case.must_not or case.contains):
        raise InputError(f"{where} expects nothing", hint="add must, must_not or contains")
    return case if case.name else replace(case, name=case.question)


def _refuse_unknown(data: Mapping[str, Any], known: "tuple[str, ...] | list[str]", where: str) -> None:  # fmt: skip
    for name in data:
        if name not in known:
            raise InputError(f"{where}: {name!r} is unknown", hint=f"{did_you_mean(name, known)}known are: {', '.join(known)}")  # fmt: skip


def as_toml(case: Case) -> str:
    """A test as it stands in a file."""
    return "\n".join(["[[test]]", *_lines(case)]) + "\n"


def _lines(case: Case) -> Iterator[str]:
    default = Case("")
    for one in fields(Case):
        value = getattr(case, one.name)
        if one.name == "recorded":
            yield from _recorded_lines(value)
        elif value != getattr(default, one.name) and (one.name, value) != ("name", case.question):
            yield f"{one.name} = {_value(value)}"


def _recorded_lines(recorded: Recorded) -> Iterator[str]:
    if recorded != Recorded():
        yield f"recorded.version = {_value(recorded.version)}"
        for name, value in recorded.settings.items():
            yield f"recorded.settings.{_value(name)} = {_value(value)}"
        for name, value in recorded.texts.items():
            yield f"recorded.texts.{_value(name)} = {_value(value)}"


def _value(value: str | int | tuple[str, ...]) -> str:
    """A value in TOML, which writes strings, numbers and lists as JSON does."""
    if isinstance(value, str):
        # DEL is the one character that JSON leaves as it is and TOML forbids
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, int):
        return str(value)
    inner = ", ".join(map(_value, value))
    return f"[{inner}]" if len(inner) < 90 else "[\n" + "".join(f"  {_value(v)},\n" for v in value) + "]"  # fmt: skip
