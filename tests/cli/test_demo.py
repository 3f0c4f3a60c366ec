"""`millgate demo`, from a checkout and from the wheel that users install; and the completion of commands."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from tests.waiting import MOST_S

from millgate.cli.demo import SCRIPT, break_circle, cut_and_resume

ROOT = Path(__file__).parents[2]


def test_the_demo_shows_what_enters_what_does_not_and_why(run):
    code, out, _ = run("demo")
    assert code == 0
    assert out.count("enters") >= 3
    words = " ".join(out.split())  # a narrow table breaks sentences
    assert words.count("already in the window") == 3
    assert "no room for" in words
    assert [line.split()[1] for line in out.splitlines()[-3:]] == ["add", "context", "why"]


def test_what_the_window_holds_does_not_come_again(run):
    data = json.loads(run("demo", "--json")[1])
    first, second, third = (question["token_estimate"] for question in data["questions"])
    assert 0 < first <= 500
    assert 0 < second <= 500
    assert third == 0  # the window holds all there is to say
    assert data["loop"]["text"].endswith(SCRIPT["loop"]["resumes"])


def test_the_loop_is_cut_and_the_answer_goes_on():
    loop = cut_and_resume()
    assert loop["read_chars"] < len(SCRIPT["loop"]["sends"]) / 2
    assert len(loop["cuts"]) == 1
    assert loop["text"].endswith(SCRIPT["loop"]["resumes"])


def test_the_circle_is_broken_at_the_third_round():
    circle = break_circle()
    assert "third time" in circle["notes"][0][1]


@pytest.mark.slow
def test_the_demo_runs_from_a_wheel(tmp_path):
    build = pytest.importorskip("hatchling.build")
    script = f"import os, {build.__name__} as b; os.chdir({str(ROOT)!r}); print(b.build_wheel({str(tmp_path)!r}))"
    made = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True
    )
    wheel = tmp_path / made.stdout.split()[-1]
    zipfile.ZipFile(wheel).extractall(tmp_path / "installed")
    done = subprocess.run(
        [sys.executable, "-m", "millgate", "demo"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(tmp_path / "installed")},
        capture_output=True,
        text=True,
        timeout=MOST_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "already in the window" in done.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_its_script(run, shell):
    code, out, _ = run("config", "completion", shell)
    assert code == 0
    assert "_MILLGATE_COMPLETE" in out


def test_commands_are_completed_without_loading_any():
    script = (
        "import sys; from millgate.cli import app; import click\n"
        "found = app.shell_complete(click.Context(app), 're')\n"
        "print(*[item.value for item in found]); print('numpy' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True
    )
    names, loaded = done.stdout.splitlines()
    assert set(names.split()) == {"replay", "reviews"}
    assert loaded == "False"


def test_help_loads_neither_rich_nor_numpy_nor_pydantic():
    script = "import sys; sys.argv = ['millgate', '--help']\nfrom millgate.cli import main\ntry: main()\nexcept SystemExit: print(*sorted({'rich', 'numpy', 'pydantic'} & set(sys.modules)), 'end')"
    done = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True
    )
    assert done.stdout.splitlines()[-1].strip() == "end"
