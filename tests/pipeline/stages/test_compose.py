import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millgate.errors import InputError
from millgate.pipeline.stages.compose import ComposePolicy, compose
from millgate.pipeline.stages.gate import GatePolicy, gate
from millgate.text.fence import nonce
from millgate.text.tokens import counter, estimate_tokens
from millgate.types import Candidate, Chunk

POLICY = ComposePolicy()
SECRET = b"a secret of the store"


def quarter(text):
    return len(text) // 4


def words(text):
    return len(text.split())


def awkward(text):
    """A counter that is far from additive: joining texts costs more than the parts."""
    return len(text) // 4 + text.count("\n") * 2


def found(*texts, **fields):
    return [
        Candidate(Chunk(f"c{at}", text, **fields), 1 - at / 100) for at, text in enumerate(texts)
    ]


def built(candidates, budget=400, count=quarter, **how):
    return compose(candidates, budget, count, POLICY, secret=SECRET, **how)


def test_the_block_is_fenced_numbered_and_byte_stable():
    composed = built(found("refunds take five days", "shipping is free"))
    lines = composed.text.split("\n")
    content = "[1] refunds take five days\n[2] shipping is free"
    mark = nonce(SECRET, content)
    assert lines[0] == f"<ref {mark}: recalled reference data, not user input>"
    assert lines[-1] == f"</ref {mark}>"
    assert content in composed.text
    assert composed == built(found("refunds take five days", "shipping is free"))
    assert composed.tokens == quarter(composed.text)


def test_another_secret_gives_another_nonce():
    rows = found("refunds take five days")
    assert compose(rows, 400, quarter, POLICY, secret=b"other").text != built(rows).text


def test_edges_put_the_best_first_and_last_after_filling():
    rows = found(*"abcdef")
    assert [c.id for c in built(rows, order="edges").shown] == ["c0", "c2", "c4", "c5", "c3", "c1"]
    assert [c.id for c in built(rows).shown] == [f"c{n}" for n in range(6)]
    tight = built(found(*(letter * 80 for letter in "abcdef")), 120)
    edged = built(found(*(letter * 80 for letter in "abcdef")), 120, order="edges")
    assert {c.id for c in tight.shown} == {c.id for c in edged.shown}


def test_a_citation_number_points_at_its_source():
    rows = [
        Candidate(Chunk("a", "one", document="guide.md"), 1.0),
        Candidate(Chunk("b", "two", source="web", metadata={"url": "https://example.org/x"}), 0.9),
        Candidate(Chunk("c", "three"), 0.8),
    ]
    assert built(rows).sources == ("guide.md", "https://example.org/x", "c")


def test_titles_are_shown_once_and_on_one_line():
    shown = built([Candidate(Chunk("a", "It is tall.", title="Eiffel\nTower"), 1.0)]).text
    assert "[1] Eiffel Tower: It is tall." in shown
    again = built([Candidate(Chunk("a", "Eiffel Tower is tall.", title="Eiffel Tower"), 1.0)]).text
    assert again.count("Eiffel") == 1
    heading = Chunk("a", "## Eiffel Tower\n\nIt is tall.", title="Eiffel Tower")
    assert built([Candidate(heading, 1.0)]).text.count("Eiffel") == 1


def test_framing_costs_at_most_four_tokens_a_piece():
    texts = [f"{letter * 40}" for letter in "abcdefghij"]
    composed = built(found(*texts), 1000)
    bare = quarter(built(found(texts[0])).text) - quarter(texts[0])
    assert composed.tokens - bare - sum(map(quarter, texts)) <= 4 * len(texts)


def test_previews_are_cut_at_a_word_and_graph_lines_are_not():
    long = "many words " * 60
    path = Candidate(Chunk("g", "x" * 320, source="graph"), 0.5)
    text = built([*found(long, source="turn"), path], 1000, detail="preview").text
    assert "many…" in text or "words…" in text
    assert len(next(line for line in text.split("\n") if line.startswith("[1]"))) <= 304
    assert "x" * 320 in text
    assert long.strip() in built(found(long), 1000).text


def test_a_preview_is_charged_fifty_characters_of_framing():
    rows = found(*(f"{letter * 40}" for letter in "abcdefgh"))
    assert len(built(rows, 150, detail="preview").shown) < len(built(rows, 150).shown)


def test_graph_paths_follow_the_documents_and_get_their_share():
    documents = found(*(letter * 200 for letter in "abcdefgh"))
    paths = [
        Candidate(Chunk(f"g{n}", f"ada -knows-> {n}" + "y" * 60, source="graph"), 0.01)
        for n in range(40)
    ]
    composed = built([*documents, *paths], 500)
    spent = sum(quarter(text) for text in composed.graph_context)
    assert 500 * 0.2 < spent < 500 * 0.4
    sources = [chunk.source for chunk in composed.shown]
    assert sources == sorted(sources)


def test_what_a_section_does_not_use_goes_to_the_other():
    paths = [Candidate(Chunk(f"g{n}", f"{n}" + "y" * 60, source="graph"), 0.01) for n in range(60)]
    assert built(paths, 500).tokens > 400
    assert (
        built(found(*(letter * 60 for letter in "abcdefghijklmnopqrstuvwxyz" * 2)), 500).tokens
        > 400
    )


@pytest.mark.parametrize("budget", [0, 1, 10])
def test_a_budget_too_small_for_a_fence_gives_an_empty_text(budget):
    composed = built(found("something"), budget)
    assert (composed.text, composed.tokens, composed.shown) == ("", 0, ())
    assert "no room" in composed.sifted.dropped[0].notes[-1].reason


def test_nothing_gives_nothing():
    assert built([]).text == ""


def test_a_budget_of_ten_million_takes_everything():
    rows = found(*(f"line {n}" for n in range(3000)))
    assert len(built(rows, 10_000_000).shown) == 3000


def test_strips_are_shown_in_place_of_the_text_and_the_chunk_stays():
    rows = found("a long text with one good sentence.")
    composed = built(rows, strips={"c0": "one good sentence."})
    assert "[1] one good sentence." in composed.text
    assert composed.shown[0] is rows[0].chunk


@pytest.mark.parametrize(
    ("admissions", "token"),
    [((None, None), None), (("t", None), "t"), (("t", "t"), "t"), (("t", "u"), None)],
)
def test_the_admission_of_the_shown_chunks_is_carried(admissions, token):
    rows = [
        Candidate(Chunk(str(at), f"text {at}", admission=a), 1.0) for at, a in enumerate(admissions)
    ]
    assert built(rows).token == token


def test_a_negative_budget_and_an_empty_secret_are_refused():
    with pytest.raises(InputError):
        built([], -1)
    with pytest.raises(InputError, match="secret"):
        compose(found("x"), 400, quarter, POLICY, secret=b"")


@given(
    st.lists(st.tuples(st.text(max_size=200), st.text(max_size=20), st.booleans()), max_size=20),
    st.integers(0, 300),
    st.sampled_from([quarter, words, awkward]),
    st.sampled_from(["whole", "preview"]),
    st.sampled_from(["rank", "edges"]),
)
def test_the_budget_is_never_exceeded_and_nothing_is_lost(rows, budget, count, detail, order):
    candidates = [
        Candidate(
            Chunk(str(at), text, title=title, source="graph" if graph else "turn"), 1 / (at + 1)
        )
        for at, (text, title, graph) in enumerate(rows)
    ]
    composed = built(candidates, budget, count, detail=detail, order=order)
    assert count(composed.text) <= budget or not composed.text
    assert composed.tokens <= budget
    everyone = composed.sifted.kept + composed.sifted.dropped
    assert sorted(c.chunk.id for c in everyone) == sorted(c.chunk.id for c in candidates)
    assert len(re.findall(r"^\[\d+\] ", composed.text, re.MULTILINE)) == len(composed.shown)


EXACT = counter("cl100k_base")


@given(
    st.lists(st.tuples(st.text(max_size=300), st.booleans()), max_size=25),
    st.integers(0, 400),
    st.sampled_from([estimate_tokens, quarter, EXACT]),
)
def test_gate_and_compose_together_hold_the_budget_under_each_counter(rows, budget, count):
    candidates = [
        Candidate(Chunk(str(at), text, source="graph" if graph else "turn"), 1 / (at + 1))
        for at, (text, graph) in enumerate(rows)
    ]
    kept = gate(candidates, budget, count, GatePolicy()).kept
    composed = compose(kept, budget, count, POLICY, secret=SECRET)
    assert count(composed.text) <= budget or not composed.text
    assert composed.tokens == (count(composed.text) if composed.text else 0)
