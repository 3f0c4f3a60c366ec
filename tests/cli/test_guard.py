"""`millgate guard`: a filter that ends a looping stream and tells why."""

import json

import pytest
from click.testing import CliRunner

from millgate.cli import app, main

INTRO = "The river rose in spring, and the keeper of the gate went out before dawn.\n"
UNIT = "He lifted the first board and looked at the water below him for a while. "


def run(text, *options):
    data = text if isinstance(text, bytes) else text.encode()
    return CliRunner().invoke(app, ["guard", *options], input=data)


def test_clean_text_passes_unchanged():
    result = run(INTRO + UNIT)
    assert (result.exit_code, result.stdout, result.stderr) == (0, INTRO + UNIT, "")


def test_a_loop_ends_the_output_and_is_told():
    result = run(INTRO + UNIT * 50)
    assert result.exit_code == 3
    assert result.stdout.startswith(INTRO + UNIT)
    assert result.stdout.count(UNIT) <= 2
    assert f"loop at character {len(INTRO)}" in result.stderr


def test_json_holds_text_and_report():
    result = run(INTRO + UNIT * 50, "--json")
    told = json.loads(result.stdout)
    assert told["looped"] is True
    assert told["cuts"][0]["period"] == len(UNIT)
    assert told["text"].startswith(INTRO)
    assert json.loads(run(INTRO, "--json").stdout)["looped"] is False


def test_counting_is_warned_of():
    text = "".join(f"{n}. The keeper lifted the board again.\n" for n in range(80))
    assert "counting" in run(text).stderr
    assert run(text, "--counting", "cut").exit_code == 3


@pytest.mark.parametrize(
    "data", [b"", b"\x00\x00", b"\xff\xfe broken", b"Gr\xfc\xdfe \xf0\x9f", "é🌟".encode()]
)
def test_odd_input_passes(data):
    result = run(data)
    assert result.exit_code == 0
    assert result.stdout_bytes == data
    told = json.loads(run(data, "--json").stdout)
    assert told["text"] == data.decode("utf-8", "replace")


def test_a_loop_of_odd_bytes_ends_where_the_same_letters_would():
    odd = (INTRO + UNIT * 50).encode().replace(b"a", b"\xff")
    result = run(odd)
    assert (result.exit_code, odd.startswith(result.stdout_bytes)) == (3, True)
    assert len(result.stdout_bytes) == len(run(INTRO + UNIT * 50).stdout_bytes)


def test_settings_and_options_choose_the_detector(monkeypatch):
    clean = run(INTRO * 3)
    assert clean.exit_code == 0
    monkeypatch.setenv("MILLGATE_GUARD__DETECTOR", "entropy")
    monkeypatch.setenv("MILLGATE_GUARD__ENTROPY__MIN_BITS", "8")
    assert "absolute" in run(INTRO).stderr
    assert run(INTRO, "--min-bits", "0", "--max-drop", "9").exit_code == 0
    assert run(INTRO * 3, "--detector", "repeat").stderr == clean.stderr


@pytest.mark.parametrize("detector", ["entropy", "both"])
def test_the_entropy_rule_slices_where_the_repetition_begins(detector):
    result = run(INTRO + "fo" * 300, "--json", "--detector", detector)
    cut = json.loads(result.stdout)["cuts"][0]
    assert (cut["onset"], cut["period"]) == (len(INTRO), 2)
    assert "bits" in cut["reason"]


def test_warm_up_and_span_of_the_entropy_rule_are_options():
    text = "a" * 30 + INTRO
    assert run(text, "--detector", "entropy").exit_code == 3
    late = ("--detector", "entropy", "--warm-up", "64", "--max-drop", "9", "--min-bits", "0.5")
    assert run(text, *late).exit_code == 0
    falling = ("--detector", "entropy", "--min-bits", "0", "--max-drop", "1")
    assert run(INTRO + "a" * 64, *falling, "--span", "1").exit_code == 0
    assert run(INTRO + "a" * 64, *falling, "--span", "40").exit_code == 3


def test_a_model_has_settings_of_its_own(monkeypatch):
    monkeypatch.setenv("MILLGATE_GUARD__MODELS", '{"odd-*": {"detector": "entropy"}}')
    text = INTRO + "a" * 64
    assert run(text).exit_code == 0
    assert run(text, "--model", "odd-1").exit_code == 3


def test_json_holds_the_call_that_goes_on_with_the_token():
    result = run(INTRO + "fo" * 300, "--json", "--divergence-token", "<other way>")
    told = json.loads(result.stdout)
    assert told["text"] == INTRO
    assert told["next_messages"] == [{"role": "assistant", "content": INTRO + "<other way>"}]


def test_an_impossible_threshold_is_named(capsys):
    with pytest.raises(SystemExit):
        main(["guard", "--window", "1"])
    assert "entropy.window" in capsys.readouterr().err
