"""The front of the command line: help, strategy, config, and how errors are shown."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from contextlib import suppress

import click
import pytest
from click.testing import CliRunner
from tests.waiting import MOST_S, until

from millgate import Millgate, cli


def test_help_lists_every_command_and_each_command_loads():
    shown = CliRunner().invoke(cli.app, ["--help"]).output
    for name in cli.COMMANDS:
        assert name in shown
    for name in cli.COMMANDS:
        assert CliRunner().invoke(cli.app, [name, "--help"]).exit_code == 0


@pytest.mark.parametrize("given", [None, "1"])
def test_a_command_starts_no_threads_for_matrices_and_leaves_the_environment_as_it_was(given):
    environment = {k: v for k, v in os.environ.items() if "NUM_THREADS" not in k}
    if given:
        environment["OPENBLAS_NUM_THREADS"] = given
    script = """
import os, millgate.cli as cli
cli.app.get_command(None, "context")
import numpy
print(len(os.listdir("/proc/self/task")), os.environ.get("OPENBLAS_NUM_THREADS"))
"""
    run = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
    )
    assert run.stdout.split() == ["1", str(given)]


def test_ctrl_c_ends_a_command_with_130(tmp_path):
    with Millgate.open(tmp_path / "kb") as gate:
        gate.add({"id": "a", "text": "words"})
    os.mkfifo(tmp_path / "window")
    command = [sys.executable, "-m", "millgate", "context", "words", "--store", "kb", "--window", "window"]  # fmt: skip
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)

    def reads_window():
        assert process.poll() is None, process.stderr.read()
        with suppress(OSError):  # nobody has opened it to read
            return os.open(tmp_path / "window", os.O_WRONLY | os.O_NONBLOCK)

    pipe = until(reads_window)
    process.send_signal(signal.SIGINT)
    os.close(pipe)  # a signal that comes just before the command reads does not wake it
    _, said = process.communicate(timeout=MOST_S)
    assert (process.returncode, said.strip()) == (130, "stopped")


def test_ctrl_c_at_a_question_is_130_and_the_answer_no_is_1(run, tmp_path, monkeypatch):
    with Millgate.open(tmp_path / "kb") as gate:
        gate.add({"id": "a", "text": "words"})

    def interrupt(prompt=""):
        raise KeyboardInterrupt

    monkeypatch.setattr("click.termui.visible_prompt_func", interrupt)
    code, _, said = run("store", "remove", "--all", "--store", "kb")
    assert (code, said.strip().splitlines()[-1]) == (130, "stopped")
    monkeypatch.setattr("click.termui.visible_prompt_func", lambda prompt="": "n")
    assert run("store", "remove", "--all", "--store", "kb")[0] == 1


def test_strategy_shows_a_panel(run):
    code, out, _ = run("strategy", "what is the refund policy?", "--used-tokens", "60000")
    assert code == 0
    assert all(part in out for part in ("RAG", "0.80", "25,200", "cite sources", "46.9%"))


def test_strategy_speaks_json(run, tmp_path):
    (tmp_path / "a.txt").write_text("x" * 400)
    code, out, _ = run("strategy", "summarize this", "--file", "a.txt", "--json")
    answer = json.loads(out)
    assert (code, answer["strategy"], answer["content_tokens"]) == (0, "STUFF", 100)
    assert answer["tier"] == "STUFF"


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["strategy", " "], "the query is empty"),
        (["strategy", "x" * 10_000_000], "limits.query_chars is 100,000"),
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
    monkeypatch.setenv("MILLGATE_GATE__MIN_RATIO", "0.5")
    code, out, _ = run("config", "show", "--changed", "--json")
    assert (code, json.loads(out)) == (
        0,
        [
            {
                "name": "gate.min_ratio",
                "value": 0.5,
                "default": 0.08,
                "origin": "MILLGATE_GATE__MIN_RATIO",
            }
        ],
    )
    assert "gate.min_ratio" in run("config", "show")[1]
    assert "1 given" in run("config", "check")[1]
    monkeypatch.setenv("MILLGATE_GATE__MIN_RATIO", "5")
    code, _, err = run("config", "check")
    assert code == 2
    assert "gate.min_ratio is '5'" in err


def test_config_show_shows_the_rest_beside_a_variable_that_is_no_setting(run, monkeypatch):
    monkeypatch.setenv("MILLGATE_STOER", "kb")
    monkeypatch.setenv("MILLGATE_TENANT", "acme")
    code, out, err = run("config", "show", "--changed", "--json")
    assert (code, [s["name"] for s in json.loads(out)]) == (2, ["tenant"])
    assert "MILLGATE_STOER" in err


def test_context_takes_the_size_of_the_window_and_tells_what_it_means(run, tmp_path):
    codes = [" ".join(f"{n * 7919 + i * 104729:x}" for i in range(40)) for n in range(60)]
    rows = "\n".join(json.dumps({"text": f"Refunds are paid by {code}."}) for code in codes)
    (tmp_path / "rows.jsonl").write_text(rows)
    run("add", "rows.jsonl")
    asked = ("context", "how are refunds paid?", "--budget", "3000", "--context-length", "8000")
    _, out, _ = run(*asked, "--used-tokens", "5000", "--json")
    told = json.loads(out)
    assert 0 < told["token_estimate"] <= 1000
    plan = told["plan"]
    assert (plan["limit"], plan["min_trust"], plan["skip"], plan["budget"]) == (5, 0.3, False, 1000)
    _, out, err = run(*asked, "--used-tokens", "7990")
    assert "nothing was looked up: Pressure is 99.9%" in out
    assert "skipped, pressure 99.9%, 0 facts a provider, least trust 1.0" in err


def test_strategy_tells_limit_trust_and_skip_to_machines(run):
    _, out, _ = run("strategy", "x", "--context-length", "1000", "--used-tokens", "990", "--json")
    told = json.loads(out)
    assert (told["limit"], told["min_trust"], told["skip"]) == (0, 1.0, True)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("contxt", "context"), ("dokter", "doctor"), ("remembr", "facts remember")],
)
def test_a_mistyped_command_names_the_nearest(run, typed, meant):
    code, _, err = run(typed)
    assert code == 2
    assert f"Did you mean '{meant}'?" in err


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (["store", "rm"], "Did you mean 'remove'?"),
        (["keys", "rm"], "Did you mean 'revoke'?"),
        (["facts", "rememeber"], "Did you mean 'remember'?"),
        (["store", "help"], "Try: millgate store --help"),
        (["help"], "Try: millgate --help"),
    ],
)
def test_a_command_of_other_tools_names_ours(run, typed, said):
    code, _, err = run(*typed)
    assert code == 2
    assert said in err


@pytest.mark.parametrize(("old", "new"), cli.MOVED.items())
def test_a_name_of_another_design_runs_ours_and_says_where_it_went(run, old, new):
    note = f"note: 'millgate {old}' is now 'millgate {new}'\n"
    assert run(old, "--help") == (0, run(*new.split(), "--help")[1], note)


def test_every_command_is_in_help_and_completed_and_other_designs_are_not(run):
    shown = run("--help")[1]
    completed = {
        item.value for item in cli.app.shell_complete(click.Context(cli.app), incomplete="")
    }
    listed = set(re.findall(r"\w+", shown))
    assert completed & set(cli.MOVED) == set()
    assert set(cli.COMMANDS) <= listed & completed


@pytest.mark.parametrize("words", [["nonsense"], ["context"], ["context", "q", "--budget", "x"], ["why", "--nope"], ["store", "show", "a", "b"], ["keys", "list", "--store", "absent"]], ids=" ".join)  # fmt: skip
def test_every_error_is_what_happened_and_what_to_do(run, words):
    code, out, err = run(*words)
    what, todo = err.splitlines()
    assert (code, out) == (2, "")
    assert what.startswith("error: ")
    assert todo.startswith("hint: ")


def test_help_fits_one_screen(run):
    assert len(run("--help")[1].splitlines()) <= 42


def _leaves(path, command):
    if not isinstance(command, click.Group) or command.invoke_without_command:
        yield path, command
    for name, one in getattr(command, "commands", {}).items():
        yield from _leaves((*path, name), one)


LEAVES = [leaf for name in cli.COMMANDS for leaf in _leaves((name,), cli.app.get_command(None, name))]  # fmt: skip


@pytest.mark.parametrize(("path", "command"), LEAVES, ids=[" ".join(path) for path, _ in LEAVES])
def test_the_help_of_a_command_has_an_example_that_can_be_parsed(
    path, command, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "all.jsonl").touch()  # an argument that must be there
    start = f"millgate {' '.join(path)}"
    assert start in command.epilog
    line = command.epilog.partition(start)[2].partition("\n")[0]
    arguments = shlex.split(line.partition(" > ")[0].partition(')"')[0])
    command.make_context(path[-1], arguments)  # an unknown option or a missing argument is an error


def test_a_command_that_is_like_no_other_is_only_unknown(run):
    code, _, err = run("zzzzzz")
    assert code == 2
    assert "No such command 'zzzzzz'." in err
    assert "Did you mean" not in err


def test_config_show_fails_if_its_file_is_missing(run):
    code, _, err = run("config", "show", "--file", "gone.toml")
    assert code == 2
    assert "cannot read gone.toml" in err


def test_context_tells_the_verdict_and_takes_a_floor(run, tmp_path):
    rows = ["Refunds are paid within 14 days.", "Parcels go by rail.", "Refund forms are blue."]
    (tmp_path / "rows.jsonl").write_text("\n".join(json.dumps({"text": row}) for row in rows))
    run("add", "rows.jsonl")
    _, out, err = run("context", "how are refunds paid?", "--floor", "0")
    assert "within 14 days" in out
    assert "correct, " in err
    _, out, _ = run("context", "how are refunds paid?", "--floor", "1", "--json")
    told = json.loads(out)
    assert told["verdict"] == "correct"
    assert len(told["chunks"]) == len(told["confidences"]) >= 1
    assert run("context", "x", "--floor", "2")[0] == 2


def test_a_budget_that_is_too_small_is_said_to_be(run, tmp_path):
    (tmp_path / "a.md").write_text("Refunds are paid within 14 days to the card.")
    run("add", "a.md")
    _, out, _ = run("context", "how are refunds paid?", "--budget", "3")
    assert "nothing of what was found fits the budget" in out


def test_what_the_window_has_is_shown_if_it_is_asked_for(run, tmp_path):
    (tmp_path / "a.md").write_text("Refunds are paid within 14 days to the card.")
    run("add", "a.md")
    asked = ("context", "how are refunds paid?", "--window", "a.md")
    assert "14 days" not in run(*asked)[1]
    assert "14 days" in run(*asked, "--no-penalize")[1]
    assert "14 days" in run(*asked, "--best-effort")[1]


def test_a_check_names_every_fault_of_a_file(run, tmp_path):
    (tmp_path / "mine.toml").write_text(
        'tenant = 5\n[gate]\nmin_ratio = 3\n[proxy.upstreams.own]\nurl = "localhost:1"\n'
    )
    code, _, err = run("config", "check", "mine.toml")
    assert code == 2
    assert "tenant is 5" in err
    assert "gate.min_ratio is 3" in err
    assert (
        "proxy.upstreams.own.url is 'localhost:1' (from mine.toml): it must be http:// or https://"
        in err
    )
    assert "3 settings cannot be used" in err
    assert run("config", "check", "mine.toml", "--file", "mine.toml")[0] == 2


@pytest.mark.parametrize(
    "name", ["ASK__URL", "EMBED__URL", "GRADER__URL", "SEARCH__SEARX", "OPENAI_BASE_URL"]
)
def test_an_address_without_its_protocol_is_named_before_anything_is_called(
    run, tmp_path, monkeypatch, name
):
    (tmp_path / "a.md").write_text("Refunds are paid within 14 days.")
    run("add", "a.md")
    variable = name if name.startswith("OPENAI") else f"MILLGATE_{name}"
    monkeypatch.setenv(variable, "localhost:11434/v1")
    code, _, err = run("ask", "how are refunds paid?", "--model", "some-model")
    assert code == 2
    assert "is 'localhost:11434/v1'" in err
    assert "it must be http:// or https://" in err


def test_an_address_may_hold_a_user_and_a_password(run, monkeypatch):
    monkeypatch.setenv("MILLGATE_SEARCH__SEARX", "http://ann:secret@localhost:8080/")
    assert run("config", "check")[0] == 0


def test_one_option_is_named_that_was_probably_meant(run):
    _, _, err = run("context", "refunds", "--budgt", "5")
    assert "Did you mean '--budget'?" in err
    assert "--debug" not in err


def test_a_store_in_memory_is_said_to_be_gone_with_the_command(run, tmp_path):
    (tmp_path / "note.txt").write_text("a note")
    code, _, err = run("add", "note.txt", "--store", ":memory:")
    assert (code, "gone when the command ends" in err) == (0, True)
