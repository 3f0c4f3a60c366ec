"""`headgate eval guard` on answers: what is cut, what of it is a loop, and files that cannot be read."""

import gzip
import json

import pytest
from click.testing import CliRunner

from headgate.cli import app
from headgate.errors import InputError
from headgate.evaluate.answers import ends_in_loop, evaluate_answers, is_answers, read_answers

UNIT = "The keeper lifts the boards and the water runs down to the fields again. "
WORDS = (
    "A river, a gate, three fields and one keeper who never slept more than five hours. "
    "His sister sold apples by the bridge; everybody knew her dog. Nothing else is known. "
)
OTHER = "Nobody asked how the apples came over the bridge, or why the dog was paid. " + WORDS[::-1]
TEXTS = [WORDS + UNIT * 12, WORDS, WORDS + UNIT * 3 + OTHER, UNIT * 12 + WORDS]


@pytest.fixture
def folder(tmp_path):
    """A folder as collections of answers are published, and a file of lines beside it."""
    (tmp_path / "model").mkdir()
    rows = [{"instruction": "?", "output": text} for text in TEXTS]
    (tmp_path / "model" / "model_outputs.json").write_text(json.dumps(rows))
    with gzip.open(tmp_path / "more.jsonl.gz", "wt") as out:
        run = {"start": len(WORDS), "end": len(TEXTS[0]), "period": len(UNIT)}
        out.write(json.dumps({"id": "x", "text": TEXTS[0], "repeats": [run]}) + "\n")
        out.write(json.dumps({"id": "y", "text": WORDS, "repeats": []}) + "\n")
    return tmp_path


def test_the_figures_of_hand_made_answers_are_known(folder):
    figures = evaluate_answers(read_answers(folder))
    figures.pop("ns_per_char")
    assert figures == {
        "answers": 6, "chars": sum(map(len, [*TEXTS, TEXTS[0], WORDS])), "cut": 4, "went_on": 2,
        "good_cut": 1, "loops": 2, "found": 2, "found_share": 1.0,
    }  # fmt: skip


def test_the_command_reads_answers_and_shows_what_went_on(folder):
    result = CliRunner().invoke(app, ["eval", "guard", str(folder), "--json", "--show"])
    assert json.loads(result.stdout)["answers"] == 6
    assert "good?" in result.stderr
    assert UNIT[:40] in result.stderr


def test_answers_are_told_from_streams(folder, tmp_path):
    streams = tmp_path / "streams.jsonl"
    streams.write_text('{"chunks": ["a"], "label": {}}\n')
    assert not is_answers(streams)
    assert is_answers(folder / "more.jsonl.gz")


@pytest.mark.parametrize(
    ("text", "loops"),
    [
        (UNIT * 5, True),
        (UNIT * 3, False),
        ("ab" * 200 + "\n", True),
        (WORDS * 2, False),
        ("", False),
    ],
)
def test_a_loop_at_the_end_has_three_copies_and_300_characters(text, loops):
    assert ends_in_loop(text) is loops


@pytest.mark.parametrize(
    ("name", "data"), [("a.json", "{"), ("a.json", "[5]"), ("a.jsonl", '{"no": 1}\n')]
)
def test_a_file_that_cannot_be_read_is_named(tmp_path, name, data):
    (tmp_path / name).write_text(data)
    with pytest.raises(InputError, match=name):
        list(read_answers(tmp_path / name))


def test_an_empty_folder_is_named(tmp_path):
    with pytest.raises(InputError, match="holds no answers"):
        list(read_answers(tmp_path))


def test_a_bad_line_is_named_by_its_number_in_the_file_blank_lines_counted(tmp_path):
    path = tmp_path / "answers.jsonl"
    path.write_text('{"text": "good"}\n\n{"text": \n')
    with pytest.raises(InputError, match=r"answers\.jsonl:3: not JSON \(.* at column \d+\)"):
        list(read_answers(path))
