"""The examples in docstrings of what users call: each runs."""

import inspect
import io
import re
import sys

import pytest

from millgate import Millgate
from millgate.keys import Keys
from millgate.knowledge.facts import Facts
from millgate.knowledge.graph import Graph
from millgate.knowledge.review import ReviewQueue
from millgate.spending.spending import Spending
from millgate.types import Amount, Edge, Request

INLINE = re.compile(r"For example: `([^`]+)`")
BLOCK = re.compile(r"(?:^|\n)((?: {4}[^\n]+\n?)+)")
QUERY = "how do refunds work?"


def examples():
    for owner in (Millgate, Facts, Graph, ReviewQueue, Keys, Spending):
        for name, method in inspect.getmembers(owner, inspect.isfunction):
            doc = inspect.getdoc(method) or ""
            if name.startswith("_") or inspect.iscoroutinefunction(method):
                continue
            for code in (*INLINE.findall(doc), *BLOCK.findall(doc)):
                yield pytest.param(owner, inspect.cleandoc(code), id=f"{owner.__name__}.{name}")


@pytest.fixture
def names(tmp_path, monkeypatch):
    """What examples speak of: a filled gate, and ids of what it holds."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("Refunds take five days.")
    (tmp_path / "notes.md").write_text("Notes on refunds.")
    (tmp_path / "services.csv").write_text("source,predicate,target\nfalcon,uses,redis\n")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"Version 2 is out.")))
    fuse = {"caps": {"session": {"tokens": 1000}}}
    with Millgate.open(tmp_path / "kb", fuse=fuse, review={"on_refusal": True}) as gate:
        gate.add([{"id": "policy", "text": "Refunds are paid within 14 days to the card."}])
        gate.add([{"id": "other", "text": "Parcels leave at noon."}], collection="drafts")
        gate.add_turns("talk", [{"role": "user", "content": f"turn {n}"} for n in range(9)])
        gate.spending.settle(gate.spending.hold("session-7", "", Amount(10)), Amount(10))
        hits = [gate.recall("ferry")[0]] if gate.remember("Ada runs the ferry.") else []
        minted, messages = gate.keys.create(), [{"role": "user", "content": "hello"}]
        turn = next(chunk.id for chunk in gate.store.scan("default", "turns"))
        refused = gate.context("who painted the ceiling of the chapel in Rome?")
        context = gate.context(QUERY)
        ids = {Facts: hits[0].fact.id, ReviewQueue: refused.review, Keys: minted.key.id}
        yield {
            "gate": gate, "hits": hits, "token": minted.token, "messages": messages, "ids": ids,
            "context": context, "refused": refused, "turn": turn, "sys": sys,
            "Edge": Edge, "Millgate": Millgate, "Request": Request,
            "slice": gate.graph.cut_slice(turn),
        }  # fmt: skip


@pytest.mark.parametrize(("owner", "code"), list(examples()))
def test_the_example_runs(names, owner, code):
    names["id"] = names["ids"].get(owner, names["context"].trace.id)
    if owner is ReviewQueue:
        names["context"] = names["refused"]
    exec(compile(code.replace("turn-7", names["turn"]), "docstring", "exec"), names)
