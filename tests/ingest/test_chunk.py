"""The chunker: nothing lost, nothing added, natural parts kept whole."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millgate.errors import ConfigError
from millgate.ingest import chunk
from millgate.ingest.chunk import TextBlock, _join_tail, _may_join, blocks, split_text
from millgate.ingest.policy import ChunkPolicy
from millgate.text.tokens import estimate_tokens

SMALL = ChunkPolicy(target=20, maximum=40)

LINES = st.sampled_from(
    [
        *("# One", "## Two", "### Three", "", "", "plain words stand here.", "| a | b |", "|---|"),
        *("```python", "```", "~~~", "    indented", "x" * 300, "def f():", "#no", "}"),
        "漢字のテキスト。" * 12,
        "A sentence. Another one! A third? " * 8,
    ]
)
TEXTS = st.lists(LINES, max_size=40).map("\n".join) | st.text(max_size=600)


def bare(text):
    return re.sub(r"\s+", "", text)


@given(TEXTS, st.sampled_from(["markdown", "text", "code"]))
def test_pieces_hold_every_character_once_in_order(text, kind):
    pieces = split_text(text, SMALL, kind=kind)
    assert bare("".join(piece.text for piece in pieces)) == bare(text)
    assert all(piece.text.strip() for piece in pieces)


@given(TEXTS, st.sampled_from(["markdown", "text", "code"]))
def test_no_piece_is_larger_than_the_maximum(text, kind):
    # a piece is measured where it stands; alone, its first character may cost a little more
    assert all(estimate_tokens(p.text) <= 40 + 2 for p in split_text(text, SMALL, kind=kind))


@given(TEXTS)
def test_blocks_do_not_overlap(text):
    end = 0
    for block in blocks(text, "markdown"):
        assert end <= block.start < block.end
        end = block.end


def test_a_text_that_fits_stays_whole():
    text = "# Title\n\nfirst\n\nsecond"
    (piece,) = split_text(text, ChunkPolicy())
    assert piece.text == text
    assert piece.path == ("Title",)


@pytest.mark.parametrize("text", ["", "  \n\t\n"])
def test_white_space_has_no_pieces(text):
    assert split_text(text, SMALL) == []


def test_a_fence_stays_whole_if_it_fits():
    fence = "```python\n" + "\n\n".join(f"value_{n} = {n}" for n in range(4)) + "\n```"
    text = f"{'words ' * 14}\n\n{fence}\n\n{'more ' * 30}"
    assert sum(fence in piece.text for piece in split_text(text, SMALL)) == 1


def test_a_table_stays_whole_if_it_fits():
    table = "\n".join(f"| row {n} | value {n} |" for n in range(3))
    text = f"{'words ' * 14}\n{table}\n{'more ' * 30}"
    assert sum(table in piece.text for piece in split_text(text, SMALL)) == 1


def test_a_heading_stays_with_what_it_heads():
    text = "\n\n".join(f"## Part {n}\n\n{'word ' * 15}" for n in range(6))
    for piece in split_text(text, SMALL):
        assert not piece.text.splitlines()[-1].startswith("#")


def test_pieces_know_the_headings_above_them():
    text = f"# Guide\n\n{'a ' * 15}\n\n## Install\n\n{'b ' * 15}\n\n### Linux\n\n{'c ' * 15}\n\n## Use\n\n{'d ' * 15}"
    paths = [piece.path for piece in split_text(text, SMALL)]
    assert paths == [
        ("Guide",),
        ("Guide", "Install"),
        ("Guide", "Install", "Linux"),
        ("Guide", "Use"),
    ]


def test_a_hash_inside_a_fence_is_no_heading():
    text = f"# Real\n\n```sh\n# a comment\n```\n\n{'w ' * 100}"
    assert {piece.path for piece in split_text(text, SMALL)} == {("Real",)}


def test_code_is_cut_between_definitions():
    parts = [f"def f{n}():\n    a = {n}\n\n    return a + {n} * 1000" for n in range(8)]
    for piece in split_text("\n\n\n".join(parts), SMALL, kind="code"):
        assert piece.text.startswith("def f")
        assert piece.text.count("def ") == piece.text.count("return")


def test_long_prose_is_cut_at_sentences():
    text = " ".join(f"This is sentence number {n}." for n in range(40))
    assert all(piece.text.endswith(".") for piece in split_text(text, SMALL, kind="text"))


def test_a_word_without_end_is_cut_all_the_same():
    assert "".join(p.text for p in split_text("x" * 5000, SMALL)) == "x" * 5000


def test_a_target_above_the_maximum_is_refused():
    with pytest.raises(ConfigError, match="target is 50"):
        ChunkPolicy(target=50, maximum=40)


def test_small_sections_far_into_a_text_are_joined_until_half_is_full():
    filler = "\n\n".join("Plain words fill one chunk after the other here." for _ in range(8))
    text = f"# One\n\n{filler}\n\n# Two\n\nTiny.\n\n# Three\n\nTiny too.\n\n# Four\n\n{filler}"
    pieces = [piece.text for piece in split_text(text, SMALL)]
    assert any("Tiny." in piece and "Tiny too." in piece for piece in pieces)


def test_a_section_begins_anew_from_half_of_the_target_on():
    sizes = np.array([0.0, 9.0, 10.0, 15.0])
    last, block = TextBlock(0, 2, ("One",)), TextBlock(2, 3, ("Two",))
    assert not _may_join(last, block, sizes, 20)
    assert _may_join(TextBlock(0, 1, ("One",)), TextBlock(1, 3, ("Two",)), sizes, 20)
    assert _may_join(last, TextBlock(2, 3, ("One",)), sizes, 15)
    assert not _may_join(last, TextBlock(2, 3, ("One",)), sizes, 14)


def test_a_scrap_at_the_end_joins_the_passage_before_it_if_it_fits_there():
    policy = ChunkPolicy(target=16, maximum=20)
    former = TextBlock(0, 1)

    def joined(scrap, size):
        sizes = np.array([0.0, size, size + scrap])
        return len(_join_tail([former, TextBlock(1, 2)], sizes, policy)) == 1

    assert joined(1.9, 18.1)
    assert not joined(2, 16)
    assert not joined(1.9, 18.2)


def test_of_very_many_turns_neighbors_are_joined_and_none_is_lost(monkeypatch):
    monkeypatch.setattr(chunk, "MOST_TURNS", 10)
    text = "".join(f"User: this is turn {n}\n" for n in range(25))
    passages = split_text(text, ChunkPolicy())
    assert len(passages) == 9
    assert "\n".join(passage.text for passage in passages) == text.strip()


def test_a_value_in_parentheses_stays_with_its_name():
    lines = [f"LIMIT_{n} = (\n    {n}  # why {n} is right\n)" for n in range(300)]
    for passage in split_text("\n".join(lines), ChunkPolicy(), kind="code"):
        assert passage.text.startswith("LIMIT_")
        assert passage.text.endswith(")")
