"""The segments of a collection: what a batch of changes makes of them, and when they are merged.

A batch becomes a small segment, and the chunks that it replaces or removes are marked dead in theirs. The last four
segments become one as soon as the first of them is no larger than the other three together, so a chunk is rewritten
a few times and a query meets few segments.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from millgate.index.merging import is_large, join
from millgate.index.segment import LiveSegment
from millgate.index.snapshot import SegmentSnapshot
from millgate.index.tokenized_batch import build
from millgate.index.vectors import EmbeddingCache
from millgate.types import Change, Chunk

_WORDS = 150_000  # of chunks that are read into one segment, at most: they take 15 MB on the way
_IN_WORDS = bytes(byte for byte in range(256) if byte >= 0x80 or chr(byte).isalnum())
_COMPACT_UP_TO = 250_000  # chunks of the last segments that are made one when they are saved
# Share of dead chunks from which a segment is rewritten. Chosen, not measured: a query reads at most a third more than
# it needs, and three chunks are rewritten for each that goes.
_DEAD_SHARE = 0.25


def absorb(
    lives: Sequence[LiveSegment],
    changes: Sequence[Change],
    embeddings: EmbeddingCache | None = None,
    folder: Path | None = None,
) -> Sequence[LiveSegment]:
    """The segments after a batch of changes: what was replaced or removed is dead, what is new is added."""
    gone = SegmentSnapshot(lives, lambda _: ()).find([change.id for change in changes])
    gone = gone[gone >= 0]
    out, base = [], 0
    for live in lives:
        local = gone[(gone >= base) & (gone < base + len(live))] - base
        out.append(live.with_dead(local) if len(local) else live)
        base += len(live)
    fresh = [change for change in changes if change.chunk is not None]
    if fresh:
        chunks = [change.chunk for change in fresh if change.chunk is not None]
        vectors = embeddings.rows_of(chunks, changes[-1].seq) if embeddings else None
        places = [change.place for change in fresh]
        for some in split_evenly(chunks):
            own = None if vectors is None else vectors[some]
            live = LiveSegment(build(chunks[some], places[some]), vectors=own)
            out.append(_merge([live], folder) if folder and is_large(live.segment) else live)
    return out


def split_evenly(chunks: Sequence[Chunk]) -> Iterator[slice]:
    """Runs of chunks that are read together, so that memory does not grow with the document they are of."""
    parts = -(-sum(_most_words(chunk.text) for chunk in chunks) // _WORDS) or 1
    size = -(-len(chunks) // parts) or 1
    return (slice(at, at + size) for at in range(0, len(chunks), size))


def _most_words(text: str) -> int:
    """About how many words a text has at most: one at each sign between words, and each sign of three bytes."""
    raw = text.encode("utf-8", "surrogatepass")
    return len(raw.translate(None, _IN_WORDS)) + max(0, len(raw) - 2 * len(text))


def tidy(lives: Sequence[LiveSegment], folder: Path | None = None) -> Sequence[LiveSegment]:
    """The segments with the last ones merged, and those with many dead chunks rewritten."""
    out = [_merge([live], folder) if _is_sparse(live) else live for live in lives]
    out = [live for live in out if len(live.dead) < len(live)]
    while len(out) > 3 and len(out[-4]) <= sum(map(len, out[-3:])):
        out[-4:] = [_merge(out[-4:], folder)]
    return out


def compact(lives: Sequence[LiveSegment]) -> Sequence[Sequence[LiveSegment]]:
    """Runs of segments: one of the last ones if that is cheap to make one, since a query's cost has a part that
    grows with their number, and each other alone.
    """
    begin, size = len(lives), 0
    while begin and size + len(lives[begin - 1]) <= _COMPACT_UP_TO:
        begin -= 1
        size += len(lives[begin])
    tail = lives[begin:]
    largest = max(map(len, tail), default=0)
    if len(tail) < 2 or (size - largest) * 8 < largest:
        return [[live] for live in lives]
    return [*([live] for live in lives[:begin]), tail]


def _is_sparse(live: LiveSegment) -> bool:
    return max(1, _DEAD_SHARE * len(live)) <= len(live.dead) < len(live)


def _merge(lives: Sequence[LiveSegment], folder: Path | None) -> LiveSegment:
    rows = [live.vectors[live.alive] for live in lives if live.vectors is not None]
    vectors = np.concatenate(rows) if len(rows) == len(lives) else None
    whole = join([(live.segment, live.alive) for live in lives], folder)
    graph_file = None if len(lives[0].dead) else lives[0].graph_file
    return LiveSegment(whole, vectors=vectors, graph_file=graph_file)
