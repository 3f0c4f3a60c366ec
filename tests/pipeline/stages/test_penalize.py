"""Penalize: what repeats the window sinks, exact repeats fall out, copies enter once."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millgate.errors import ConfigError, InputError
from millgate.pipeline.stages.penalize import PenalizePolicy, penalize
from millgate.published.self_reference import adjust_score
from millgate.text.fingerprint import WindowFingerprint
from millgate.types import Candidate, Chunk, Window

POLICY = PenalizePolicy()


def words(start, stop):
    return " ".join(f"word{i}" for i in range(start, stop))


def found(*texts, source="document"):
    return [
        Candidate(Chunk(id=f"c{i}", text=text, source=source, admission="token"), 1.0 - i / 100)
        for i, text in enumerate(texts)
    ]


def ids(candidates):
    return [c.chunk.id for c in candidates]


texts = st.lists(st.sampled_from("abcd"), max_size=30).map(" ".join)


def test_an_exact_repeat_is_dropped():
    sifted = penalize(found(words(0, 50), words(500, 550)), Window((words(0, 90),)), POLICY)
    (repeat,) = sifted.dropped
    assert ids(sifted.kept) == ["c1"]
    assert (repeat.score, repeat.notes[-1].numbers["overlap"]) == (0.0, 1.0)
    assert repeat.notes[-1].reason == "already in the window"


def test_partial_overlap_costs_what_the_formula_says():
    (half,) = penalize(found(words(45, 145)), Window((words(0, 95),)), POLICY).kept
    assert half.notes[-1].numbers["overlap"] == 0.5
    assert half.score == pytest.approx(1 - 0.9 * 0.5**1.35)
    assert half.notes[-1].fate == "keep"


@pytest.mark.parametrize(("source", "weight"), [("document", 0.9), ("turn", 0.9), ("graph", 0.6)])
def test_graph_paths_lose_less(source, weight):
    (half,) = penalize(found(words(45, 145), source=source), Window((words(0, 95),)), POLICY).kept
    assert half.score == pytest.approx(1 - weight * 0.5**1.35)


def test_penalized_candidates_sink_below_new_ones():
    sifted = penalize(found(words(20, 100), words(300, 380)), Window((words(0, 95),)), POLICY)
    assert ids(sifted.kept) == ["c1", "c0"]
    assert [c.notes[-1].reason for c in sifted.kept] == [
        "new to the window",
        "nearly all in the window",
    ]


@pytest.mark.parametrize(
    ("seen", "reason"),
    [
        (0, "new to the window"),
        (29, "new to the window"),
        (30, "overlaps the window"),
        (60, "mostly in the window"),
        (85, "nearly all in the window"),
    ],
)
def test_the_reason_names_the_class_of_the_overlap(seen, reason):
    text = f"{words(0, seen)} {words(1000, 1100 - seen)}"
    (kept,) = penalize(found(text), Window((f"{words(0, seen)} end",)), POLICY).kept
    assert (kept.notes[-1].numbers["overlap"], kept.notes[-1].reason) == (seen / 100, reason)


@given(st.lists(texts, max_size=8), st.floats(0, 1))
def test_without_a_window_scores_stay_bit_for_bit(pieces, score):
    came = [Candidate(Chunk(id=str(i), text=t), score) for i, t in enumerate(pieces)]
    sifted = penalize(came, Window(), POLICY)
    assert [c for c in came if c in sifted.kept] == list(sifted.kept)
    assert all(c.score == score for c in [*sifted.kept, *sifted.dropped])


@given(st.lists(texts, max_size=8), st.lists(texts, max_size=3))
def test_switched_off_nothing_is_touched(pieces, window):
    came = tuple(found(*pieces))
    sifted = penalize(came, Window(tuple(window)), PenalizePolicy(enabled=False))
    assert (sifted.kept, sifted.dropped) == (came, ())


@given(st.floats(-1, 2), st.floats(0, 1), st.floats(0, 1), st.floats(0, 1), st.floats(0.01, 10))
def test_more_overlap_never_raises_a_score(score, less, more, weight, exponent):
    low, high = sorted([less, more])
    assert adjust_score(score, high, weight=weight, exponent=exponent) <= adjust_score(
        score, low, weight=weight, exponent=exponent
    )
    assert adjust_score(score, low, weight=weight, exponent=exponent) <= score


@given(st.lists(texts, min_size=1, max_size=5), texts, texts)
def test_a_window_that_holds_more_lowers_or_keeps_every_score(pieces, window, more):
    def scores(texts_):
        sifted = penalize(found(*pieces), Window(texts_), POLICY)
        return {c.chunk.id: c.score for c in [*sifted.kept, *sifted.dropped]}

    small, large = scores((window, "end")), scores((window, "end", more))
    assert all(large[i] <= small[i] for i in small)


def test_copies_of_one_text_enter_once_and_the_best_stays():
    sifted = penalize(found("Some **Text** here.", "other", "some text\nHERE"), Window(), POLICY)
    assert ids(sifted.kept) == ["c0", "c1"]
    assert sifted.dropped[0].notes[-1].reason == "repeats chunk c0"


def test_texts_without_words_are_no_copies_of_each_other():
    assert ids(penalize(found("", "!", "?"), Window(), POLICY).kept) == ["c0", "c1", "c2"]


def test_texts_that_differ_in_a_number_both_enter():
    assert len(penalize(found("balance is -5", "balance is 5"), Window(), POLICY).kept) == 2


@pytest.mark.parametrize("sketch", [True, False])
def test_a_fingerprint_stands_for_the_text(sketch):
    payload = WindowFingerprint.of([words(0, 190)], sketch=sketch).to_json()
    sifted = penalize(found(words(0, 190), words(500, 600)), Window(fingerprint=payload), POLICY)
    assert (ids(sifted.kept), ids(sifted.dropped)) == (["c1"], ["c0"])


def test_a_fingerprint_is_taken_before_texts():
    payload = WindowFingerprint.of([words(0, 190)]).to_json()
    window = Window((words(500, 600),), fingerprint=payload)
    assert ids(penalize(found(words(0, 190), words(500, 600)), window, POLICY).dropped) == ["c0"]


def test_a_broken_fingerprint_is_an_error_that_names_it():
    with pytest.raises(InputError, match="version"):
        penalize(found("a"), Window(fingerprint={"version": 9}), POLICY)


@pytest.mark.parametrize("field", ["shingle_size", "minhash_perm"])
def test_what_the_fingerprint_format_fixes_cannot_be_set_otherwise(field):
    assert getattr(PenalizePolicy(**{field: str(getattr(POLICY, field))}), field)
    with pytest.raises(ConfigError, match="fingerprint format 1"):
        PenalizePolicy(**{field: 7})


def test_chunks_and_their_admission_are_untouched():
    came = found(words(0, 50), words(20, 120), words(500, 550))
    sifted = penalize(came, Window((words(0, 90),)), POLICY)
    after = {c.chunk.id: c.chunk for c in [*sifted.kept, *sifted.dropped]}
    assert all(after[c.chunk.id] is c.chunk for c in came)


@pytest.mark.parametrize("text", ["\ud800\udc00", "\x00" * 10, "漢" * 50, "x" * 100_000])
def test_odd_texts_have_a_fate(text):
    sifted = penalize(found(text, "plain words"), Window((text, "\udfff")), POLICY)
    assert sorted(ids([*sifted.kept, *sifted.dropped])) == ["c0", "c1"]


def turn(text, said, speaker="User"):
    return Candidate(Chunk("t", text, source="turn", metadata={"speaker": speaker}), 1.0)


@pytest.mark.parametrize(
    ("text", "speaker"),
    [
        ("[09:30 on 3 May, 2024] User: {}", "User"),
        ("User: {}", "User"),
        ("[Monday] 用户: {}", "用户"),
        ("[09:30 on 3 May, 2024] Ann O'Neil: {}", "Ann O'Neil"),
    ],
)
@pytest.mark.parametrize(
    "said", ["ok", "My sister moved.", "[1] is what I meant", words(0, 40), "User: quoted"]
)
def test_a_turn_whose_words_are_in_the_window_is_a_repeat(text, speaker, said):
    chunk = turn(text.format(said), said, speaker)
    assert ids(penalize([chunk], Window((said,)), POLICY).dropped) == ["t"]
    payload = WindowFingerprint.of([said], sketch=False).to_json()
    assert ids(penalize([chunk], Window(fingerprint=payload), POLICY).dropped) == ["t"]


@pytest.mark.parametrize("heading", ["# Refunds\n\n", "\n## One\n### Two, and three\n\n"])
def test_a_text_that_the_window_holds_without_its_heading_is_a_repeat(heading):
    sifted = penalize(found(heading + words(0, 50)), Window((words(0, 90),)), POLICY)
    assert not sifted.kept


def test_a_heading_alone_is_new_and_so_is_a_number_that_the_window_lacks():
    said = f"{words(0, 60)} the limit is 20 {words(60, 90)}"
    changed = "# Limits\n\n" + said.replace("20", "30")
    sifted = penalize(found("# Something new", changed), Window((said,)), POLICY)
    assert set(ids(sifted.kept)) == {"c0", "c1"}


def test_the_same_words_of_two_speakers_are_two_turns():
    came = found("[1 May] Ann: yes, on Friday", "[2 May] Bob: yes, on Friday")
    assert len(penalize(came, Window(("something else",)), POLICY).kept) == 2


def test_a_version_of_a_better_candidate_is_dropped_and_names_it():
    sifted = penalize(found(words(0, 200), "changed in May " + words(0, 200)), Window(), POLICY)
    assert ids(sifted.kept) == ["c0"]
    assert sifted.dropped[0].notes[-1].reason == "repeats chunk c0"


def test_a_candidate_that_differs_in_more_than_a_line_stays():
    mostly = words(0, 90) + " " + words(500, 510)
    assert ids(penalize(found(words(0, 100), mostly), Window(), POLICY).kept) == ["c0", "c1"]


def test_short_candidates_that_share_a_phrase_stay():
    near = ("the gate of the river is opened at dawn by Ann", "the gate of the river is opened at dawn by Ben")  # fmt: skip
    assert ids(penalize(found(*near), Window(), POLICY).kept) == ["c0", "c1"]


def test_what_two_better_candidates_have_together_is_a_copy():
    both = words(0, 60) + " " + words(300, 360)
    kept = penalize(found(words(0, 100), words(300, 400), both), Window(), POLICY).kept
    assert ids(kept) == ["c0", "c1"]


def test_a_brief_candidate_that_a_longer_one_of_another_document_contains_stays():
    longer, brief = found(words(0, 100), words(20, 60))
    assert ids(penalize([longer, brief], Window(), POLICY).kept) == ["c0", "c1"]
    parts = [replace(c, chunk=replace(c.chunk, document="d")) for c in (longer, brief)]
    assert ids(penalize(parts, Window(), POLICY).kept) == ["c0"]
