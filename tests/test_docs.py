"""The code in README and docs runs, offline, as a reader would run it.

Each ```python block runs in a namespace of its own, in an empty folder. Where a ```text block follows it, that is
what it must print.
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(
    r"^```python\n(?P<code>.*?)^```\n(?:\s*^```text\n(?P<printed>.*?)^```)?", re.DOTALL | re.MULTILINE
)  # fmt: skip

BLOCKS = [
    pytest.param(found["code"], found["printed"], id=f"{page.name}:{page.read_text()[: found.start()].count(chr(10)) + 1}")
    for page in PAGES
    for found in BLOCK.finditer(page.read_text())
]  # fmt: skip


@pytest.mark.parametrize(("code", "printed"), BLOCKS)
def test_the_code_on_the_page_runs_and_prints_what_it_says(code, printed, tmp_path):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    if printed is not None:
        assert done.stdout == printed


SHELL = re.compile(r"The same from the command line:\n\n```sh\n(.*?)^```", re.DOTALL | re.MULTILINE)


def test_the_command_line_on_the_first_screen_shows_what_was_dropped_and_why(tmp_path):
    (script,) = SHELL.findall((ROOT / "README.md").read_text())
    command = (
        f'headgate() {{ "{sys.executable}" -W error -m headgate.cli "$@"; }}\nset -e\n{script}'
    )
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "added 3 documents" in done.stdout + done.stderr
    assert re.search(r"drop +policy +penalize +0\.000 +already in the window", done.stdout)
    assert re.search(r"keep +\[1\] +steps ", done.stdout)


LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)#\s]+)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_to_a_file(page):
    gone = [to for to in LINK.findall(page.read_text()) if not (page.parent / to).exists()]
    assert gone == []
