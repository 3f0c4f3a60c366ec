"""Early answers: what a client asks first is answered at once, while everything else is being loaded.

A client that starts us shows the model our tools once it has the answers to `initialize` (or `server/discover`) and to
`tools/list`. They are the same in every run of a release, so they stand in early_answers.json. To import the protocol's
library and to open the store takes seconds, and goes on meanwhile; all other messages wait for that. The library must
know of an `initialize` too, so it gets the message later, and its own answer is dropped. docs/early_answers.py writes
the file.
"""

import os
import sys
import threading
from pathlib import Path
from queue import SimpleQueue
from typing import Any, BinaryIO

import orjson

from millgate import __version__

FILE = Path(__file__).with_name("early_answers.json")
VERSION = "{version}"  # stands in the file for the version of the release
OPENING = ("initialize", "server/discover", "tools/list")
MODERN = "io.modelcontextprotocol/protocolVersion"
MAX_LINE = 64 << 20  # longer than any message that a tool takes


class EarlyClient:
    """The client at the other end of standard input and output, as two files that the library reads and writes.

    While it serves, whatever else is printed goes to standard error.
    """

    def __init__(self, input: BinaryIO, output: BinaryIO) -> None:
        self._input, self._output = input, output
        kept = orjson.loads(FILE.read_bytes().replace(VERSION.encode(), __version__.encode()))
        self._answers = {asked: kept["results"][at] for asked, at in kept["answers"].items()}
        self._version = ""
        self._dropped: set[object] = set()
        self._handed_over = False
        self._needs_more = threading.Event()
        self._lines: SimpleQueue[str] = SimpleQueue()
        self._writing = threading.Lock()
        threading.Thread(target=self._read, daemon=True).start()

    @classmethod
    def claim(cls) -> "EarlyClient | None":
        """Take standard input and output for the client; None if they are not the process's own."""
        if not (_is_own(sys.stdin, 0) and _is_own(sys.stdout, 1)):
            return None
        nothing = os.open(os.devnull, os.O_RDONLY)
        input, output = _move(0, nothing), _move(1, 2)
        os.close(nothing)
        return cls(os.fdopen(input, "rb"), os.fdopen(output, "wb"))

    def wait_until_needed(self, wait_s: float) -> None:
        """Wait until the client has our tools or asks for what only the library knows, but no longer than that.

        Loading takes the processor and the interpreter's lock, which the first answers need.
        """
        self._needs_more.wait(wait_s)

    # What the library reads and writes

    def readline(self) -> str:
        """The next message that was not answered early; "" at the end."""
        self._handed_over = True
        line = self._lines.get()
        if not line:
            self._lines.put("")  # the end stays the end
        return line

    def write(self, text: str) -> int:
        """Send a message, unless it answers what was answered early."""
        if self._dropped:
            message = orjson.loads(text)
            if message.get("id") in self._dropped and "method" not in message:
                self._dropped.discard(message["id"])
                return len(text)
        self._send(text.encode())
        return len(text)

    def flush(self) -> None:
        """Nothing waits to be written."""

    # The client's side

    def _read(self) -> None:
        while line := self._input.readline(MAX_LINE):
            if self._handed_over or not self._answer(line):
                self._lines.put(line.decode("utf-8", "replace"))
        self._input.close()
        self._needs_more.set()
        self._lines.put("")

    def _answer(self, line: bytes) -> bool:
        """Answer a message if its answer is known; whether the library need not know of it."""
        try:
            message = orjson.loads(line)
            method, id, params = message["method"], message.get("id"), message.get("params") or {}
            result = self._find(method, params)
        except (ValueError, KeyError, TypeError, AttributeError):
            self._needs_more.set()
            return False
        if method == "notifications/initialized":
            return False
        if method == "tools/list" or result is None:
            self._needs_more.set()
        if result is None or not isinstance(id, str | int):
            return False
        if method == "initialize":
            self._dropped.add(id)
        try:
            self._send(orjson.dumps({"jsonrpc": "2.0", "id": id, "result": result}) + b"\n")
        except OSError:
            return False  # the client is gone, which the library will see
        return bool(method != "initialize")

    def _find(self, method: str, params: dict[str, Any]) -> Any:
        """The answer to a message of its protocol version; None if there is none."""
        meta = params.get("_meta") or {}
        version = meta.get(MODERN, self._version)
        if method not in OPENING or set(params) - {"_meta", "protocolVersion", "capabilities", "clientInfo"}:  # fmt: skip
            return None
        if method == "initialize":
            version = self._version = params["protocolVersion"]
        return self._answers.get(f"{method} {version}")

    def _send(self, data: bytes) -> None:
        with self._writing:
            self._output.write(data)
            self._output.flush()


def _is_own(stream: Any, number: int) -> bool:
    try:
        return bool(stream.fileno() == number)
    except (AttributeError, OSError, ValueError):
        return False


def _move(number: int, other: int) -> int:
    """A new descriptor for what `number` stands for, which from now on stands for `other`."""
    moved = os.dup(number)
    os.dup2(other, number)
    return moved
