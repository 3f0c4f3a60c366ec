"""Facts: said once, trusted by evidence, found by their words, and never lost silently."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millgate.errors import InputError, LimitError, NotFound
from millgate.knowledge.facts import Facts, FactsPolicy
from millgate.stores.temporary import TemporaryStore
from millgate.testing import FixedClock
from millgate.types import Plan, Strategy, Tier
from millgate.types.notes import NoteCode


def new_facts(**knobs) -> Facts:
    return Facts(TemporaryStore(), "t", FactsPolicy(**knobs), clock=FixedClock())


def plan(**changes) -> Plan:
    return Plan(skip=False, tier=Tier.HYBRID, strategy=Strategy.HYBRID, budget=1000, **changes)


def test_a_fact_is_remembered_whole():
    facts = new_facts()
    added = facts.add("Alice prefers  dark mode.", category="preference", tags=["ui", "UI", ""])
    assert added.new
    fact = facts.get(added.fact.id)
    assert fact == added.fact
    assert fact.content == "Alice prefers dark mode."
    assert (fact.category, fact.tags, fact.entities) == ("preference", ("ui",), ("Alice",))
    assert (fact.trust, fact.helpful, fact.created) == (0.5, 0, 1_750_000_000.0)


@pytest.mark.parametrize(
    "content", ["数据库每晚备份。", "データベースは毎晩複製！", "डेटा हर रात सहेजा जाता है।"]
)
def test_a_closing_stop_of_any_script_makes_no_other_fact(content):
    facts = new_facts()
    assert facts.add(content).new
    assert not facts.add(content[:-1]).new


@pytest.mark.parametrize("again", ["Bob likes tea", "bob  likes TEA.", " Bob likes tea! "])
def test_a_repeated_fact_is_the_existing_one(again):
    facts = new_facts()
    first = facts.add("Bob likes tea.").fact
    repeated = facts.add(again, trust=0.9)
    assert not repeated.new
    assert repeated.fact == first
    assert len(facts.all()) == 1


def test_a_fact_that_is_just_relevant_enough_is_kept():
    facts = new_facts(min_relevance=0.01)
    facts.add("Alice keeps bees in Porto.")
    (hit,) = facts.search("bees of Porto and Lisbon")
    exact = Facts(facts._store, "t", FactsPolicy(min_relevance=hit.relevance), clock=FixedClock())
    assert [c.chunk.id for c in exact.recall("bees of Porto and Lisbon", plan()).kept]
    above = FactsPolicy(min_relevance=hit.relevance + 1e-6)
    stricter = Facts(facts._store, "t", above, clock=FixedClock())
    assert stricter.recall("bees of Porto and Lisbon", plan()).kept == ()


def test_facts_that_differ_by_a_sign_are_two():
    facts = new_facts()
    facts.add("She writes C++")
    assert facts.add("She writes C#").new


@pytest.mark.parametrize("content", ["", "  \n\t", "\x00\x01"])
def test_an_empty_fact_is_refused(content):
    with pytest.raises(InputError, match="empty"):
        new_facts().add(content)


@pytest.mark.parametrize("redacts", [True, False])
def test_a_secret_in_a_fact_is_blanked_if_the_policy_says_so(redacts):
    facts = new_facts(redact=redacts)
    key = "glpat-" + "abcdefghij0123456789"  # in two halves: it is no leak
    kept = facts.add(f"The key of the relay is {key}.").fact
    assert (key in kept.content) is not redacts
    assert ("[redacted" in kept.content) is redacts
    changed = facts.update(kept.id, content=f"The new key is {key}.")
    assert (key in changed.content) is not redacts


def test_a_fact_may_be_exactly_as_long_as_the_limit():
    assert new_facts(fact_chars=20).add("x" * 20).new
    with pytest.raises(LimitError):
        new_facts(fact_chars=20).add("x" * 21)


def test_a_fact_of_a_megabyte_is_refused():
    with pytest.raises(LimitError, match=r"1,000,000 characters; at most 10,000"):
        new_facts().add("x" * 1_000_000)
    assert new_facts(fact_chars=2_000_000).add("x" * 1_000_000).new


def test_what_is_kept_beside_a_fact_has_a_bound_too():
    facts = new_facts()
    fact = facts.add("The ferry leaves at nine.", category="c" * 1_024, tags=["t" * 1_024]).fact
    facts.feedback(fact.id, helpful=True, note="n" * 1_000)
    for change in ({"category": "c" * 1_025}, {"tags": ["t" * 1_025]}, {"tags": ["t"] * 1_001}):
        with pytest.raises(LimitError, match="at most"):
            facts.update(fact.id, **change)
        with pytest.raises(LimitError, match="at most"):
            facts.add("The tram leaves at ten.", **change)
    with pytest.raises(LimitError, match="at most 1,000"):
        facts.feedback(fact.id, helpful=True, note="n" * 1_001)
    facts.update(fact.id, tags=["t"] * 1_000)


@pytest.mark.parametrize("trust", [-0.01, 1.01, float("nan"), float("inf")])
def test_trust_out_of_range_is_refused(trust):
    facts = new_facts()
    with pytest.raises(InputError, match=r"within 0\.\.1"):
        facts.add("x", trust=trust)
    fact = facts.add("x").fact
    with pytest.raises(InputError, match=r"within 0\.\.1"):
        facts.update(fact.id, trust=trust)
    with pytest.raises(InputError, match=r"within 0\.\.1"):
        facts.search("x", min_trust=trust)


def test_an_unknown_id_is_said():
    facts = new_facts()
    for call in (
        facts.get,
        facts.forget,
        lambda name: facts.feedback(name, helpful=True),
        lambda name: facts.update(name, trust=1.0),
    ):
        with pytest.raises(NotFound, match="'nope'"):
            call("nope")


@pytest.mark.parametrize("content", ["a\x00b", "a\ud800b", "a\u2028b", "\U000e0041a b"])
def test_hostile_characters_do_not_stop_a_fact(content):
    fact = new_facts().add(content).fact
    assert fact.content.isprintable()
    fact.content.encode()


@pytest.mark.parametrize(("helpful", "new"), [(True, 0.55), (False, 0.40)])
def test_feedback_moves_trust_and_is_recorded(helpful, new):
    facts = new_facts()
    id = facts.add("x").fact.id
    told = facts.feedback(id, helpful=helpful, note="because")
    assert (told.old, told.new) == (0.5, new)
    fact = facts.get(id)
    assert (fact.trust, fact.helpful, fact.unhelpful) == (new, int(helpful), int(not helpful))
    (step,) = fact.history
    assert (step.old, step.new) == (0.5, new)
    assert step.reason == ("helpful: because" if helpful else "unhelpful: because")


@given(st.lists(st.booleans(), max_size=40))
def test_trust_stays_within_bounds_and_history_is_a_chain(votes):
    facts = new_facts()
    id = facts.add("x").fact.id
    for helpful in votes:
        facts.feedback(id, helpful=helpful)
    fact = facts.get(id)
    assert 0 <= fact.trust <= 1
    assert fact.helpful + fact.unhelpful == len(votes)
    trusts = [0.5, *(step.new for step in fact.history)]
    assert [step.old for step in fact.history] == trusts[:-1]
    assert trusts[-1] == fact.trust


def test_history_is_bounded():
    facts = new_facts()
    id = facts.add("x").fact.id
    for _ in range(150):
        facts.feedback(id, helpful=True)
    assert len(facts.get(id).history) == 100


def test_no_feedback_is_lost_between_threads():
    facts = new_facts()
    id = facts.add("x", trust=0.0).fact.id
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: facts.feedback(id, helpful=True), range(16)))
    assert facts.get(id).trust == pytest.approx(0.8)
    assert facts.get(id).helpful == 16


def test_search_ranks_by_relevance_times_trust():
    facts = new_facts()
    low = facts.add("The deploy target is Frankfurt", trust=0.4).fact
    high = facts.add("The deploy window is Friday", trust=0.9).fact
    facts.add("Completely different things")
    hits = facts.search("deploy")
    assert [hit.fact.id for hit in hits] == [high.id, low.id]
    assert all(hit.score == pytest.approx(hit.relevance * hit.fact.trust) for hit in hits)
    assert all(0 < hit.relevance <= 1 for hit in hits)


def test_search_returns_nothing_under_the_minimal_trust():
    facts = new_facts()
    facts.add("deploy on Friday", trust=0.2)
    assert facts.search("deploy") == []
    assert len(facts.search("deploy", min_trust=0.1)) == 1


def test_search_keeps_to_its_limit():
    facts = new_facts()
    for day in range(9):
        facts.add(f"deploy number {day}")
    assert len(facts.search("deploy")) == 5
    assert len(facts.search("deploy", limit=2)) == 2
    assert facts.search("deploy", limit=0) == []
    assert facts.search("") == []


def test_words_match_by_their_stem_and_tags_count():
    facts = new_facts()
    fact = facts.add("Backups happen nightly", tags=["restore"]).fact
    assert [hit.fact.id for hit in facts.search("how do I restore a backup?")] == [fact.id]


def test_age_halves_the_score():
    store, clock = TemporaryStore(), FixedClock()
    facts = Facts(store, "t", FactsPolicy(half_life_days=10), clock=clock)
    facts.add("deploy on Friday")
    fresh = facts.search("deploy")[0].score
    clock.advance(10 * 86_400)
    assert facts.search("deploy")[0].score == pytest.approx(fresh / 2)
    clock.advance(-20 * 86_400)  # a clock that went back
    assert facts.search("deploy")[0].score == pytest.approx(fresh)


def test_recall_obeys_the_plan_and_loses_nothing():
    facts = new_facts()
    doubted = facts.add("deploy log A", trust=0.3).fact
    trusted = [facts.add(f"deploy step {n}", trust=0.8).fact for n in "BCD"]
    sifted = facts.recall("deploy", plan(limit=2, min_trust=0.5))
    assert len(sifted.kept) == 2
    assert {c.chunk.id for c in sifted.kept} <= {f.id for f in trusted}
    reasons = {c.chunk.id: c.notes[-1].reason for c in sifted.dropped}
    assert reasons[doubted.id] == "trust 0.30 below 0.50"
    assert "beyond limit 2" in reasons.values()
    assert set(sifted.added) == {*sifted.kept, *sifted.dropped}
    best = sifted.kept[0]
    assert (best.chunk.source, best.chunk.admission) == ("memory", None)
    assert best.score == pytest.approx(best.notes[0].numbers["relevance"] * 0.8)


def test_recall_without_limits_uses_the_policy():
    facts = new_facts(limit=1, min_trust=0.1)
    facts.add("deploy A", trust=0.2)
    facts.add("deploy B", trust=0.2)
    assert len(facts.recall("deploy", plan()).kept) == 1
    assert len(facts.recall("deploy").kept) == 1


def test_one_chance_word_is_not_recalled():
    facts = new_facts()
    for n in range(30):
        facts.add(f"the project has item {n}")
    query = "bake sourdough bread with rye flour for the project picnic on sunday"
    dropped = facts.recall(query).dropped
    assert facts.search(query) == []
    assert "relevance" in dropped[0].notes[-1].reason


def test_update_changes_words_and_keeps_the_rest():
    facts = new_facts()
    fact = facts.add("Alice lives in Paris", tags=["home"]).fact
    facts.feedback(fact.id, helpful=True)
    after = facts.update(fact.id, content="Alice lives in Berlin", trust=0.9)
    assert after.id == fact.id
    assert after.entities == ("Alice", "Berlin")
    assert (after.trust, after.tags, after.helpful) == (0.9, ("home",), 1)
    assert [step.reason for step in after.history] == ["helpful", "set"]
    assert facts.search("Paris") == []
    assert facts.search("Berlin")[0].fact.id == fact.id
    assert facts.add("Alice lives in Paris").fact.id != fact.id


def test_update_to_what_another_says_is_refused():
    facts = new_facts()
    one, two = facts.add("one thing").fact, facts.add("other thing").fact
    with pytest.raises(InputError, match=one.id):
        facts.update(two.id, content="One thing.")
    assert facts.get(two.id).content == "other thing"
    assert facts.update(two.id, content="Other thing!").content == "Other thing!"


def test_a_forgotten_fact_is_gone():
    facts = new_facts()
    id = facts.add("deploy").fact.id
    facts.forget(id)
    assert facts.all() == []
    assert facts.search("deploy") == []
    assert facts.add("deploy").new


def test_facts_written_by_others_are_seen():
    store = TemporaryStore()
    one, two = Facts(store, "t"), Facts(store, "t")
    fact = one.add("deploy on Friday").fact
    assert [h.fact.id for h in two.search("deploy")] == [fact.id]
    one.feedback(fact.id, helpful=True)
    assert two.search("deploy")[0].fact.trust == 0.55
    one.forget(fact.id)
    assert two.search("deploy") == []
    assert Facts(store, "other").all() == []


def test_recalled_facts_are_counted():
    facts = new_facts()
    fact = facts.add("deploy").fact
    facts.count_recall([fact.id, "unknown"])
    assert facts.get(fact.id).recalled == 1


def test_facts_are_listed_by_trust():
    facts = new_facts()
    facts.add("a thing", trust=0.2)
    facts.add("b thing", trust=0.9, category="x")
    assert [f.trust for f in facts.all()] == [0.9, 0.2]
    assert [f.trust for f in facts.all(category="x")] == [0.9]
    assert [f.trust for f in facts.all(min_trust=0.5)] == [0.9]


@given(st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=30), st.randoms())
def test_the_fact_index_is_the_same_whatever_path_led_there(names, random):
    """An incrementally kept index ranks as one built from scratch."""
    store, clock = TemporaryStore(), FixedClock()
    facts = Facts(store, "t", clock=clock)
    for name in names:
        clock.advance(1)
        fact = facts.add(f"thing {name} {'x' * random.randint(0, 2)}").fact
        facts.search("thing x")
        if random.random() < 0.3:
            facts.forget(fact.id)
        elif random.random() < 0.3:
            facts.feedback(fact.id, helpful=random.random() < 0.5)
    again = Facts(store, "t", clock=clock)
    assert facts.search("thing x a b", min_trust=0) == again.search("thing x a b", min_trust=0)


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ("The Alpine Club meets in Bern.", ("Alpine Club", "Bern")),
        ("Die Datenbanken werden jede Nacht in Bern gesichert.", ("Datenbanken", "Nacht", "Bern")),
        ("Η Άννα μένει στο Βερολίνο.", ("Άννα", "Βερολίνο")),
        ("Οι βάσεις δεδομένων αντιγράφονται κάθε νύχτα.", ()),
        ("安娜住在柏林。", ()),
    ],
)
def test_an_article_that_opens_a_fact_is_no_part_of_a_name(content, named):
    assert new_facts().add(content).fact.entities == named


def test_each_recalled_fact_that_is_dropped_says_why_and_takes_no_place():
    facts = new_facts(min_relevance=0.3)
    for content, trust in (
        ("A: the ferry ticket", 0.9),
        ("B: the ferry ticket", 0.8),
        ("C: the ferry ticket", 0.29),
    ):
        facts.add(content, trust=trust)
    facts.add("a ferry among many other words that say little of it at all today", trust=1.0)
    sifted = facts.recall("which ferry ticket?", plan(limit=1))
    assert [c.chunk.text for c in sifted.kept] == ["A: the ferry ticket"]
    assert {c.chunk.text[:1]: c.notes[-1].code for c in sifted.dropped} == {
        "B": NoteCode.BEYOND_LIMIT,
        "C": NoteCode.LOW_TRUST,
        "a": NoteCode.LOW_RELEVANCE,
    }
