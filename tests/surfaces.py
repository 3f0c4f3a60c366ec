"""One question, asked of one store from every surface: the library, the command line, HTTP.

Each gives the same: the answer as `millgate context --json` prints it.
"""

import asyncio
import io
import json
from contextlib import redirect_stderr, redirect_stdout

import pytest
from tests.service.clients import connected

from millgate import Millgate, cli
from millgate.explain.as_data import context_data
from millgate.service.app import create
from millgate.types import ContextBudget

WINDOW = ("context_length", "used_tokens", "threshold_tokens")


def ask_library(folder, query, *, settings=(), **given):
    """The answer of `Millgate.context`."""
    window = {name: given.pop(name) for name in WINDOW if name in given}
    with Millgate.open(folder, **dict(settings)) as gate:
        full = ContextBudget(**window) if window else None
        return context_data(gate.context(query, context_budget=full, **given))


def ask_command(folder, query, *, settings=(), **given):
    """What `millgate context` prints; a test that needs settings of its own sets them in the environment."""
    options = [f"--{name.replace('_', '-')}={value}" for name, value in given.items()]
    return json.loads(run_command("context", query, f"--store={folder}", "--json", *options))


def ask_service(folder, query, *, settings=(), **given):
    """The answer of POST /v1/context."""

    async def ask():
        with Millgate.open(folder, **dict(settings)) as gate:
            async with connected(create(gate)) as client:
                answer = await client.post("/v1/context", json={"query": query, **given})
                assert answer.status_code == 200, answer.text
                return answer.json()

    return asyncio.run(ask())


def run_command(*arguments):
    """What a command prints on stdout."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as ended:
        cli.main(list(arguments))
    assert not ended.value.code, err.getvalue()
    return out.getvalue()


SURFACES = {"library": ask_library, "command": ask_command, "http": ask_service}
