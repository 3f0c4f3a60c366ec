"""`headgate eval guard`: the figures on a few hand-made streams, and on files that cannot be read."""

import gzip
import json

import pytest
from click.testing import CliRunner

from headgate.cli import app, main
from headgate.errors import InputError
from headgate.evaluate.guard import LabeledStream, evaluate, percentile, read
from headgate.guard import EntropyDetector

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
        "clean_warned": 0, "mid": 1, "mid_cut": 1, "hold_loops": 1, "hold_in_time": 1,
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
