"""Python code as a reader runs it: in a process of its own, in a folder, with warnings as errors.

To import Millgate takes a second, and there are many pieces of code. So each process is forked from one that has
imported it and done nothing else.
"""

import multiprocessing
import os
import sys
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["millgate.service.app", "millgate.testing", "millgate.operations"])


@dataclass(frozen=True)
class Done:
    """A process that has ended."""

    returncode: int
    stdout: str
    stderr: str


def run_code(code, folder, *, file="<page>"):
    """Run code in a folder, and see what it prints."""
    with tempfile.TemporaryDirectory() as place:
        names = [str(Path(place, name)) for name in ("stdout", "stderr")]
        process = _CONTEXT.Process(target=_run, args=(code, str(folder), str(file), names))
        process.start()
        process.join()
        return Done(process.exitcode, *(Path(name).read_text() for name in names))


def _run(code, folder, file, names):
    os.chdir(folder)
    for number, name in enumerate(names, start=1):
        os.dup2(os.open(name, os.O_CREAT | os.O_WRONLY), number)
    sys.argv = [file]
    warnings.simplefilter("error")
    exec(compile(code, file, "exec"), {"__name__": "__main__", "__file__": file})
