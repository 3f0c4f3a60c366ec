"""Regression tests for context: whether what must enter still does, and if not, why.

The tests stand in a TOML file that people write by hand, or that `millgate test --record` writes:

    [[test]]
    question = "How long do refunds take?"
    must = ["docs/refunds.md#2"]         # ids of chunks or documents; * and ? stand for any characters
    must_not = ["docs/old/*"]
    contains = ["14 days"]               # text that the block has to hold

`window`, `budget`, `k` and `collection` are those of the request. They may stand above all tests, too, and hold then
for those that do not say otherwise.

Each question runs through the real pipeline. For a chunk that is missing, `why` finds where it fell and the smallest
change that would admit it. `recorded` says how things were when a test was written, so that what has changed since
(release, settings, the chunk's own text) is named beside a failure.
"""

import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from fnmatch import fnmatchcase
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from pydantic import TypeAdapter, ValidationError

from millgate import __version__
from millgate.errors import InputError
from millgate.gateway import Millgate
from millgate.operations.presence import did_you_mean
from millgate.settings.schema import Settings, is_secret, values
from millgate.types import Chunk, Context, Request, Trace

_SHARED = ("budget", "k", "collection", "window")


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
    budget: int = Request("").budget
    k: int | None = None
    collection: str = "main"
    recorded: Recorded = Recorded()


_CASE = TypeAdapter(Case)


@dataclass(frozen=True, slots=True)
class Failure:
    """One expectation that was not met: which, of what, and why."""

    kind: Literal["missing", "entered", "text"]
    what: str
    why: str
    change: str = ""
    """The smallest change that would mend it; empty if none is known."""


@dataclass(frozen=True, slots=True)
class CaseResult:
    """What became of a test: it passed without failures. `since` says what has changed since it was recorded."""

    case: Case
    trace: str
    tokens: int
    seconds: float
    failures: tuple[Failure, ...] = ()
    since: tuple[str, ...] = ()


# The file of tests


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


def _refuse_unknown(data: Mapping[str, Any], known: Sequence[str], where: str) -> None:
    for name in data:
        if name not in known:
            raise InputError(f"{where}: {name!r} is unknown", hint=f"{did_you_mean(name, known)}known are: {', '.join(known)}")  # fmt: skip


def as_toml(case: Case) -> str:
    """A test as it stands in a file: all that is not as it is by default."""
    lines, default = ["[[test]]"], asdict(Case("", name=case.question))
    for name, value in asdict(case).items():
        if name != "recorded" and value != default[name]:
            lines.append(f"{name} = {_value(value)}")
    if case.recorded != Recorded():
        lines.append(f"recorded.version = {_value(case.recorded.version)}")
        for part in ("settings", "texts"):
            for name, text in getattr(case.recorded, part).items():
                lines.append(f"recorded.{part}.{_value(name)} = {_value(text)}")
    return "\n".join(lines) + "\n"


def _value(value: str | int | tuple[str, ...]) -> str:
    """A value in TOML, which writes strings, numbers and lists as JSON does."""
    if not isinstance(value, tuple):
        # DEL is the one character that JSON leaves as it is and TOML forbids
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    inner = ", ".join(map(_value, value))
    return f"[{inner}]" if len(inner) < 90 else "[\n" + "".join(f"  {_value(v)},\n" for v in value) + "]"  # fmt: skip


# Running and recording tests


def run_case(gate: Millgate, case: Case) -> CaseResult:
    """Ask the question of a test, and compare what entered with what was expected."""
    made = gate.context(
        case.question, window=list(case.window), budget=case.budget, k=case.k, collection=case.collection
    )  # fmt: skip
    failures = tuple(_find_failures(gate, case, made))
    since = tuple(_changes_since_recorded(gate, case))
    return CaseResult(case, made.trace.id, made.token_estimate, made.latency_ms / 1000, failures, since)  # fmt: skip


def record_case(gate: Millgate, question: str, *, budget: int, collection: str) -> Case:
    """A test that holds what enters for a question now."""
    made = gate.context(question, budget=budget, collection=collection)
    return case_of(gate, made.trace)


def case_of(gate: Millgate, trace: Trace) -> Case:
    """A test that asks the question of a trace again, and expects what entered then."""
    request = trace.request
    shown = [c.chunk for c in trace.candidates if not c.dropped]
    return Case(
        question=request.query,
        must=tuple(chunk.id for chunk in shown),
        window=request.window.texts,
        budget=request.budget,
        k=request.k,
        collection=request.collections[0],
        recorded=Recorded(__version__, _settings(gate), {c.id: _digest(c) for c in shown}),
    )


def describe(outcome: CaseResult) -> list[str]:
    """What failed, why, what would mend it, and what has changed since the test was recorded, in lines."""
    words = {"missing": "does not enter", "entered": "must not enter", "text": "is not in the block"}  # fmt: skip
    lines = []
    for failure in outcome.failures:
        lines.append(f"{failure.what} {words[failure.kind]}: {failure.why}")
        if failure.change:
            lines.append(f"  {failure.change}")
    lines += [f"since it was recorded: {change}" for change in outcome.since]
    return [*lines, f"trace {outcome.trace}"] if outcome.failures else lines


def _find_failures(gate: Millgate, case: Case, made: Context) -> Iterator[Failure]:
    for wanted in case.must:
        if not any(names_chunk(wanted, chunk) for chunk in made.chunks):
            yield _explain_missing(gate, case, made, wanted)
    for unwanted in case.must_not:
        for number, chunk in enumerate(made.chunks, 1):
            if names_chunk(unwanted, chunk):
                found = made.why(chunk.id)[0]
                yield Failure("entered", chunk.id, f"it was {found.reason} at {found.score:.2f} and is cited as [{number}]")  # fmt: skip
    for text in case.contains:
        if text not in made.text:
            yield Failure("text", text, "the block does not hold it")


def names_chunk(wanted: str, chunk: Chunk) -> bool:
    """Whether `wanted`, an id or a pattern, names this chunk or its document."""
    return any(name == wanted or fnmatchcase(name, wanted) for name in (chunk.id, chunk.document))


def _explain_missing(gate: Millgate, case: Case, made: Context, wanted: str) -> Failure:
    """Why nothing that is meant entered.

    Asked about is the best candidate that is meant, else the chunk of that id, else the first of the document.
    """
    store, tenant, place = gate.store, gate.tenant, case.collection
    chunk = next((c.chunk.id for c in made.trace.candidates if names_chunk(wanted, c.chunk)), None)
    if chunk is None and store.chunks(tenant, place, [wanted]):
        chunk = wanted
    if chunk is None:
        known = list(store.digests(tenant, place))
        document = next((id for id in known if fnmatchcase(id, wanted)), None)
        chunks = () if document is None else store.scan(tenant, place, document=document)
        chunk = next((c.id for c in chunks), None)
    if chunk is None:
        meant = did_you_mean(wanted, known[:20_000]).strip()
        return Failure("missing", wanted, f"nothing in collection {place!r} has that id", meant)
    answer = gate.why(made.trace, chunk)
    turned = ", ".join(f"{c.name} = {c.now} (now {c.was})" for c in answer.changes)
    change = f"it would enter with {turned}" if turned else answer.note
    return Failure("missing", chunk, f"it fell at {answer.stage}: {answer.reason}", change)


def _changes_since_recorded(gate: Millgate, case: Case) -> Iterator[str]:
    recorded = case.recorded
    if not recorded.version:
        return
    if recorded.version != __version__:
        yield f"millgate {recorded.version} is now {__version__}"
    now = _settings(gate)
    for name in sorted({*recorded.settings, *now}):
        then, is_now = recorded.settings.get(name, "default"), now.get(name, "default")
        if then != is_now:
            yield f"{name} was {then} and is {is_now}"
    held = gate.store.chunks(gate.tenant, case.collection, list(recorded.texts))
    digests = {chunk.id: _digest(chunk) for chunk in held}
    for id, digest in recorded.texts.items():
        if id not in digests:
            yield f"{id} is gone"
        elif digests[id] != digest:
            yield f"the text of {id} has changed"


def _settings(gate: Millgate) -> dict[str, str]:
    """The settings that differ from their default and could change an answer, as text."""
    default = dict(values(Settings()))
    other = ("store", "tenant", "service", "proxy", "log", "trace", "fuse", "circles", "guard")
    return {
        name: str(value)
        for name, value in values(gate.settings)
        if value != default[name] and name.partition(".")[0] not in other and not is_secret(name)
    }


def _digest(chunk: Chunk) -> str:
    return blake2b(f"{chunk.title}\0{chunk.text}".encode(), digest_size=6).hexdigest()


# what XML cannot hold
_FORBIDDEN = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(outcomes: Sequence[CaseResult], *, suite: str) -> str:
    """The report of one file of tests."""

    def element(parent: Element, tag: str, **named: object) -> Element:
        return SubElement(parent, tag, {name: _clean(str(value)) for name, value in named.items()})

    failed = sum(bool(outcome.failures) for outcome in outcomes)
    seconds = sum(outcome.seconds for outcome in outcomes)
    root = Element("testsuites")
    cases = element(
        root, "testsuite", name=suite, tests=len(outcomes), failures=failed, errors=0, time=f"{seconds:.3f}"
    )  # fmt: skip
    for one in outcomes:
        case = element(
            cases, "testcase", classname=suite, name=one.case.name, time=f"{one.seconds:.3f}"
        )
        if one.failures:
            first = one.failures[0]
            failure = element(case, "failure", message=f"{first.kind}: {first.what}: {first.why}")
            failure.text = _clean("\n".join(describe(one)))
    indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{tostring(root, encoding="unicode")}\n'


def _clean(text: str) -> str:
    return _FORBIDDEN.sub("�", text)
