"""Upkeep: fading and merging are recorded, and lose nothing."""

import pytest

from headgate.errors import InputError
from headgate.memory.facts import Notebook
from headgate.memory.maintenance import decay, merge
from headgate.stores.memory.store import MemoryStore
from headgate.testing import FixedClock

DAY = 86_400


def test_trust_fades_with_age_and_is_recorded():
    clock = FixedClock()
    book = Notebook(MemoryStore(), "t", clock=clock)
    old = book.add("old thing", trust=0.8).fact
    clock.advance(10 * DAY)
    new = book.add("new thing", trust=0.8).fact
    (moved,) = decay(book, 10)
    assert (moved.id, moved.old, moved.new) == (old.id, 0.8, 0.4)
    assert book.fact(old.id).history[-1].reason == "decay"
    assert book.fact(new.id).trust == 0.8
    assert decay(book, 10) == []
    clock.advance(10 * DAY)
    decay(book, 10)
    assert book.fact(old.id).trust == pytest.approx(0.2)


@pytest.mark.parametrize("days", [0, -1, float("nan"), float("inf")])
def test_a_half_life_out_of_range_is_refused(days):
    with pytest.raises(InputError, match="half-life"):
        decay(Notebook(MemoryStore(), "t"), days)


def test_wordings_of_one_fact_become_one():
    clock = FixedClock()
    book = Notebook(MemoryStore(), "t", clock=clock)
    first = book.add("Backups run nightly at the Frankfurt site", tags=["ops"], trust=0.4).fact
    clock.advance(5)
    best = book.add("Nightly backups run at the site Frankfurt", tags=["db"], trust=0.6).fact
    other = book.add("Backups run weekly at the Dublin site").fact
    book.feedback(first.id, helpful=True)
    (done,) = merge(book)
    assert (done.kept, done.gone) == (best.id, (first.id,))
    kept = book.fact(best.id)
    assert (kept.tags, kept.helpful, kept.trust) == (("db", "ops"), 1, 0.6)
    assert kept.created == first.created
    assert kept.history[-1].reason == f"merged {first.id}"
    assert {f.id for f in book.facts()} == {best.id, other.id}
    assert merge(book) == []
