"""Labeled sets: texts, questions about them, and which texts answer each; and such a set in a store, to be asked.

A set is a folder with corpus.jsonl {_id, title, text, collection}, queries.jsonl {_id, text, collection} and
qrels.tsv (query, passage, grade; the first line is a heading). Each query is asked within its collection. A query may
have `answers`, a list of wordings of its answer that stand in the passages. One with `"answerable": false` has no
answer in the set, so it needs no label.
"""

import json
import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

from millgate.errors import InputError
from millgate.gateway import Millgate
from millgate.stores.temporary import TemporaryStore
from millgate.text.bounded_json import describe_json_error
from millgate.text.words import tokens
from millgate.types import Trace

SETTINGS = "settings"  # as an embedder: the one that the settings name
Settings = Mapping[str, Any]
"""Settings by section, as `Millgate.open` takes them."""
Query = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Labeled:
    """A labeled set: rows to add, questions to ask, and which passages answer them.

    `answers` has the wordings of each query's answer, if they are known; `unanswerable` are queries that no passage
    answers.
    """

    name: str
    rows: Sequence[Mapping[str, Any]]
    queries: Sequence[Query]
    labels: Mapping[str, Mapping[str, int]]
    answers: Mapping[str, Sequence[str]] = field(default_factory=dict)
    unanswerable: Sequence[Query] = ()

    @property
    def collections(self) -> list[str]:
        """The collections that its rows are in."""
        return sorted({str(row["collection"]) for row in self.rows})


def collection_of(query: Query) -> str:
    """The collection that a query is asked in."""
    return query.get("collection", "main")


def sample(labeled: Labeled, most: int | None) -> Labeled:
    """The set with at most this many of its questions, the same in every run."""

    def draw(queries: Sequence[Query]) -> Sequence[Query]:
        if most is None or most >= len(queries):
            return queries
        return random.Random(labeled.name).sample(queries, most)  # noqa: S311  no secret

    return replace(labeled, queries=draw(labeled.queries), unanswerable=draw(labeled.unanswerable))


def copies(labeled: Labeled) -> dict[str, frozenset[str]]:
    """Each passage that has copies -> all passages of its collection with the same words."""
    alike: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for row in labeled.rows:
        if words := tokens(f"{row['title']}\n{row['text']}"):
            alike[row["collection"], *words].append(row["id"])
    groups = [frozenset(ids) for ids in alike.values() if len(ids) > 1]
    return {id: group for group in groups for id in group}


def sets(folder: Path) -> Iterator[Labeled]:
    """The labeled sets in a folder: itself, or each folder in it."""
    if (folder / "corpus.jsonl").is_file():
        yield read(folder)
        return
    found = sorted(path.parent for path in folder.glob("*/corpus.jsonl"))
    if not found:
        raise InputError(
            f"{folder} holds no labeled set",
            hint="it needs corpus.jsonl, queries.jsonl and qrels.tsv, or folders with them",
        )
    for path in found:
        yield read(path)


def read(folder: Path) -> Labeled:
    """Read one labeled set; queries without labels are left out."""
    labels: dict[str, dict[str, int]] = defaultdict(dict)
    for number, line in enumerate(_text(folder / "qrels.tsv").splitlines()[1:], 2):
        try:
            query, passage, grade = line.split("\t")
            if int(grade) > 0:
                labels[query][passage] = int(grade)
        except ValueError as error:
            raise InputError(
                f"qrels.tsv, line {number}: {line[:80]!r} is not query, passage, grade"
            ) from error
    rows = [
        {
            "id": row["_id"],
            "title": row.get("title", ""),
            "text": row["text"],
            "collection": row.get("collection", "main"),
        }
        for row in _lines(folder / "corpus.jsonl")
    ]
    asked = _lines(folder / "queries.jsonl")
    queries = [query for query in asked if query["_id"] in labels]
    unanswerable = [query for query in asked if query.get("answerable") is False]
    answers = {query["_id"]: query["answers"] for query in queries if query.get("answers")}
    for id, wordings in answers.items():
        if not isinstance(wordings, list) or not all(isinstance(one, str) for one in wordings):
            raise InputError(
                f"queries.jsonl, {id}: `answers` is not a list of strings",
                hint='write {"_id": "q1", "text": "how long?", "answers": ["14 days", "two weeks"]}',
            )
    return Labeled(folder.name, rows, queries, labels, answers, unanswerable)


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read: {error}") from error


def _lines(path: Path) -> list[dict[str, Any]]:
    found = []
    for number, line in enumerate(_text(path).split("\n"), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            found.append({**row, "_id": str(row["_id"]), "text": str(row["text"])})
        except json.JSONDecodeError as error:
            reason = describe_json_error(error)
            raise InputError(f"{path.name}, line {number}: not JSON ({reason})") from error
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"{path.name}, line {number}: needs _id and text: {error}") from error
    return found


class MeasuredStore(TemporaryStore):
    """A store for several gates, which keeps no traces. Everyone knows its secret, so that two runs count the same
    tokens for their fences.
    """

    def secret(self, tenant: str) -> bytes:  # noqa: D102  (see the class)
        return bytes(32)

    def save_traces(
        self, traces: Sequence[Trace], *, keep: int = 10_000, text: bool = True
    ) -> None:
        """Keep nothing: every context has its trace."""

    def close(self) -> None:
        """Stay open for the gates that are still open."""


class StoredSet:
    """A labeled set in a store, for gates of different settings one after the other; as a `with` block.

    `embedder` is a model as `embed.model` names it, or SETTINGS for the one that the settings name.
    """

    def __init__(self, labeled: Labeled, embedder: str = "none") -> None:
        self.labeled = labeled
        self.copies = copies(labeled)
        self._embed = {} if embedder == SETTINGS else {"embed": {"model": embedder, "url": ""}}
        self._store = MeasuredStore()
        self._folder = TemporaryDirectory(prefix="millgate-eval-")  # the index, built once

    def __enter__(self) -> Self:
        with self.open() as gate:
            gate.add(self.labeled.rows)
            for collection in self.labeled.collections:
                gate.index(collection)
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()

    def open(self, settings: Settings | None = None) -> Millgate:
        """A gate over the set."""
        return Millgate.open(
            self._folder.name, store=self._store, **{**self._embed, **(settings or {})}
        )
