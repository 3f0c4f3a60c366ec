"""Stored traces: how much of a trace is kept, and in which form.

A trace as it happened holds the text of a hundred candidates and every note on each. Kept are all notes of the first
candidates, and of the others the last one, which says what became of them. A text that the store holds anyway is kept
by reference: its chunk's id and a checksum. A chunk that has changed or gone since comes back without its text.
The rest is compressed JSON, about 10 kB for a request with a hundred candidates.
"""

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from millgate.errors import DamagedError
from millgate.stores.codec import decode, encode
from millgate.types import Candidate, Chunk, Request, Step, Trace, TraceSummary, Window
from millgate.types.lengths import FACT_CHARS
from millgate.types.notes import Stage
from millgate.types.request import LENGTHS

# Candidates that keep all their notes; the others keep the last one. Traces took 140 kB before they were
# shortened and compressed; they take a tenth now.
FULL = 20
# a window with more than this is not kept, and its request cannot be run again
WINDOW_CHARS = 256_000
TEXT_CHARS = 4_000  # of a text that the store does not hold, as a search result
_LEVEL = 4  # a twelfth larger than at 6, in less than half of the time

Held = Callable[[str, Sequence[str]], Sequence[Chunk]]
"""The chunks of a collection with these ids, as the store has them now."""


@dataclass(frozen=True, slots=True)
class _Stored:
    """What is encoded: the trace, and the checksums of texts kept by reference, by chunk id."""

    trace: Trace
    checksums: Mapping[str, int] = field(default_factory=dict)


def trim(trace: Trace, *, text: bool = True) -> Trace:
    """The part of a trace that every store keeps; without `text` neither query, window nor chunk texts."""
    request, steps = _cut_request(trace.request), tuple(map(_cut_step, trace.steps))
    chars = sum(map(len, request.window.texts))
    if not text:
        request = replace(request, query="", window=Window())
        steps = tuple(replace(_without_quotes(step), text="") for step in steps)
    elif chars > WINDOW_CHARS:
        request = replace(request, window=Window())
        reason = f"the window of {chars:,} characters is too large to be kept"
        steps = (*steps, Step(Stage.TRACE, 0.0, degraded=reason, facts={"window_chars": chars}))
    rest = (Candidate(c.chunk, c.score, c.notes[-1:]) for c in trace.candidates[FULL:])
    candidates = (*trace.candidates[:FULL], *rest)
    if not text:
        candidates = tuple(Candidate(_bare(c.chunk), c.score, c.notes) for c in candidates)
    return replace(trace, request=request, steps=steps, candidates=candidates)


def _cut_request(request: Request) -> Request:
    """The request with each name cut to its length: of one that the engine refused, or that was made elsewhere."""
    long: dict[str, Any] = {
        name: value[:most]
        for name, most in LENGTHS.items()
        if name != "tenant" and len(value := getattr(request, name) or "") > most
    }
    return replace(request, **long) if long else request


def _cut_step(step: Step) -> Step:
    """The step with each reason and fact cut: a model's name, or an upstream's words, may have any length."""
    facts = step.facts
    if any(isinstance(value, str) and len(value) > FACT_CHARS for value in facts.values()):
        facts = {k: v[:FACT_CHARS] if isinstance(v, str) else v for k, v in facts.items()}
    if facts is step.facts and len(step.degraded) <= FACT_CHARS:
        return step
    return replace(step, facts=facts, degraded=step.degraded[:FACT_CHARS])


QUOTES = ("source", "stopped")  # facts of a fold that hold words of the conversation


def _without_quotes(step: Step) -> Step:
    """The step without what it quotes: the prompt cache names what changed by its first words, a fold its place."""
    if step.stage is Stage.FOLD:
        return replace(step, facts={k: v for k, v in step.facts.items() if k not in QUOTES})
    change = step.facts.get("change") if step.stage is Stage.CACHE else None
    return replace(step, facts={**step.facts, "reason": change}) if change else step


def pack_trace(trace: Trace, held: Held) -> bytes:
    """A trimmed trace in few bytes, with the texts that the store holds by reference."""
    known = _find_chunks(trace.candidates, held)
    checksums = {}
    candidates = []
    for candidate in trace.candidates:
        chunk = candidate.chunk
        stored = known.get(_name(chunk))
        if chunk.text and stored and _content(stored) == _content(chunk):
            checksums[chunk.id] = _checksum(chunk)
            chunk = _bare(chunk)
        elif len(chunk.text) > TEXT_CHARS:
            chunk = replace(chunk, text=chunk.text[:TEXT_CHARS])
        candidates.append(Candidate(chunk, candidate.score, candidate.notes))
    packed = _Stored(replace(trace, candidates=tuple(candidates)), checksums)
    return zlib.compress(encode(packed).encode(), _LEVEL)


def unpack_trace(body: bytes, held: Held) -> Trace:
    """The trace that `pack_trace` packed."""
    stored = read_trace(body)
    known = _find_chunks(stored.trace.candidates, held)

    def restore(candidate: Candidate) -> Candidate:
        chunk = known.get(_name(candidate.chunk))
        if chunk is None or stored.checksums.get(chunk.id) != _checksum(chunk):
            return candidate
        return replace(candidate, chunk=replace(chunk, admission=candidate.chunk.admission))

    candidates = tuple(restore(candidate) for candidate in stored.trace.candidates)
    return replace(stored.trace, candidates=candidates)


def read_trace(body: bytes) -> _Stored:
    """What is stored of a trace; an error says whether it is damaged, or of a release with another form."""
    try:
        text = zlib.decompress(body)
        orjson.loads(text)
    except (TypeError, zlib.error, orjson.JSONDecodeError) as error:
        raise DamagedError(
            f"a stored trace cannot be read: {error}", hint="run: millgate doctor"
        ) from error
    try:
        return decode(_Stored, text)
    except DamagedError as error:
        raise DamagedError(
            f"a stored trace cannot be read: another release wrote it, in another form ({error.message})",
            hint="traces made since can be read; old ones go by themselves (trace.age_s)",
        ) from error


def read_summary(id: str, created: float, text: str) -> TraceSummary:
    """A stored summary. One that cannot be read is a row that says so, so that a list of traces lacks nothing else."""
    try:
        return decode(TraceSummary, text)
    except DamagedError as error:
        return TraceSummary(
            id, created, query="", session="", collection="", strategy="", tier="", pressure=0.0, skip=False,
            budget=0, candidates=0, kept=0, seconds=0.0, degraded=(error.message,),
        )  # fmt: skip


def _find_chunks(candidates: Sequence[Candidate], held: Held) -> dict[tuple[str, str], Chunk]:
    ids: dict[str, list[str]] = {}
    for candidate in candidates:
        ids.setdefault(candidate.chunk.collection, []).append(candidate.chunk.id)
    found = (chunk for collection, some in ids.items() for chunk in held(collection, some))
    return {_name(chunk): chunk for chunk in found}


def _name(chunk: Chunk) -> tuple[str, str]:
    return chunk.collection, chunk.id


def _content(chunk: Chunk) -> tuple[object, ...]:
    """What a reference stands for: all but the admission, which is the candidate's own."""
    return (
        chunk.text, chunk.document, chunk.source, chunk.title, chunk.position, chunk.metadata,
    )  # fmt: skip


def _bare(chunk: Chunk) -> Chunk:
    return Chunk(
        chunk.id, "", chunk.document, chunk.collection, chunk.source,
        position=chunk.position, admission=chunk.admission,
    )  # fmt: skip


def _checksum(chunk: Chunk) -> int:
    return zlib.crc32(f"{chunk.title}\0{chunk.text}".encode())
