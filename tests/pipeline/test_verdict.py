"""From a question to a verdict and its fallbacks, through the whole engine."""

import asyncio
from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import settings as settings_of_hypothesis
from hypothesis import strategies as st
from tests.building import build, engine_over

from millgate import Millgate
from millgate.errors import StoreError, UpstreamError
from millgate.gateway import wiring
from millgate.knowledge.review import ReviewQueue
from millgate.models.search import web_chunks
from millgate.pipeline.resources import Policies
from millgate.settings import Settings
from millgate.text.fence import fence_cost
from millgate.text.tokens import estimate_tokens
from millgate.types import Chunk, ContextBudget, Request, Window
from millgate.types.notes import NoteCode, Stage

CITIES = ["Oslo", "Turin", "Quito", "Dakar", "Perth", "Lagos", "Kyoto", "Porto"]
THINGS = ["bridge", "harbor", "museum", "library", "market", "garden", "tower", "station"]
VERBS = ["opened", "closed", "burned", "moved", "expanded", "restored"]
RIGHT = "When was the harbor of Quito restored by the council?"
WRONG = "What did Melanie's dentist recommend to Jonathan after his marathon?"


class Web:
    """A search that brings what it is told, or fails."""

    def __init__(self, *texts, error=None):
        self.texts, self.error = texts, error

    async def search(self, query, *, limit):
        if self.error:
            raise self.error
        rows = [{"url": f"https://example.org/{n}", "content": t} for n, t in enumerate(self.texts)]
        return web_chunks(rows, limit)


class Judge:
    """A grader that gives every candidate the same confidence, or fails."""

    def __init__(self, mark=None, error=None):
        self.mark, self.error = mark, error

    async def grade(self, query, candidates):
        if self.error:
            raise self.error
        return [self.mark] * len(candidates)


@pytest.fixture(scope="module")
def parts():
    made = wiring.build(Settings(store=":memory:"))
    from millgate.ingest.load import add_rows

    cells = [(c, t, v) for c in CITIES for t in THINGS for v in VERBS]
    rows = [
        {
            "id": f"{city}-{thing}-{verb}",
            "text": f"The {thing} of {city} was {verb} in {1900 + n} by the city council.",
        }
        for n, (city, thing, verb) in enumerate(cells)
    ]
    add_rows(made.store, "default", rows, collection="main", policy=made.settings.ingest)
    yield made
    made.close()


def engine(parts, *, settings=None, **ports):
    settings = settings or parts.settings
    policy = Policies(**{f.name: getattr(settings, f.name) for f in fields(Policies)})
    return engine_over(parts.store, parts.indexes.snapshot, policy, **ports)


async def test_a_right_question_is_answered_without_any_fallback(parts):
    context = await build(engine(parts, search=Web("unused")), Request(RIGHT, budget=300))
    assert context.chunks[0].id == "Quito-harbor-restored"
    assert (context.fallback, context.review) == ("", "")


@pytest.fixture
def asking(parts):
    """Settings under which a refusal waits for a person."""
    review = parts.settings.review.model_copy(update={"on_refusal": True})
    return parts.settings.model_copy(update={"review": review})


FOREIGN = "What did the council of dentists recommend to Jonathan after his long marathon in Lyon?"


async def test_a_refusal_says_why_and_what_it_refused_and_opens_no_review(parts):
    context = await build(engine(parts), Request(FOREIGN, budget=300))
    assert (context.text, context.chunks, context.token_estimate) == ("", (), 0)
    assert (context.fallback, context.review) == ("", "")
    assert "nothing relevant" in context.fallback_reason
    assert context.fallback_reason.count("(0.") == 3


async def test_a_wrong_question_waits_for_a_person_if_the_setting_asks_for_it(parts, asking):
    context = await build(engine(parts, settings=asking), Request(WRONG, budget=300))
    assert (context.text, context.chunks, context.token_estimate) == ("", (), 0)
    assert context.fallback == "review"
    waiting = ReviewQueue(parts.store, "default").review(context.review)
    assert waiting.query == WRONG
    again = await build(engine(parts, settings=asking), Request(WRONG, budget=300))
    assert again.review == context.review


async def test_a_search_answers_what_the_collection_cannot(parts):
    said = "The dentist of Melanie did recommend rest to Jonathan after his marathon."
    context = await build(engine(parts, search=Web(said, "x")), Request(WRONG, budget=300))
    assert context.fallback == "search"
    assert context.sources[0] == "https://example.org/0"
    assert said in context.text
    assert all(chunk.source == "web" for chunk in context.chunks)
    assert context.review == ""


async def test_a_search_that_brings_nothing_better_leads_to_a_person(parts, asking):
    web = Web("Buy cheap watches now.")
    through = engine(parts, settings=asking, search=web)
    context = await build(through, Request(WRONG + " Really?", budget=300))
    assert context.text == ""
    assert context.fallback == "review"
    assert "search" in context.fallback_reason


async def test_a_search_that_fails_is_said_and_leads_to_a_person(parts, asking):
    web = Web(error=UpstreamError("the search is down"))
    context = await build(engine(parts, settings=asking, search=web), Request(WRONG, budget=300))
    assert context.degraded == ("search: the search is down",)
    assert context.review


async def test_an_ambiguous_verdict_shows_both(parts):
    both = engine(parts, grader=Judge(0.5), search=Web("The harbor of Quito, seen from afar."))
    context = await build(both, Request(RIGHT, budget=1000))
    assert {chunk.source for chunk in context.chunks} == {"document", "web"}
    assert context.fallback == "search"


async def test_a_grader_that_fails_lets_all_pass_and_is_said(parts):
    broken = engine(parts, grader=Judge(error=UpstreamError("the judge is out")))
    context = await build(broken, Request(RIGHT, budget=300))
    assert context.chunks
    assert context.degraded == ("grade: the judge is out",)
    assert context.verdict == ""


async def test_a_grader_and_a_search_that_do_not_await_are_told_how_to(parts):
    class Plain:
        def grade(self, query, candidates):
            return [1.0] * len(candidates)

        def search(self, query, *, limit):
            return []

    context = await build(engine(parts, grader=Plain()), Request(RIGHT, budget=300))
    assert context.chunks
    assert context.degraded == (
        "grade: the grader does not await (write it as: async def grade(...))",
    )
    context = await build(engine(parts, search=Plain()), Request(WRONG, budget=300))
    assert context.degraded == (
        "search: the search does not await (write it as: async def search(...))",
    )


async def test_a_crisis_is_always_seen_by_a_person(parts):
    context = await build(
        engine(parts), Request("I want to die near the harbor of Quito", budget=300)
    )
    assert context.fallback_reason == "a crisis question"
    assert context.review


async def test_the_queue_can_be_off(parts):
    quiet = parts.settings.model_copy(
        update={"review": parts.settings.review.model_copy(update={"enabled": False})}
    )
    context = await build(engine(parts, settings=quiet), Request(WRONG + " Now?", budget=300))
    assert (context.fallback, context.review) == ("", "")
    assert context.fallback_reason


ROOMY = ContextBudget(context_length=200_000, used_tokens=0)


async def test_whole_documents_keep_their_order_and_show_their_grades(parts):
    context = await build(
        engine(parts), Request("write a poem", budget=100_000, context_budget=ROOMY)
    )
    assert context.strategy == "STUFF"
    ids = [chunk.id for chunk in context.chunks]
    assert ids == [chunk.id for chunk in parts.store.scan("default", "main")]
    assert all(c.number(Stage.GRADE, "confidence") is not None for c in context.trace.candidates)


async def test_whole_documents_that_do_not_answer_are_left_out_like_any_others(parts):
    right = await build(engine(parts), Request(RIGHT, budget=100_000, context_budget=ROOMY))
    assert right.strategy == "STUFF"
    assert right.chunks
    wrong = await build(engine(parts), Request(WRONG, budget=100_000, context_budget=ROOMY))
    assert wrong.strategy == "STUFF"
    assert wrong.text == ""
    assert "nothing relevant was found" in wrong.fallback_reason


async def test_loading_whole_respects_k(parts):
    request = Request(RIGHT, budget=100_000, context_budget=ROOMY, k=2)
    context = await build(engine(parts), request)
    assert 1 <= len(context.chunks) <= 2


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"context_budget": ROOMY, "budget": 100_000, "task": "creative_writing"},
        {"context_budget": ContextBudget(1_000, 999)},
        {"context_budget": ContextBudget(1_000, 5_000)},
        {"budget": 0},
        {"collection": "empty"},
        {"task": "conversation"},
    ],
)
async def test_a_crisis_always_reaches_a_person(parts, asked):
    context = await build(engine(parts), Request("I want to kill myself", **asked))
    assert context.fallback == "review"
    held = parts.store.review("default", context.review)
    assert held.query == "I want to kill myself"


async def test_a_crisis_reaches_a_person_when_the_window_holds_all_that_was_found(parts):
    chunks = list(parts.store.scan("default", "main"))
    window = Window(tuple(chunk.text for chunk in chunks))
    request = Request(f"I want to die. {chunks[0].text}", window=window)
    context = await build(engine(parts), request)
    assert context.text == ""
    assert context.review


async def test_a_crisis_reaches_a_person_when_no_index_can_be_read(parts):
    def broken(tenant, collection, query):
        raise StoreError("the index is gone")

    policy = Policies(**{f.name: getattr(parts.settings, f.name) for f in fields(Policies)})
    made = engine_over(parts.store, broken, policy)
    context = await build(made, Request("I want to kill myself"))
    assert context.review
    assert context.degraded


@pytest.mark.parametrize(("budget", "k"), [(0, None), (1, None), (10_000_000, None), (500, 1)])
async def test_extreme_requests_have_a_defined_answer(parts, budget, k):
    context = await build(engine(parts), Request(RIGHT, budget=budget, k=k))
    assert context.token_estimate <= budget
    assert estimate_tokens(context.text) <= budget
    assert context.degraded == ()
    assert bool(context.text) == (budget > 1)


async def test_nothing_is_lost_on_the_way(parts):
    context = await build(engine(parts), Request(RIGHT, budget=300))
    kept = {chunk.id for chunk in context.chunks}
    assert context.report.total_candidates == len(context.trace.candidates)
    assert kept.isdisjoint(context.report.evicted_ids)
    assert set(context.report.reasons) == set(context.report.evicted_ids)


async def test_what_the_window_shows_already_needs_no_fallback(parts):
    first = await build(engine(parts), Request(RIGHT, budget=300))
    everything = Window.of([c.text for c in parts.store.scan("default", "main")])
    context = await build(engine(parts), Request(RIGHT, budget=300, window=everything))
    assert first.chunks
    assert context.text == ""
    assert "window" in context.fallback_reason
    assert context.review == ""


async def test_what_the_window_shows_still_speaks_for_the_collection(parts):
    best = parts.store.chunks("default", "main", ["Quito-harbor-restored"])
    seen = Window.of([chunk.text for chunk in best])
    context = await build(engine(parts), Request("harbor of Quito", budget=300, window=seen))
    assert context.chunks
    assert "Quito-harbor-restored" not in {chunk.id for chunk in context.chunks}


async def test_what_does_not_fit_is_not_called_irrelevant(parts):
    context = await build(engine(parts), Request(RIGHT, budget=32))
    assert context.text == ""
    assert "fits the budget of 32 tokens: the smallest chunk takes" in context.fallback_reason


@pytest.mark.parametrize("copies", [1, 2])
def test_a_text_that_is_stored_twice_is_not_taken_for_one_in_the_window(copies):
    with Millgate.open(":memory:") as gate:
        gate.add([{"id": f"policy{n}", "text": POLICY} for n in range(copies)])
        reason = gate.context("refund?", budget=5).fallback_reason
    assert reason.startswith("nothing of what was found fits the budget of 5 tokens: ")


def test_the_note_of_doubt_leaves_no_context_empty():
    with Millgate.open(":memory:") as gate:
        gate.add([{"id": "a", "text": "Refunds are paid within 14 days to the card."}])
        sizes = [gate.context("refunds card", budget=n).token_estimate for n in range(40, 90)]
        least = 40 + sizes.index(next(filter(None, sizes)))
        assert least <= fence_cost(gate.count_tokens) + 20
        assert all(sizes[least - 40 :])


def test_an_empty_collection_is_named():
    with Millgate.open(":memory:") as gate:
        gate.add([{"id": "a", "text": "Refunds take five days."}])
        reason = gate.context("How long do refunds take?", collection="mian").fallback_reason
        assert reason.startswith("nothing is in collection mian (did you mean main?)")
        assert "mian (did you mean main?)" in repr(gate.context("refunds", collection="mian"))
        some = gate.context("How long do refunds take?", collection=["main", "nope", "mani"])
        assert some.chunks
        assert some.as_dict()["fallback_reason"] == "nothing is in collection nope, mani"
        assert "nothing is in collection nope, mani" in repr(some)
        nothing = gate.context("Who sells zebras?")
        assert not nothing
        assert "nothing relevant was found" in nothing.fallback_reason
        assert "nothing relevant was found" in nothing.explain()
        assert gate.context("How long do refunds take?")


def test_an_empty_store_says_that_nothing_is_stored():
    with Millgate.open(":memory:") as gate:
        assert "nothing is stored yet" in repr(gate.context("anything?"))


class Copies:
    """A search that gives every chunk an id that a stored one has."""

    def __init__(self, *ids):
        self.ids = ids

    async def search(self, query, *, limit):
        return [Chunk(id, f"{WRONG} Floss. {n}", source="web") for n, id in enumerate(self.ids)]


@settings_of_hypothesis(max_examples=10, deadline=None)
@given(places=st.sets(st.integers(0, 30), min_size=1, max_size=5))
def test_a_web_result_with_the_id_of_a_stored_chunk_is_another_candidate(parts, places):
    alone = asyncio.run(build(engine(parts, grader=Judge(0.0)), Request(WRONG + RIGHT, budget=900)))
    stored = [c.chunk.id for c in alone.trace.candidates]
    taken = [stored[at % len(stored)] for at in sorted(places)]
    ids = list(dict.fromkeys(taken))
    made = engine(parts, grader=Judge(0.0), search=Copies(*ids))
    trace = asyncio.run(build(made, Request(WRONG + RIGHT, budget=900))).trace
    found = [(c.chunk.id, c.chunk.source) for c in trace.candidates]
    assert len(found) == len({id for id, _ in found}) == sum(step.added for step in trace.steps)
    assert {id for id, source in found if source != "web"} == {*stored}
    assert sorted(id for id, source in found if source == "web") == sorted(
        f"web:{id}" for id in ids
    )


FILLER = [
    {"id": f"n{n}", "text": f"The {thing} of house {n} was painted {color} in spring."}
    for n, (thing, color) in enumerate(
        (t, c) for t in ("roof", "door", "plant") for c in "abcdefgh"
    )
]
POLICY = "Refunds are paid to the card within five days. How a refund works is written on the bill."


def test_a_window_that_shows_the_policy_brings_no_roofs_and_plants():
    with Millgate.open(":memory:") as gate:
        more = [
            "Plants depend on water, and work in the garden conflicts with rest.",
            "The roof works.",
        ]
        gate.add([{"id": "policy", "text": POLICY}, *FILLER])
        gate.add([{"id": f"more{n}", "text": text} for n, text in enumerate(more)])
        plain = gate.context("how do refunds work?")
        seen = gate.context("how do refunds work?", window=[POLICY])
    assert plain.chunks[0].id == "policy"
    assert (plain.verdict, seen.verdict) == ("correct", "")
    assert seen.text == ""
    assert seen.fallback_reason == "everything relevant is in the window already"
    codes = {c.notes[-1].code for c in seen.trace.candidates if c.dropped}
    assert codes == {NoteCode.IN_WINDOW, NoteCode.LEFT_OVER}


def test_a_doubtful_block_says_so_in_its_opening_line(parts):
    with Millgate.open(":memory:", grade={"upper": 1.0}) as gate:
        gate.add([{"id": "policy", "text": POLICY}, *FILLER])
        made = gate.context("how do refunds work?", budget=200)
        assert made.verdict == "ambiguous"
        assert made.text.splitlines()[0].endswith("; it may not answer the question>")
        assert gate.count_tokens(made.text) <= 200
        assert 0 < made.confidences["policy"] <= 1
    with Millgate.open(":memory:") as gate:
        gate.add([{"id": "policy", "text": POLICY}, *FILLER])
        assert "may not answer" not in gate.context("how do refunds work?").text


def test_what_only_another_query_found_does_not_stand_beside_the_best():
    """A second pass asks with words added; a chunk that holds nothing of the question is no evidence for it."""
    with Millgate.open(":memory:") as gate:
        gate.add([{"id": "policy", "text": POLICY}, *FILLER])
        seen = gate.context("how do refunds work?", window=[POLICY], graph=False)
    assert not [chunk.id for chunk in seen.chunks if chunk.source == "document"]
