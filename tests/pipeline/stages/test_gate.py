import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millgate.errors import InputError
from millgate.pipeline.engine import report
from millgate.pipeline.stages.gate import GatePolicy, Shown, gate, measure_all
from millgate.ranking.question import ask
from millgate.text.entropy import information_score
from millgate.types import Candidate, Chunk
from millgate.types.notes import NoteCode, Stage

POLICY = GatePolicy()


def quarter(text):
    return len(text) // 4


def found(*texts, scores=None, source="document"):
    scores = scores or [1 - at / 100 for at in range(len(texts))]
    return [
        Candidate(Chunk(f"c{at}", text, source=source), score)
        for at, (text, score) in enumerate(zip(texts, scores, strict=True))
    ]


def ids(candidates):
    return [c.chunk.id for c in candidates]


def prose(seed, words=40):
    """So many words of no language, in lines of three, so that parts of it can be shown."""
    rng = random.Random(seed)
    drawn = ["".join(rng.choices("abcdefghijklmnop", k=rng.randint(2, 9))) for _ in range(words)]
    lines = [" ".join(drawn[at : at + 3]) for at in range(0, words, 3)]
    return "\n".join(lines)


def test_the_best_come_first_and_all_fit():
    sifted = gate(found("a red fox", "a blue whale"), 200, quarter, POLICY)
    assert ids(sifted.kept) == ["c0", "c1"]
    assert sifted.kept[0].notes[-1].reason.startswith("fits ")


def test_what_does_not_fit_is_skipped_and_the_next_is_tried():
    sifted = gate(found(prose(1, 400), "short and good"), 100, quarter, POLICY)
    assert ids(sifted.kept) == ["c1"]
    assert "no room" in sifted.dropped[0].notes[-1].reason


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty text"),
        (" \n\t ", "empty text"),
        ("2024-01-01 INFO heartbeat ok\n" * 60, "boilerplate"),
        ("-" * 4000, "boilerplate"),
    ],
)
def test_what_carries_nothing_is_dropped_whatever_its_score(text, reason):
    sifted = gate(found(text, "a plain sentence", scores=[1.0, 0.1]), 4000, quarter, POLICY)
    assert ids(sifted.kept) == ["c1"]
    assert reason in sifted.dropped[0].notes[-1].reason


def test_short_or_varied_text_is_never_boilerplate():
    texts = ["no no no no no no", prose(2, 300), "| a | b |\n|---|---|\n| 1 | 2 |"]
    assert len(gate(found(*texts), 10_000, quarter, POLICY).kept) == 3


def test_what_fits_is_handed_on_by_worth_and_not_by_length():
    candidates = found(prose(4, 300), prose(5, 10), scores=[0.55, 0.5])
    assert ids(gate(candidates, 5000, quarter, POLICY).kept) == ["c0", "c1"]


def test_small_chunks_never_displace_the_best_one():
    candidates = found(
        prose(4, 100), *(prose(seed, 5) for seed in range(40)), scores=[1] + [0.99] * 40
    )
    assert "c0" in ids(gate(candidates, 220, quarter, POLICY).kept)


class Words:
    """A vocabulary in which every term is rare."""

    language = all_languages = "english"
    count, conversational, unseen_rate = 100, False, 0.0

    def frequencies(self, terms):
        return np.ones(len(terms), np.int64)


# of a question that no text holds anything of, the strips from the beginning on are shown
QUESTIONS = {"main": ask("zither", Words())}


def test_the_best_chunk_is_shown_in_part_if_the_whole_does_not_fit():
    candidates = found(prose(4, 400), prose(5, 20), scores=[1, 0.5])
    sifted = gate(candidates, 200, quarter, POLICY, questions=QUESTIONS)
    assert ids(sifted.kept)[0] == "c0"
    assert candidates[0].chunk.text.startswith(sifted.strips["c0"].removesuffix(" …"))
    assert sifted.kept[0].notes[-1].code is NoteCode.FITS_IN_PART
    assert ids(gate(candidates, 200, quarter, POLICY).kept) == ["c1"]


def tokens_of(sifted, id):
    [candidate] = [c for c in sifted.kept if c.chunk.id == id]
    return candidate.notes[-1].numbers["tokens"]


def test_no_chunk_that_does_not_fit_takes_the_tokens_of_all_others():
    candidates = found(*(prose(seed, 2000) for seed in range(4)), scores=[1, 0.9, 0.8, 0.7])
    sifted = gate(candidates, 1000, quarter, POLICY, questions=QUESTIONS)
    assert ids(sifted.kept)[:3] == ["c0", "c1", "c2"]
    assert 600 < tokens_of(sifted, "c0") < 680
    assert 90 < tokens_of(sifted, "c1") < 130


def test_a_chunk_behind_the_best_leaves_tokens_for_the_next_though_it_fits():
    candidates = found(*(prose(seed, 60) for seed in range(5)), scores=[1, 0.9, 0.8, 0.7, 0.6])
    cost = tokens_of(gate(candidates, 10_000, quarter, POLICY), "c0")
    for budget in range(round(2.3 * cost) + 60, 4 * cost, 40):
        sifted = gate(candidates, budget, quarter, POLICY, questions=QUESTIONS)
        assert ids(sifted.kept)[:3] == ["c0", "c1", "c2"]
        assert "c0" not in sifted.strips


def test_a_chunk_behind_the_best_is_whole_if_all_others_fit_too():
    candidates = found(prose(1, 20), prose(2, 400), prose(3, 20), scores=[1, 0.9, 0.5])
    total = sum(tokens_of(gate(candidates, 10_000, quarter, POLICY), c) for c in ("c0", "c1", "c2"))
    sifted = gate(candidates, total + 60, quarter, POLICY, questions=QUESTIONS)
    assert (len(sifted.kept), sifted.strips) == (3, {})


def test_a_chunk_that_does_not_fit_has_the_tokens_that_no_other_chunk_wants():
    candidates = found(prose(4, 2000), prose(5, 20), scores=[1, 0.5])
    sifted = gate(candidates, 1000, quarter, POLICY, questions=QUESTIONS)
    assert ids(sifted.kept) == ["c0", "c1"]
    assert tokens_of(sifted, "c0") > 900


def test_previews_are_never_cut_again():
    candidates = found(prose(4, 400), scores=[1])
    sifted = gate(candidates, 60, quarter, POLICY, questions=QUESTIONS, preview_chars=300)
    assert sifted.strips == {}


@pytest.mark.parametrize("script", ["ไทย", "हिन्दी", "中文"])
def test_text_in_any_script_is_measured_in_characters(script):
    text = script * 40 + "".join(chr(ord(script[0]) + n % 40) for n in range(200))
    assert measure_all([text])[0][1] > 0.1


def test_texts_measured_together_keep_their_order_whether_they_were_met_before_or_not():
    texts = [prose(11, 40), "=" * 300, prose(12, 40)]
    apart = [measure_all([text])[0] for text in reversed(texts)]
    assert measure_all([*texts, prose(13, 40), texts[0]])[:3] == apart[::-1]


def test_k_counts_what_fits_and_leaves_graph_paths_alone():
    texts = (prose(6, 2000), "one thing", "another thing", "a third thing")
    rows = found(*texts, scores=[1.0, 0.9, 0.8, 0.2])
    path = Candidate(Chunk("g", "ada -works_on-> engine", source="graph"), 0.01)
    sifted = gate([*rows, path], 300, quarter, POLICY, k=2)
    assert set(ids(sifted.kept)) == {"c1", "c2", "g"}
    assert next(c for c in sifted.dropped if c.chunk.id == "c3").notes[-1].reason == "beyond k"


def test_graph_paths_are_sure_of_their_share():
    documents = found(*[prose(seed, 40) for seed in range(30)])
    path = Candidate(Chunk("g", "ada -works_on-> engine", source="graph"), 0.001)
    sifted = gate([*documents, path], 600, quarter, POLICY)
    assert "g" in ids(sifted.kept)
    assert len(sifted.kept) > 3


@pytest.mark.parametrize(
    ("budget", "k", "kept"), [(0, None, 0), (1, None, 0), (10_000_000, None, 3), (500, 0, 0)]
)
def test_extreme_budgets_have_a_defined_result(budget, k, kept):
    candidates = found("one thing", "two things", "three things")
    sifted = gate(candidates, budget, quarter, POLICY, k=k)
    assert len(sifted.kept) == kept
    assert len(sifted.kept) + len(sifted.dropped) == 3


def test_a_negative_budget_is_refused():
    with pytest.raises(InputError, match="-1"):
        gate([], -1, quarter, POLICY)


def test_scores_that_are_no_numbers_come_last():
    candidates = found("a thing", "a good thing", scores=[float("nan"), 0.5])
    assert ids(gate(candidates, 500, quarter, POLICY).kept) == ["c1", "c0"]


@given(
    st.lists(st.tuples(st.text(max_size=300), st.floats(0, 1), st.booleans()), max_size=25),
    st.integers(0, 400),
    st.sampled_from([None, 0, 1, 5]),
)
def test_nothing_is_lost_and_nothing_is_altered(rows, budget, k):
    candidates = [
        Candidate(Chunk(str(at), text, source="graph" if graph else "turn", admission="t"), score)
        for at, (text, score, graph) in enumerate(rows)
    ]
    sifted = gate(candidates, budget, quarter, POLICY, k=k)
    everyone = sifted.kept + sifted.dropped
    assert sorted(ids(everyone)) == sorted(ids(candidates))
    before = {c.chunk.id: c.chunk for c in candidates}
    assert all(c.chunk is before[c.chunk.id] and c.notes[-1].stage == "gate" for c in everyone)


def test_the_report_gives_a_reason_for_each_evicted_id():
    sifted = gate(found("", "a plain sentence"), 500, quarter, POLICY)
    seen = report(sifted.kept, sifted.dropped)
    assert (seen.total_candidates, seen.kept, seen.evicted) == (2, 1, 1)
    assert seen.evicted_ids == ("c0",)
    assert seen.reasons == {"c0": "gate: empty text"}
    assert seen.avg_entropy_kept == information_score("a plain sentence")


def test_each_chunks_entropy_is_in_its_note():
    texts = ("Refunds are paid within 14 days.", "log line again. " * 40, "  ")
    came = [Candidate(Chunk(f"c{n}", text), 1.0) for n, text in enumerate(texts)]
    sifted = gate(came, 500, quarter, POLICY)
    for candidate in (*sifted.kept, *sifted.dropped):
        text = candidate.chunk.text
        assert candidate.number(Stage.GATE, "entropy") == information_score(text)


def test_the_notice_of_the_fence_is_counted():
    candidates = found(*(prose(seed, 20) for seed in range(8)))
    few = gate(candidates, 400, quarter, POLICY, notice="x" * 1000).kept
    assert 0 < len(few) < len(gate(candidates, 400, quarter, POLICY).kept)


def shared(*shares, tokens=20, source="document"):
    found_ = found(*(prose(seed, tokens) for seed in range(len(shares))), source=source)
    return found_, list(shares)


def test_what_holds_too_little_of_the_evidence_is_left_out_though_there_is_space():
    came, shares = shared(0.7, 0.2, 0.0001, 0.1, 0.0002)
    sifted = gate(came, 5000, quarter, POLICY, evidence_shares=shares, floor=0.03)
    assert {*ids(sifted.kept)} == {"c0", "c1", "c3"}
    (note, _) = [c.notes[-1] for c in sifted.dropped]
    assert note.code is NoteCode.NOISE
    assert note.reason.startswith("likely noise: 0.00")
    assert len(gate(came, 5000, quarter, POLICY, evidence_shares=shares, floor=0.0).kept) == 5


def test_the_floor_alone_never_empties_an_answer():
    came, shares = shared(0.001, 0.0005, 0.0001, tokens=200)
    assert ids(gate(came, 5000, quarter, POLICY, evidence_shares=shares, floor=1.0).kept) == ["c0"]


def test_the_best_chunk_does_not_keep_out_the_second():
    came, shares = shared(0.999, 0.0005, 0.0005)
    assert ids(gate(came, 5000, quarter, POLICY, evidence_shares=shares, floor=0.1).kept) == [
        "c0",
        "c1",
    ]


@pytest.mark.parametrize("budget", [2500, 50_000])
def test_a_long_chunk_takes_no_more_tokens_than_it_is_worth_however_large_the_budget(budget):
    came, shares = shared(0.9, 0.02, tokens=2000)
    asked = {"main": ask(" ".join(came[1].chunk.text.split()[:3]), Words())}
    sifted = gate(came, budget, quarter, POLICY, evidence_shares=shares, floor=0.1, questions=asked)
    assert ids(sifted.kept) == ["c0", "c1"]
    assert "c1" in sifted.strips
    assert 100 < sifted.kept[1].number(Stage.GATE, "tokens") <= 200
    whole = gate(came, 50_000, quarter, POLICY, evidence_shares=shares, floor=0.1)
    assert whole.dropped[0].notes[-1].code is NoteCode.NOISE  # nothing says which part to show


def test_a_chunk_that_would_be_shown_in_part_with_more_budget_is_no_noise():
    came, shares = shared(0.9, 0.02, tokens=2000)
    asked = {"main": ask(" ".join(came[1].chunk.text.split()[:3]), Words())}
    sifted = gate(came, 110, quarter, POLICY, evidence_shares=shares, floor=0.1, questions=asked)
    assert ids(sifted.dropped) == ["c1"]
    assert sifted.dropped[0].notes[-1].code is NoteCode.NO_ROOM


def test_beside_a_window_that_shows_nearly_all_evidence_every_chunk_is_left_over():
    came, shares = shared(0.1, 0.05)
    sifted = gate(
        came, 5000, quarter, POLICY, evidence_shares=shares, floor=0.03, shown=Shown(0.85)
    )
    assert not sifted.kept
    assert {c.notes[-1].code for c in sifted.dropped} == {NoteCode.LEFT_OVER}
    half = gate(came, 5000, quarter, POLICY, evidence_shares=shares, floor=0.03, shown=Shown(0.5))
    assert half.kept


def test_graph_paths_are_not_compared_with_chunks():
    path, shares = shared(0.0, source="graph")
    came = [*path, Candidate(Chunk("d", "text here"), 1.0)]
    kept = gate(
        came, 5000, quarter, POLICY, evidence_shares=[*shares, 1.0], floor=0.5, shown=Shown(0.9)
    ).kept
    assert ids(kept) == ["c0"]
