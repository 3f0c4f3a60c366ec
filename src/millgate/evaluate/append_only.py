"""Append-only: whether each request of a recorded conversation only adds to the one before it.

A provider reads the beginning of such a request from its cache. The first thing that was changed fails the test, with
its name. A line of the file is a request, or a record that holds one (`request`, `body` or `kwargs`).
"""

from dataclasses import dataclass
from pathlib import Path

from millgate.errors import InputError
from millgate.sessions.conversation import Conversation, Conversations, Owner
from millgate.sessions.prompt_cache.segments import read_prompt
from millgate.sessions.witness import observe
from millgate.sessions.xray.files import Lines

NOBODY = Owner("")
SUFFIXES = (".jsonl", ".ndjson", ".json")


@dataclass(slots=True)
class ConversationResult:
    """A conversation: how many requests it has, and the first that changes what stood there before."""

    name: str
    requests: int = 0
    broken_at: int = 0
    """The number of that request, from 1; 0 if there is none."""
    why: str = ""

    @property
    def passed(self) -> bool:
        """Whether each request only adds to the one before."""
        return not self.broken_at


def check_append_only(path: Path) -> list[ConversationResult]:
    """The conversations of a file of requests, each with its first break."""
    if not path.is_file():
        raise InputError(
            f"there is no file {str(path)!r}", hint="give a file of requests, one a line"
        )
    known, found, lines = Conversations(), dict[str, ConversationResult](), Lines(path)
    for name, entry in lines.entries():
        if entry.request is None:
            continue
        result = found.setdefault(name, ConversationResult(name))
        result.requests += 1
        prompt = read_prompt(entry.request)
        seen = observe(prompt, known.find(NOBODY, name, prompt), entry.request)
        known.remember(NOBODY, Conversation(name, prompt, prompt), seen.last)
        if seen.difference is not None and result.passed:
            result.broken_at, result.why = result.requests, seen.difference.describe()
    if not found:
        skipped = f"; {lines.skipped} lines are not JSON" if lines.skipped else ""
        raise InputError(
            f"{path} holds no request{skipped}",
            hint='a request has "messages" or "input", and stands on a line of its own',
        )
    return list(found.values())
