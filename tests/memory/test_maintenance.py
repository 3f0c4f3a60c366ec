"""Upkeep: fading and merging are recorded, and lose nothing."""

import pytest

from headgate.errors import InputError
from headgate.memory.facts import Facts
from headgate.memory.maintenance import decay, merge
from headgate.stores.memory.store import MemoryStore
from headgate.testing import FixedClock

DAY = 86_400


def test_trust_fades_with_age_and_is_recorded():
    clock = FixedClock()
    facts = Facts(MemoryStore(), "t", clock=clock)
    old = facts.add("old thing", trust=0.8).fact
    clock.advance(10 * DAY)
    new = facts.add("new thing", trust=0.8).fact
    (moved,) = decay(facts, 10)
    assert (moved.id, moved.old, moved.new) == (old.id, 0.8, 0.4)
    assert facts.get(old.id).history[-1].reason == "decay"
    assert facts.get(new.id).trust == 0.8
    assert decay(facts, 10) == []
    clock.advance(10 * DAY)
    decay(facts, 10)
    assert facts.get(old.id).trust == pytest.approx(0.2)


@pytest.mark.parametrize("days", [0, -1, float("nan"), float("inf")])
def test_a_half_life_out_of_range_is_refused(days):
    with pytest.raises(InputError, match="half-life"):
        decay(Facts(MemoryStore(), "t"), days)


def test_wordings_of_one_fact_become_one():
    clock = FixedClock()
    facts = Facts(MemoryStore(), "t", clock=clock)
    first = facts.add("Backups run nightly at the Frankfurt site", tags=["ops"], trust=0.4).fact
    clock.advance(5)
    best = facts.add("Nightly backups run at the site Frankfurt", tags=["db"], trust=0.6).fact
    other = facts.add("Backups run weekly at the Dublin site").fact
    facts.feedback(first.id, helpful=True)
    (done,) = merge(facts)
    assert (done.kept, done.gone) == (best.id, (first.id,))
    kept = facts.get(best.id)
    assert (kept.tags, kept.helpful, kept.trust) == (("db", "ops"), 1, 0.6)
    assert kept.created == first.created
    assert kept.history[-1].reason == f"merged {first.id}"
    assert {f.id for f in facts.all()} == {best.id, other.id}
    assert merge(facts) == []
