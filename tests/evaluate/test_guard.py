"""`millgate eval guard`: the figures on a few hand-made streams, and on files that cannot be read."""

import gzip
import json

import pytest
from click.testing import CliRunner

from millgate.cli import app, main
from millgate.errors import InputError
from millgate.evaluate.guard import (
    LONG,
    LabeledStream,
    evaluate,
    onset_error,
    percentile,
    read,
    true_onset,
    watch,
)
from millgate.guard import EntropyDetector
from millgate.guard.detectors import Stall

UNIT = "The keeper lifts the boards and the water runs down to the fields again. "
WORDS = (
    "A river, a gate, three fields and one keeper who never slept more than five hours. "
    "His sister sold apples by the bridge; everybody knew her dog. Nothing else is known."
)


def row(text, loop=None, near=None, mid=()):
    chunks = [text[i : i + 4] for i in range(0, len(text), 4)]
    return {"id": "x", "chunks": chunks, "label": {"loop": loop, "near": near, "mid": list(mid)}}


ROWS = [
    row(WORDS + UNIT * 12, loop={"onset": len(WORDS), "period": len(UNIT), "len": 12 * len(UNIT)}),
    row(WORDS),
    row(
        WORDS + UNIT * 3 + "Then it ended.",
        mid=[{"start": len(WORDS), "end": len(WORDS) + 3 * len(UNIT), "period": len(UNIT)}],
    ),
    row("".join(f"{n}. The answer is the same.\n" for n in range(90)), near={"onset": 0}),
]


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "streams.jsonl.gz"
    with gzip.open(path, "wt") as out:
        out.write("\n".join(map(json.dumps, ROWS)) + "\n")
    return path


def test_the_figures_of_hand_made_streams_are_known(file):
    figures = evaluate(read(file))
    known = {
        "loops": 1, "found": 1, "long": 1, "found_long": 1, "clean": 1, "clean_cut": 0,
        "onset_error_p95": 0, "held": 0, "held_chars": 0, "near": 1, "near_warned": 1,
        "clean_warned": 0, "mid": 1, "mid_cut": 1,
    }  # fmt: skip
    assert {name: figures[name] for name in known} == known
    assert 3 * len(UNIT) <= figures["delay_chars_p50"] <= 3 * len(UNIT) + 64
    assert figures["ns_per_char"] > 0


def test_another_detector_can_be_measured():
    loop = {"onset": 0, "period": 2, "len": 400}
    figures = evaluate([LabeledStream("a", ("fo" * 200,), loop=loop)], EntropyDetector)
    assert figures["found"] == 1


def test_the_command_prints_the_promised_keys(file):
    result = CliRunner().invoke(app, ["eval", "guard", str(file), "--json"])
    assert result.exit_code == 0
    promised = (
        "loops found long found_long clean clean_cut delay_chars_p50 delay_chars_p95 onset_error_p95 "
        "held held_chars near_warned clean_warned mid_cut ns_per_char"
    )
    assert set(promised.split()) <= set(json.loads(result.output))
    assert "found_long" in CliRunner().invoke(app, ["eval", "guard", str(file)]).output


@pytest.mark.parametrize(
    "line", ["{", "[]", '{"chunks": []}', '{"label": {}}', '{"chunks": 3, "label": {}}']
)
def test_a_bad_line_is_named(tmp_path, capsys, line):
    path = tmp_path / "bad.jsonl"
    path.write_text(json.dumps(ROWS[1]) + "\n\n" + line + "\n")
    with pytest.raises(SystemExit, match="2"):
        main(["eval", "guard", str(path)])
    assert f"{path}:3" in capsys.readouterr().err


@pytest.mark.parametrize(
    "data", [b"no gzip", gzip.compress(b"{}\n" * 99, mtime=0)[:-12]], ids=["no gzip", "cut short"]
)
def test_a_broken_archive_is_named(tmp_path, data):
    path = tmp_path / "broken.jsonl.gz"
    path.write_bytes(data)
    with pytest.raises(InputError, match=r"broken\.jsonl\.gz"):
        list(read(path))


def test_a_missing_file_is_named(tmp_path, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["eval", "guard", str(tmp_path / "none.jsonl")])
    assert "none.jsonl" in capsys.readouterr().err


def test_percentiles_are_nearest_rank():
    assert percentile([], 50) == 0
    assert percentile([3, 1, 2], 50) == 2
    assert percentile(list(range(100)), 95) == 95


def test_a_line_that_is_not_json_is_named_by_its_number_and_column(tmp_path):
    path = tmp_path / "streams.jsonl"
    path.write_text('\n\n{"chunks" []}\n')
    with pytest.raises(InputError, match=r"streams\.jsonl:3: not JSON \(.* at column 11\)"):
        list(read(path))


class Scripted:
    """A detector whose verdict and hold after each chunk are given."""

    def __init__(self, *steps):
        self.steps, self.hold = iter(steps), None

    def feed(self, text):
        stall, self.hold = next(self.steps, (None, None))
        return stall

    def reset(self):
        self.hold = None


def figures_of(stream, *steps):
    return evaluate([stream], lambda: Scripted(*steps))


STALL = Stall(30, 20, 10, "repeat")


def test_what_is_held_back_is_counted_until_it_is_released():
    stream = LabeledStream("a", ("0123456789",) * 4)
    held = figures_of(stream, (None, 4), (None, 4), (None, None), (None, None))
    assert (held["held"], held["held_chars"]) == (1, 30 - 4)
    late = figures_of(stream, (None, None), (None, 4), (None, None), (None, 33))
    assert late["held_chars"] == 30 - 10, "what came before has gone out"
    twice = watch(stream, Scripted((None, 2), (None, None), (None, 22), (None, None)))
    assert (twice.was_held, twice.held) == (True, (20 - 2) + (40 - 22))
    cut = figures_of(stream, (None, 4), (STALL, 4))
    assert (cut["held_chars"], cut["clean_cut"]) == (0, 1)


def looping(onset=20, period=40, size=400, chunks=8):
    return LabeledStream("a", ("x" * 25,) * chunks, loop={"onset": onset, "period": period, "len": size})  # fmt: skip


@pytest.mark.parametrize(("position", "at_loop"), [(20, 0), (21, 1)])
def test_a_stall_belongs_to_the_loop_once_it_is_behind_its_onset(position, at_loop):
    figures = figures_of(looping(), (Stall(position, 0, 5, "repeat"), None))
    assert (figures["found"], figures["found_at_loop"]) == (1, at_loop)


def test_a_loop_behind_an_earlier_stall_is_still_found():
    figures = figures_of(looping(), (Stall(10, 0, 5, "repeat"), None), (Stall(50, 20, 40, "repeat"), None))  # fmt: skip
    assert figures["found_at_loop"] == 1


@pytest.mark.parametrize(("size", "long"), [(LONG - 1, 0), (LONG, 1)])
def test_a_long_loop_has_its_least_length(size, long):
    figures = figures_of(looping(size=size), (Stall(60, 20, 40, "repeat"), None))
    assert (figures["long"], figures["found_long"]) == (long, long)


@pytest.mark.parametrize(("end", "brief"), [(LONG - 1, 1), (LONG, 0)])
def test_a_brief_repetition_is_shorter_than_a_long_loop(end, brief):
    run = {"start": 0, "end": end}
    assert figures_of(LabeledStream("a", ("x",), mid=(run,)))["mid"] == brief
    assert figures_of(LabeledStream("a", ("x",), mid=(run,), near={"onset": 0}))["mid"] == 0


def test_delay_and_onset_are_measured_from_where_the_repetition_began():
    figures = figures_of(looping(), (Stall(200, 23, 40, "repeat"), None))
    assert figures["delay_chars_p50"] == 200 - 23
    assert figures["onset_error_max"] == 3


@pytest.mark.parametrize(
    ("stall", "error"),
    [
        (Stall(19, 6, 3, "repeat"), 1),
        (Stall(19, 7, 3, "repeat"), 0),
        (Stall(19, 7, 0, "entropy"), 12),
    ],
)
def test_without_a_label_the_onset_is_sought_in_the_text_itself(stall, error):
    text = "ab-cdefabcabcabcabc!"  # from 7 on, "abc" again and again
    assert onset_error(LabeledStream("a", (text,)), stall) == error


@pytest.mark.parametrize(("period", "position", "error"), [(3, 19, 2), (4, 19, 0), (3, 9, 1)])
def test_a_label_counts_if_it_names_this_run(period, position, error):
    text = "ab-cdefabcabcabcabc!"
    stream = LabeledStream("a", (text,), loop={"onset": 9, "period": period, "len": 10})
    assert onset_error(stream, Stall(position, 7, 3, "repeat")) == error


def test_a_run_that_begins_with_the_text_begins_at_its_first_character():
    assert true_onset("abababab", Stall(6, 0, 2, "repeat")) == 0
    assert true_onset("abababab", Stall(6, 0, 0, "entropy")) == 6
