"""Regression tests for context: whether what must enter still does, and if not, why.

Each question runs through the real pipeline. For a chunk that is missing, `why` finds where it fell and the smallest
change that would admit it; what has changed since the test was recorded (release, settings, the chunk's own text) is
named beside it.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from hashlib import blake2b
from typing import Literal
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from millgate import __version__
from millgate.evaluate.regression_file import Case, Recorded
from millgate.explain.why import Why
from millgate.gateway import Millgate
from millgate.operations.presence import did_you_mean
from millgate.settings.schema import Settings, is_secret, values
from millgate.types import Chunk, Context, Trace


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


def run_case(gate: Millgate, case: Case) -> CaseResult:
    """Ask the question of a test, and compare what entered with what was expected."""
    made = gate.context(
        case.question, window=list(case.window), budget=case.budget, k=case.k, collection=case.collection
    )  # fmt: skip
    failures = (*_missing(gate, case, made), *_find_unwanted(case, made), *_texts(case, made))
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
    """What failed, why, what would mend it, and what has changed, in lines."""
    words = {"missing": "does not enter", "entered": "must not enter", "text": "is not in the block"}  # fmt: skip
    lines = []
    for failure in outcome.failures:
        lines.append(f"{failure.what} {words[failure.kind]}: {failure.why}")
        if failure.change:
            lines.append(f"  {failure.change}")
    return [*lines, *describe_changes(outcome), f"trace {outcome.trace}"]


def describe_changes(outcome: CaseResult) -> list[str]:
    """What has changed since a test was recorded, whether it passed or not."""
    return [f"since it was recorded: {change}" for change in outcome.since]


def _missing(gate: Millgate, case: Case, made: Context) -> Iterator[Failure]:
    for wanted in case.must:
        if any(names_chunk(wanted, chunk) for chunk in made.chunks):
            continue
        chunk = _stand_in(gate, case, made, wanted)
        if chunk is None:
            known = gate.store.digests(gate.tenant, case.collection)
            meant = did_you_mean(wanted, list(known)[:20_000]).strip()
            yield Failure("missing", wanted, f"nothing in collection {case.collection!r} has that id", meant)  # fmt: skip
            continue
        answer = gate.why(made.trace, chunk)
        yield Failure("missing", chunk, f"it fell at {answer.stage}: {answer.reason}", _change(answer))  # fmt: skip


def _find_unwanted(case: Case, made: Context) -> Iterator[Failure]:
    for unwanted in case.must_not:
        for number, chunk in enumerate(made.chunks, 1):
            if names_chunk(unwanted, chunk):
                found = made.why(chunk.id)[0]
                yield Failure("entered", chunk.id, f"it was {found.reason} at {found.score:.2f} and is cited as [{number}]")  # fmt: skip


def _texts(case: Case, made: Context) -> Iterator[Failure]:
    for text in case.contains:
        if text not in made.text:
            yield Failure("text", text, "the block does not hold it")


def names_chunk(wanted: str, chunk: Chunk) -> bool:
    """Whether `wanted`, an id or a pattern, names this chunk or its document."""
    return any(name == wanted or fnmatchcase(name, wanted) for name in (chunk.id, chunk.document))


def _stand_in(gate: Millgate, case: Case, made: Context, wanted: str) -> str | None:
    """The chunk to ask about: the best candidate that is meant, else the one of that id, else the document's first."""
    met = next((c.chunk.id for c in made.trace.candidates if names_chunk(wanted, c.chunk)), None)
    if met is not None:
        return met
    store, tenant = gate.store, gate.tenant
    if store.chunks(tenant, case.collection, [wanted]):
        return wanted
    named = (id for id in store.digests(tenant, case.collection) if fnmatchcase(id, wanted))
    document = next(named, None)
    if document is None:
        return None
    return next((c.id for c in store.scan(tenant, case.collection, document=document)), None)


def _change(answer: Why) -> str:
    if not answer.changes:
        return answer.note
    turned = ", ".join(f"{c.name} = {c.now} (now {c.was})" for c in answer.changes)
    return f"it would enter with {turned}"


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
    failed = sum(bool(outcome.failures) for outcome in outcomes)
    seconds = sum(outcome.seconds for outcome in outcomes)
    root = Element("testsuites")
    head = {"name": _clean(suite), "tests": str(len(outcomes)), "failures": str(failed), "errors": "0", "time": f"{seconds:.3f}"}  # fmt: skip
    cases = SubElement(root, "testsuite", head)
    for outcome in outcomes:
        named = {"classname": _clean(suite), "name": _clean(outcome.case.name), "time": f"{outcome.seconds:.3f}"}  # fmt: skip
        case = SubElement(cases, "testcase", named)
        if outcome.failures:
            first = outcome.failures[0]
            lines = describe(outcome)
            message = _clean(f"{first.kind}: {first.what}: {first.why}")
            SubElement(case, "failure", {"message": message}).text = _clean("\n".join(lines))
    indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{tostring(root, encoding="unicode")}\n'


def _clean(text: str) -> str:
    return _FORBIDDEN.sub("�", text)
