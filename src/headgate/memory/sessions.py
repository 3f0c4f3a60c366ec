"""Sessions: the turns of a conversation as documents of their own, so that the pipeline recalls what was said.

A turn is one document of one chunk, source "turn", whose text opens with `[date] Speaker:`, the form by
which the ranking knows a conversation. Its id follows from session, speaker, time and text, so that an agent
may send its whole history again and again: what is known stays as it is, what is new is added in order.
Metadata carry what the kernel reads: parent, phase and salience.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

from headgate.errors import InputError
from headgate.protocols import DocumentStore
from headgate.types import Chunk, Document

COLLECTION = "turns"
_MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August",
           "September", "October", "November", "December")  # fmt: skip
_SPEAKER = re.compile(r"[^\w .'-]+")


@dataclass(frozen=True, slots=True)
class Kept:
    """What came of keeping turns: the ids of all given, and how many of them were new."""

    ids: tuple[str, ...]
    new: int


def keep(
    store: DocumentStore,
    tenant: str,
    session: str,
    messages: Iterable[Mapping[str, Any] | str],
    *,
    collection: str = COLLECTION,
    now: float | None = None,
    after: str = "",
) -> Kept:
    """Keep the turns that the collection does not have yet."""
    made = turns(messages, session, collection=collection, now=now, after=after)
    ids = [document.id for document in made]
    known = store.digests(tenant, collection, ids)
    fresh = [document for document in made if document.id not in known]
    if fresh:
        store.put(tenant, fresh)
    return Kept(tuple(ids), len(fresh))


def turns(
    messages: Iterable[Mapping[str, Any] | str],
    session: str,
    *,
    collection: str = COLLECTION,
    now: float | None = None,
    after: str = "",
) -> list[Document]:
    """Messages {content, role or name, time, id, parent, phase, salience} as documents; empty ones are left out.

    `time` is seconds or a text; where it is missing `now` stands in the text but not in the id. `after` is the id
    of the turn before the first; each turn answers the one before it unless it names its parent.
    """
    if not session.strip():
        raise InputError("the session has no name", hint="name it: its turns are told apart by it")
    made: list[Document] = []
    seen: Counter[str] = Counter()
    parent = after
    for place, message in enumerate(messages):
        said = _said(message, place)
        if said.text:
            document = _document(said, session, collection, seen, now=now, parent=parent)
            made.append(document)
            parent = document.id
    return made


@dataclass(frozen=True, slots=True)
class _Said:
    text: str
    speaker: str
    given: Mapping[str, Any]


def _said(message: Mapping[str, Any] | str, place: int) -> _Said:
    given = {"content": message} if isinstance(message, str) else message
    if not isinstance(given, Mapping):
        raise InputError(
            f"message {place} is {type(message).__name__}", hint="give {role, content} or a text"
        )
    content = given.get("content", given.get("text"))
    if isinstance(content, Sequence) and not isinstance(content, str):
        parts = (p.get("text") if isinstance(p, Mapping) else p for p in content)
        content = "\n".join(part for part in parts if isinstance(part, str))
    text = content.encode("utf-8", "replace").decode().strip() if isinstance(content, str) else ""
    name = str(given.get("name") or given.get("speaker") or given.get("role") or "User")
    speaker = " ".join(_SPEAKER.sub(" ", name).split())[:30] or "User"
    return _Said(text, speaker[0].upper() + speaker[1:], given)


def _document(
    said: _Said,
    session: str,
    collection: str,
    seen: Counter[str],
    *,
    now: float | None,
    parent: str,
) -> Document:
    time = said.given.get("time", said.given.get("created"))
    text = f"{_date(now if time is None else time)}{said.speaker}: {said.text}"
    digest = sha256(f"{said.speaker}\n{time}\n{said.text}".encode("utf-8", "replace")).hexdigest()
    seen[digest] += 1  # the same words said twice are two turns
    id = str(said.given.get("id") or f"{session}/{digest[:12]}{_again(seen[digest])}")
    metadata = {
        "session": session,
        "speaker": said.speaker,
        "parent": str(said.given.get("parent") or parent),
        **{key: said.given[key] for key in ("phase", "salience", "time") if key in said.given},
    }
    chunk = Chunk(id, text, id, collection, "turn", metadata=metadata)
    return Document(
        id, collection, digest=digest, source="turn", metadata=metadata, chunks=(chunk,)
    )


def _again(times: int) -> str:
    return "" if times == 1 else f"-{times}"


def _date(time: object) -> str:
    """The head of a turn's text; nothing where no time is known."""
    if isinstance(time, bool) or time is None or time == "":
        return ""
    if isinstance(time, int | float):
        try:
            moment = datetime.fromtimestamp(time, UTC)
        except (OverflowError, OSError, ValueError):
            raise InputError(f"time is {time}; it must be seconds since the epoch") from None
        return f"[{moment:%H:%M} on {moment.day} {_MONTHS[moment.month - 1]}, {moment.year}] "
    shown = re.sub(r"[\]\[\s]+", " ", str(time)).strip()[:60]
    return f"[{shown}] "
