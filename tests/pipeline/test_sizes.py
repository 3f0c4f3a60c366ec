"""Sizes: a collection is loaded whole where all of it fits as it is shown, in every script."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millgate import Millgate
from millgate.pipeline.resources import CollectionTokens
from millgate.stores.temporary import TemporaryStore
from millgate.text.tokens import estimate_tokens
from millgate.types import Chunk, ContextBudget, Document, Strategy
from millgate.types.notes import NoteCode

ROOMY = ContextBudget(context_length=200_000, used_tokens=0)
TEXTS = {
    "english": "The harbor of the old town was restored by the council, and the museum moved there. ",
    "chinese": "老城的港口由市议会修复，博物馆也搬到了那里，图书馆则在河的另一边重新开放。",
    "japanese": "旧市街の港は市議会によって修復され、博物館もそこに移り、図書館は川の向こうに再開した。",
    "korean": "구시가지의 항구는 시의회가 복원했고 박물관도 그곳으로 옮겼으며 도서관은 강 건너편에 다시 문을 열었다. ",
}


class CountingStore(TemporaryStore):
    """A store that counts the chunks that scans read."""

    read = 0

    def scan(self, tenant, collection, *, document=None):
        for chunk in super().scan(tenant, collection, document=document):
            self.read += 1
            yield chunk


def put(store, texts, *, first=0):
    chunks = [Chunk(f"c{n}", text, document=f"c{n}") for n, text in enumerate(texts, first)]
    store.put("t", [Document(chunk.id, chunks=(chunk,)) for chunk in chunks])


def did_not_fit(context):
    return [c.chunk.id for c in context.trace.candidates if c.notes[-1].code is NoteCode.NO_ROOM]


def ask(sizes, store, most):
    return sizes.tokens("t", "main", store.size("t", "main"), most=most)


@pytest.mark.parametrize("language", TEXTS)
def test_what_is_loaded_whole_fits_whole_and_shows_the_best_chunk(language):
    words = TEXTS[language].split() if language == "english" else [*TEXTS[language]]
    space = " " if language == "english" else ""
    dice = random.Random(7)
    said = [space.join(dice.sample(words * 6, 5 * len(words))) for _ in range(24)]
    rows = [{"id": f"c{n}", "text": text} for n, text in enumerate(said)]
    with Millgate.open(":memory:", grade={"enabled": False}) as gate:
        gate.add(rows)
        whole = sum(gate.count_tokens(row["text"]) for row in rows)
        for budget in (whole // 4, whole // 2, whole, 2 * whole):
            context = gate.context(said[17], budget=budget, context_budget=ROOMY)
            if context.strategy is Strategy.STUFF:
                assert not did_not_fit(context)
            assert "c17" in {chunk.id for chunk in context.chunks}
        assert context.strategy is Strategy.STUFF
        assert (
            gate.context("c", budget=whole // 4, context_budget=ROOMY).strategy
            is not Strategy.STUFF
        )


@settings(max_examples=25, deadline=None)
@given(st.lists(st.sampled_from([*TEXTS.values(), "", "[1] # x", "<b>"]), max_size=12), st.data())
def test_a_collection_that_fits_is_shown_whole(texts, data):
    rows = [{"id": f"c{n}", "text": f"{text}{n}"} for n, text in enumerate(texts)]
    with Millgate.open(":memory:", grade={"enabled": False}) as gate:
        gate.add(rows)
        most = 60 + sum(gate.count_tokens(row["text"]) + 8 for row in rows)
        budget = data.draw(st.integers(1, most))
        context = gate.context("summarize this", budget=budget, context_budget=ROOMY)
        if context.strategy is Strategy.STUFF:
            assert not did_not_fit(context)


def test_a_count_holds_until_the_collection_changes():
    store = CountingStore()
    sizes = CollectionTokens(store, estimate_tokens, notice="")
    put(store, ["a word"] * 3)
    first = ask(sizes, store, 1000)
    assert (ask(sizes, store, 1000), ask(sizes, store, 500), store.read) == (first, first, 3)
    put(store, ["港口港口"])  # as long as before, and of more tokens
    put(store, ["港口港口港口"])
    assert ask(sizes, store, 1000) > first
    assert store.read == 6


def test_a_collection_far_too_large_is_not_read():
    store = CountingStore()
    sizes = CollectionTokens(store, estimate_tokens, notice="")
    put(store, [TEXTS["english"]] * 1000)
    assert ask(sizes, store, 100) > 10_000
    assert store.read == 0


class BrokenStore(TemporaryStore):
    """A store that cannot tell sizes."""

    def size(self, tenant, collection):
        raise OSError("no size")


def test_a_collection_of_unknown_size_is_not_loaded_whole():
    store = BrokenStore()
    with Millgate.open(store=store) as gate:
        gate.add([{"id": "a", "text": "The harbor was restored."}])
        context = gate.context("summarize this", context_budget=ROOMY)
        assert context.strategy is not Strategy.STUFF
