import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.waiting import MOST_S


@contextmanager
def printing_its_port(script):
    """The port of a server that runs until the block ends."""
    process = subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True)
    try:
        yield process.stdout.readline().strip()
    finally:
        process.kill()  # it holds nothing that an end in order would save
        process.wait(MOST_S)
        process.stdout.close()


@pytest.fixture(scope="session")
def web():
    """The address of a small web server that this run started, and ends."""
    with printing_its_port(str(Path(__file__).with_name("web_server.py"))) as port:
        yield f"http://127.0.0.1:{port}"
