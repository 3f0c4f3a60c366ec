"""Labeled sets: texts, questions about them, and which texts answer each.

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
from typing import Any

from millgate.errors import InputError
from millgate.text.bounded_json import describe_json_error
from millgate.text.words import tokens

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


def sample(labeled: Labeled, most: int | None) -> Labeled:
    """The set with at most this many of its questions, the same in every run."""
    queries, unanswerable = (
        _draw(asked, most, labeled.name) for asked in (labeled.queries, labeled.unanswerable)
    )
    return replace(labeled, queries=queries, unanswerable=unanswerable)


def _draw(queries: Sequence[Query], most: int | None, seed: str) -> Sequence[Query]:
    if most is None or most >= len(queries):
        return queries
    return random.Random(seed).sample(queries, most)  # noqa: S311  no secret


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
    answers = {query["_id"]: _answers(query) for query in queries if query.get("answers")}
    return Labeled(folder.name, rows, queries, labels, answers, unanswerable)


def _answers(query: Mapping[str, Any]) -> list[str]:
    answers = query["answers"]
    if not isinstance(answers, list) or not all(isinstance(one, str) for one in answers):
        raise InputError(
            f"queries.jsonl, {query['_id']}: `answers` is not a list of strings",
            hint='write {"_id": "q1", "text": "how long?", "answers": ["14 days", "two weeks"]}',
        )
    return answers


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
