"""Programs that tests drive and that pip does not bring.

Where one is missing its tests are skipped, and the summary says in one line how to get it.
"""

import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from tests.waiting import MOST_S

PACKAGES = Path(__file__).parents[1] / ".bench" / "node"


def find_program(*names, how):
    """The path of a program that goes by one of the names."""
    path = next(filter(None, map(shutil.which, names)), None)
    if not path:
        pytest.skip(f"no {names[0]} was found: {how}")
    return path


def install_package(package, version):
    """The folder in which a package of npm is installed, once for all runs."""
    folder = PACKAGES / f"{package}-{version}"
    if not folder.exists():
        npm = find_program("npm", how="install Node.js 20 or newer (https://nodejs.org), then run the tests again")  # fmt: skip
        PACKAGES.mkdir(parents=True, exist_ok=True)
        # to a place of its own first: another process may be at it too
        with tempfile.TemporaryDirectory(dir=PACKAGES) as place:
            new = Path(place, "new")
            new.mkdir()
            (new / "package.json").write_text('{"private": true}')
            done = subprocess.run(
                [npm, "install", "--no-audit", "--no-fund", "--silent", f"{package}@^{version}"],
                cwd=new, capture_output=True, text=True, timeout=MOST_S, check=False,
            )  # fmt: skip
            if done.returncode:
                pytest.skip(f"npm could not install {package}: {done.stderr.strip()[-300:]}")
            try:
                new.rename(folder)
            except OSError:
                assert folder.exists()
    return folder
