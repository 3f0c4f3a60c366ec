"""The front of the command line: help, strategy, config, and how errors are shown."""

import json

import pytest
from click.testing import CliRunner

from headgate import cli


def test_help_lists_every_command_and_each_command_loads():
    shown = CliRunner().invoke(cli.app, ["--help"]).output
    for name in cli.COMMANDS:
        assert name in shown
        assert CliRunner().invoke(cli.app, [name, "--help"]).exit_code == 0


def test_strategy_shows_a_panel(run):
    code, out, _ = run("strategy", "what is the refund policy?", "--used", "60000")
    assert code == 0
    assert all(part in out for part in ("RAG", "0.80", "25,200", "cite sources", "46.9%"))


def test_strategy_speaks_json(run, tmp_path):
    (tmp_path / "a.txt").write_text("x" * 400)
    code, out, _ = run("strategy", "summarize this", "--files", "a.txt", "--json")
    answer = json.loads(out)
    assert (code, answer["strategy"], answer["content_tokens"]) == (0, "STUFF", 100)
    assert answer["tier"] == "STUFF"


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["strategy", " "], "the query is empty"),
        (["strategy", "x" * 10_000_000], "limits.query_chars is 100,000"),
        (["strategy", "x", "--files", "gone.txt"], "gone.txt"),
        (["strategy", "x", "--context-length", "-3"], "context_length is -3"),
        (["strategy", "x", "--chars", "-3"], "char_count is -3"),
    ],
)
def test_bad_input_is_two_lines_and_exit_2(run, args, said):
    code, out, err = run(*args)
    assert (code, out) == (2, "")
    assert said in err
    assert "Traceback" not in err


def test_config_shows_what_is_set_and_checks_it(run, monkeypatch):
    monkeypatch.setenv("HEADGATE_GATE__MIN_RATIO", "0.5")
    code, out, _ = run("config", "show", "--changed", "--json")
    assert (code, json.loads(out)) == (
        0,
        [
            {
                "name": "gate.min_ratio",
                "value": 0.5,
                "default": 0.08,
                "origin": "HEADGATE_GATE__MIN_RATIO",
            }
        ],
    )
    assert "gate.min_ratio" in run("config", "show")[1]
    assert "1 given" in run("config", "check")[1]
    monkeypatch.setenv("HEADGATE_GATE__MIN_RATIO", "5")
    code, _, err = run("config", "check")
    assert code == 2
    assert "gate.min_ratio is '5'" in err


def test_config_show_shows_the_rest_beside_a_variable_that_is_no_setting(run, monkeypatch):
    monkeypatch.setenv("HEADGATE_STOER", "kb")
    monkeypatch.setenv("HEADGATE_TENANT", "acme")
    code, out, err = run("config", "show", "--changed", "--json")
    assert (code, [s["name"] for s in json.loads(out)]) == (0, ["tenant"])
    assert "HEADGATE_STOER" in err
