import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def web():
    """The address of a small web server that this run started, and ends."""
    script = Path(__file__).with_name("web_server.py")
    process = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True)
    try:
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
    finally:
        process.terminate()
        process.wait(60)
        process.stdout.close()
