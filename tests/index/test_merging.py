"""Merging takes little memory however much is merged, and makes the segment that all chunks at once make."""

import mmap
import random
import tracemalloc
from dataclasses import fields, is_dataclass
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millgate.index import merging
from millgate.index.collection import Collection
from millgate.index.merging import join, load_segment, save_segment
from millgate.index.segment_list import absorb, tidy
from millgate.index.tokenized_batch import build
from millgate.stores.temporary import TemporaryStore
from millgate.types import Change, Chunk, Document

WORDS = ["harbor", "Lisbon", "signed", "Vega", "the", "x9z", "潮満", "Ada Lovelace.", "contract"]


def dense(name, chunks=400, signs=400):
    """Chunks of ideographs: nearly every pair of them is a term of its own."""
    rng = random.Random(name)
    texts = ["".join(chr(rng.randrange(0x4E00, 0x9F00)) for _ in range(signs)) for _ in range(chunks)]  # fmt: skip
    return [Chunk(f"{name}{n}", text) for n, text in enumerate(texts)]


def whole(segment):
    return segment, np.ones(len(segment), bool)


def is_mapped(array):
    while isinstance(array, np.ndarray):
        array = array.base
    return isinstance(getattr(array, "obj", None), mmap.mmap)


def arrays(part, prefix=""):
    for field in fields(part):
        value = getattr(part, field.name)
        if is_dataclass(value):
            yield from arrays(value, f"{field.name}.")
        else:
            yield prefix + field.name, value.dtype, value.tolist()


@given(
    st.lists(st.lists(st.sampled_from(WORDS), min_size=0, max_size=7).map(" ".join), min_size=1),
    st.randoms(use_true_random=False),
    st.sampled_from([1, 5, 1 << 16]),
)
def test_the_living_chunks_of_several_segments_make_the_segment_they_make_at_once(
    texts, rng, at_once
):
    chunks = [Chunk(f"c{n}", text, title=rng.choice(WORDS)) for n, text in enumerate(texts)]
    cuts = sorted({0, len(chunks), *(rng.randint(0, len(chunks)) for _ in range(3))})
    alive = np.array([rng.random() < 0.7 for _ in chunks])
    alive[rng.randrange(len(chunks))] = True
    parts = [(build(chunks[a:b], range(a, b)), alive[a:b]) for a, b in pairwise(cuts)]
    left = np.flatnonzero(alive).tolist()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(merging, "_AT_ONCE", at_once)
        made = join(parts)
    assert list(arrays(made)) == list(arrays(build([chunks[n] for n in left], left)))


@pytest.mark.slow
@pytest.mark.parametrize("half", [False, True])
def test_a_merge_takes_a_part_of_the_memory_of_what_it_writes(tmp_path, monkeypatch, half):
    monkeypatch.setattr(merging, "_AT_ONCE", 1 << 13)
    parts = []
    for name in "abcd":
        save_segment([whole(build(dense(name), range(400)))], tmp_path / name)
        segment = load_segment(tmp_path / name)
        parts.append((segment, np.arange(400) % 4 > 0 if half else np.ones(400, bool)))
    tracemalloc.start()
    save_segment(parts, tmp_path / "all")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < (tmp_path / "all").stat().st_size / 3
    assert len(load_segment(tmp_path / "all")) == (1200 if half else 1600)


def test_what_is_not_saved_yet_is_held_in_a_file_without_a_name_if_it_is_large(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(merging, "_HELD", 10_000)
    changes = [Change(n + 1, chunk.id, chunk, n) for n, chunk in enumerate(dense("a", chunks=200))]
    folder = tmp_path / "index"
    lives = tidy(absorb([], changes, folder=folder), folder)
    assert [is_mapped(live.segment.terms.own) for live in lives] == [True]
    in_memory = tidy(absorb([], changes))
    assert [is_mapped(live.segment.terms.own) for live in in_memory] == [False]
    assert list(folder.iterdir()) == []
    for live, other in zip(lives, in_memory, strict=True):
        assert list(arrays(live.segment)) == list(arrays(other.segment))


def test_what_cannot_be_held_in_a_file_is_held_in_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(merging, "_HELD", 0)
    chunks = dense("a", chunks=3, signs=20)
    store = TemporaryStore()
    store.put("t", [Document(chunk.id, chunks=(chunk,)) for chunk in chunks])
    (tmp_path / "index").write_text("no folder")
    view = Collection(store, "t", "main", folder=tmp_path / "index" / "here").snapshot()
    assert view.count == 3
