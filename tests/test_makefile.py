"""The environment that every target installs first: never a package that is not the pinned one."""

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# Stands in for Python and for uv: `-m venv DIR` makes a folder with both in it, other calls are written down.
PROGRAM = """#!/bin/sh
if [ "$2" = venv ]; then mkdir -p "$3/bin"; cp "$0" "$3/bin/python"; cp "$0" "$3/bin/uv"; exit 0; fi
echo "$(basename "$0") $*" >> "$CALLS"
case "$*" in *require-hashes*$REFUSED*) echo "$SAID" >&2; exit 1;; esac
"""


@pytest.mark.parametrize(
    ("said", "advice"),
    [
        ("Hash mismatch for `x==1`", "Ask who serves it"),
        ("THESE PACKAGES DO NOT MATCH THE HASHES", "Ask who serves it"),
        ("x==1 was not found", "make UNPINNED=1"),
    ],
)
@pytest.mark.parametrize("refused", ["installer.txt", "dev.txt"])
def test_a_package_that_is_not_the_pinned_one_is_never_installed_unasked(
    tmp_path, said, advice, refused
):
    program, calls = tmp_path / "program", tmp_path / "calls"
    program.write_text(PROGRAM)
    program.chmod(0o755)
    venv = tmp_path / "venv"
    done = subprocess.run(
        ["make", f"VENV={venv}", f"PYTHON={program}", f"{venv}/.ready"],
        cwd=ROOT, env={"PATH": os.environ["PATH"], "CALLS": str(calls), "SAID": said, "REFUSED": refused},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode != 0
    assert "--group dev" not in calls.read_text()
    assert said in done.stdout
    assert advice in done.stdout
