"""Turns: the turns of a conversation as documents, so that the pipeline can recall them.

A turn is one document of one chunk, or of several if it is longer than a chunk may be. Its source is "turn", its text
opens with `[date] Speaker:`, the form by which the ranking knows a conversation. Its id follows from session, speaker,
time and text, so that an agent may send its whole history each time: known turns stay as they are, new ones are added
in order. Blocks that were injected into a message are not part of what was said and are left out.
Metadata hold what slices.py reads: parent, phase and salience.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from millgate.errors import InputError
from millgate.protocols import DocumentStore
from millgate.text.fence import without_fences
from millgate.text.turns import format_time
from millgate.types import TURN, Chunk, Document
from millgate.types.check import check_length, check_type
from millgate.types.lengths import CHUNK_CHARS, SESSION_CHARS

COLLECTION = "turns"
_SPEAKER = re.compile(r"[^\w .'-]+")


@dataclass(frozen=True, slots=True)
class AddedTurns:
    """The result of adding turns: the ids of all given, and how many of them were new."""

    ids: tuple[str, ...]
    new: int


def add_turns(
    store: DocumentStore,
    tenant: str,
    session: str,
    messages: Iterable[Mapping[str, Any] | str],
    *,
    collection: str = COLLECTION,
    now: float | None = None,
    after: str = "",
) -> AddedTurns:
    """Add the turns that the collection does not have yet."""
    made = turn_documents(messages, session, collection=collection, now=now, after=after)
    ids = [document.id for document in made]
    known = store.digests(tenant, collection, ids)
    fresh = [document for document in made if document.id not in known]
    if fresh:
        store.put(tenant, fresh)
    return AddedTurns(tuple(ids), len(fresh))


def turn_documents(
    messages: Iterable[Mapping[str, Any] | str],
    session: str,
    *,
    collection: str = COLLECTION,
    now: float | None = None,
    after: str = "",
) -> list[Document]:
    """Messages {content, role or name, time, id, parent, phase, salience} as documents; empty ones are left out.

    `time` is seconds or a text; if it is missing, `now` stands in the text but not in the id. `after` is the id
    of the turn before the first; each turn answers the one before it unless it names its parent.
    """
    check_type("session", session, str)
    if not session.strip():
        raise InputError(
            "the session has no name", hint="its name tells its turns from those of other sessions"
        )
    check_length("session", session, SESSION_CHARS)
    if isinstance(messages, (str, bytes, Mapping)) or not isinstance(messages, Iterable):
        kind = type(messages).__name__
        raise InputError(f"the turns are {kind}, not a list", hint="put the one turn into a list")
    made: list[Document] = []
    seen: Counter[str] = Counter()
    parent = after
    for number, message in enumerate(messages):
        given: object = {"content": message} if isinstance(message, str) else message
        if not isinstance(given, Mapping):
            kind = type(message).__name__
            raise InputError(f"message {number} is {kind}", hint="give {role, content} or a text")
        if text := _content(given):
            made.append(
                _turn_document(
                    text, given, session, collection=collection, seen=seen, now=now, parent=parent
                )
            )
            parent = made[-1].id
    return made


def _content(given: Mapping[str, Any]) -> str:
    """What a message says; none of it was injected."""
    content = given.get("content", given.get("text"))
    if isinstance(content, Sequence) and not isinstance(content, str):
        parts = (p.get("text") if isinstance(p, Mapping) else p for p in content)
        content = "\n".join(part for part in parts if isinstance(part, str))
    said = without_fences(content) if isinstance(content, str) else ""
    return said.encode("utf-8", "replace").decode().strip()


def _turn_document(
    content: str,
    given: Mapping[str, Any],
    session: str,
    *,
    collection: str,
    seen: Counter[str],
    now: float | None,
    parent: str,
) -> Document:
    name = str(given.get("name") or given.get("speaker") or given.get("role") or "User")
    speaker = " ".join(_SPEAKER.sub(" ", name).split())[:30] or "User"
    speaker = speaker[0].upper() + speaker[1:]
    time = given.get("time", given.get("created"))
    text = f"{_time_prefix(now if time is None else time)}{speaker}: {content}"
    digest = sha256(f"{speaker}\n{time}\n{content}".encode("utf-8", "replace")).hexdigest()
    seen[digest] += 1  # the same words said twice are two turns
    again = "" if seen[digest] == 1 else f"-{seen[digest]}"
    id = str(given.get("id") or f"{session}/{digest[:12]}{again}")
    metadata = {
        "session": session,
        "speaker": speaker,
        "parent": str(given.get("parent") or parent),
        **{key: given[key] for key in ("phase", "salience", "time") if key in given},
    }
    pieces = [text[at : at + CHUNK_CHARS] for at in range(0, len(text), CHUNK_CHARS)]
    chunks = tuple(
        Chunk(f"{id}#{n}" if n else id, piece, id, collection, TURN, position=n, metadata=metadata)
        for n, piece in enumerate(pieces)
    )
    return Document(id, collection, digest=digest, source=TURN, metadata=metadata, chunks=chunks)


def _time_prefix(time: object) -> str:
    """The `[time] ` in front of a turn's text; empty if no time is known."""
    if isinstance(time, bool) or time is None or time == "":
        return ""
    if isinstance(time, int | float):
        try:
            return f"[{format_time(time)}] "
        except (OverflowError, OSError, ValueError):
            raise InputError(f"time is {time}; it must be seconds since the epoch") from None
    shown = re.sub(r"[\]\[\s]+", " ", str(time)).strip()[:60]
    return f"[{shown}] "
