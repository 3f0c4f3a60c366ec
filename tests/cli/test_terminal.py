"""What others wrote cannot steer the terminal of whoever reads it."""

import ast
from pathlib import Path

import millgate.cli
from millgate.cli.terminal import explain_wait, fit
from millgate.gateway import Millgate
from millgate.settings import Settings
from millgate.text.table import count_of, printable

EVIL = "refunds\x1b]0;owned\x07\x1b[2K\x9b8m\u202e ?"


def test_controls_and_reversals_are_made_visible():
    shown = printable(EVIL)
    assert shown == "refunds\\u001b]0;owned\\u0007\\u001b[2K\\u009b8m\\u202e ?"
    assert printable("tab\tline\nünïcode 漢 👍") == "tab\tline\nünïcode 漢 👍"


def test_a_question_in_the_queue_reaches_the_reviewer_as_it_is_stored(tmp_path, run):
    with Millgate.open(settings=Settings(store=str(tmp_path / "kb"))) as gate:
        asked = gate.reviews.ask(EVIL, collection="main", grades={}, reason="nothing fits")
    for command in (["reviews", "list"], ["reviews", "show", asked.id]):
        _, out, _ = run(*command, "--store", str(tmp_path / "kb"))
        assert "\\u001b" in out
        assert not {"\x1b", "\x9b", "\x07", "\u202e"} & set(out)


def test_every_command_prints_through_the_terminal():
    # `millgate guard` passes a stream on as it is: that is its purpose.
    allowed = {"terminal.py", "guard.py"}
    for file in Path(millgate.cli.__file__).parent.glob("*.py"):
        names = {
            ast.unparse(node.func)
            for node in ast.walk(ast.parse(file.read_text("utf-8")))
            if isinstance(node, ast.Call)
        }
        assert file.name in allowed or not names & {"click.echo", "print", "Console"}, file.name


def test_lines_are_cut_to_the_width_of_a_terminal_and_whole_in_a_pipe(monkeypatch):
    text = "12345\n123456\n"
    assert fit(text) == text
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "5")
    assert fit(text) == "12345\n1234…"


def test_one_thing_is_singular_and_thousands_have_commas():
    assert [count_of(n, "chunk") for n in (0, 1, 2, 1_000)] == ["0 chunks", "1 chunk", "2 chunks", "1,000 chunks"]  # fmt: skip


def test_a_long_wait_is_explained_and_a_short_one_is_not(capsys):
    with explain_wait(after_s=60):
        pass
    assert capsys.readouterr().err == ""
    said = ""
    with explain_wait(after_s=0):
        while not said:
            said = capsys.readouterr().err
    assert "the first question after an add" in said
