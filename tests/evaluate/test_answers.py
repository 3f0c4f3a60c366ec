"""Measuring the guard on answers: what is cut, what of it is a loop, and files that cannot be read."""

import gzip
import json

import pytest
from bench.fixtures.answers import (
    Answer,
    ends_in_loop,
    evaluate_answers,
    read_answers,
)

from millgate.errors import InputError
from millgate.guard.detectors import Stall

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


def test_each_cut_answer_that_goes_on_is_shown(folder):
    shown = []
    evaluate_answers(read_answers(folder), show=shown.append)
    assert [one.good for one in shown].count(True) == 1


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


LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"


@pytest.mark.parametrize(
    ("text", "loops"),
    [
        ("xy" * 150, True),
        ("xy" * 149, False),
        (LETTERS * 10 + "!", False),
        ("?" + (LETTERS * 2 + "!") * 3, True),
        ((LETTERS * 2 + "!") * 3, True),
        ((LETTERS * 2 + "!")[1:] + (LETTERS * 2 + "!") * 2, False),
    ],
)
def test_a_loop_has_its_300_characters_and_its_third_copy_to_the_letter(text, loops):
    assert ends_in_loop(text) is loops


@pytest.mark.parametrize(
    ("start", "end", "period", "loops"),
    [
        (100, 400, 100, True),
        (101, 400, 100, False),
        (400, 1000, 200, True),
        (401, 1000, 200, False),
        (0, 801, 200, True),
        (0, 800, 200, False),
    ],
)
def test_a_labeled_run_is_a_loop_if_it_is_long_and_reaches_the_end(
    tmp_path, start, end, period, loops
):
    size = 400 if period == 100 else 1000
    run = {"start": start, "end": end, "period": period}
    (tmp_path / "a.jsonl").write_text(json.dumps({"text": "x" * size, "repeats": [run]}))
    (answer,) = read_answers(tmp_path / "a.jsonl")
    assert answer.loops is loops


class Scripted:
    """A detector that gives one verdict, on the first piece or never."""

    def __init__(self, stall):
        self.stall = stall

    def feed(self, text):
        return self.stall


@pytest.mark.parametrize(
    ("before", "run", "rest", "again", "good"),
    [
        (30, 20, 40, False, True),
        (30, 20, 39, False, False),
        (2, 38, 40, False, True),
        (0, 40, 40, False, False),
        (30, 20, 60, True, False),
    ],
)
def test_a_cut_is_of_a_good_answer_if_its_run_is_the_lesser_part_and_40_characters_follow(
    before, run, rest, again, good
):
    text = LETTERS[:before] + "-+" * (run // 2) + (LETTERS + LETTERS)[:rest]
    stall = Stall(before + 6, before, 2, "repeat")
    detectors = iter([Scripted(stall), Scripted(stall if again else None)])
    shown = []
    figures = evaluate_answers([Answer("a", text, loops=False)], lambda: next(detectors, Scripted(None)), shown.append)  # fmt: skip
    assert (figures["went_on"], figures["good_cut"]) == (1, good)
    assert [verdict.good for verdict in shown] == [good]


def test_a_cut_without_a_known_period_ends_where_the_verdict_fell():
    text = LETTERS[:10] + "-" * 20 + LETTERS[:50]
    detectors = iter([Scripted(Stall(30, 10, 0, "entropy")), Scripted(None)])
    figures = evaluate_answers([Answer("a", text, loops=False)], lambda: next(detectors))
    assert figures["good_cut"] == 1


def test_without_any_loop_all_of_them_were_found():
    figures = evaluate_answers([Answer("a", "short", loops=False)], lambda: Scripted(None))
    assert (figures["found_share"], figures["loops"], figures["chars"]) == (1.0, 0, 5)
    missed = [Answer(str(n), "loop", loops=True) for n in range(3)]
    detectors = iter([Scripted(Stall(1, 0, 1, "repeat")), Scripted(None), Scripted(None)])
    figures = evaluate_answers(missed, lambda: next(detectors))
    assert (figures["found"], figures["found_share"], figures["cut"]) == (1, 0.3333, 1)


def test_an_answer_is_fed_in_pieces_to_its_end():
    fed = []

    class Listening:
        def feed(self, text):
            fed.append(text)

    text = LETTERS[:50]
    evaluate_answers([Answer("a", text, loops=False)], Listening)
    assert [len(piece) for piece in fed] == [24, 24, 2]
    assert "".join(fed) == text
