"""Fuzzing files: what is added, imported, restored or found on disk is read, skipped or refused with a reason."""

import json
import zlib
from contextlib import closing, suppress

import pytest
from tests.fuzz.cases import damage, encoded, fuzz, fuzz_slow, mutate, text, value

from millgate.errors import InputError, MillgateError, StoreError
from millgate.evaluate.regression import read_cases
from millgate.gateway import Millgate
from millgate.index.files import DamagedIndex
from millgate.index.folder import manifest_mark, manifest_seen, read_state
from millgate.index.merging import load_segment
from millgate.ingest import html
from millgate.ingest.child import ParserProcess
from millgate.ingest.decode import Undecodable, decode
from millgate.ingest.ignore import Ignore
from millgate.ingest.readers import read
from millgate.ingest.rows import Skip, Text
from millgate.ingest.walk import SourceFile
from millgate.integrations.mcp_clients import Entry, Place
from millgate.knowledge.admissibility import load as load_slice
from millgate.knowledge.edges import document_edges, read_edges
from millgate.operations.transfer import import_lines
from millgate.sessions.xray.page import page
from millgate.sessions.xray.session import analyze
from millgate.stores.stored_trace import unpack_trace
from millgate.stores.temporary import TemporaryStore

ROW = {"id": "a", "text": "t", "title": "x", "metadata": {"k": 1}, "collection": "main"}
SUFFIXES = [".csv", ".tsv", ".jsonl", ".json", ".md", ".html", ".txt", ".py", ".ndjson", ".ipynb"]
HTML = b"<html><head><title>t</title><script>x</script></head><body><h1>a</h1><p>b<table><tr><td>1</td></tr></table><pre>c</pre></body></html>"  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("fuzz")


def some_bytes(rng):
    """Text, JSON, a page, or neither."""
    kind = rng.randrange(4)
    if kind == 0:
        return rng.randbytes(rng.randrange(200))
    if kind == 1:
        return text(rng, 20).encode("utf-8", "surrogatepass")
    return damage(rng, HTML, 8) if kind == 2 else encoded(rng, ROW)


@pytest.fixture(scope="module")
def parser():
    with closing(ParserProcess()) as parser:
        yield parser


@fuzz
def test_any_file_is_read_or_skipped(folder, parser, rng):
    file = folder / f"file{rng.choice(SUFFIXES)}"
    file.write_bytes(b"\n".join(some_bytes(rng) for _ in range(rng.randrange(3))))
    source = SourceFile(file, file.name)
    for item in read(source, max_bytes=10_000, parser=parser):
        assert isinstance(item, Text | Skip)


@fuzz
def test_any_page_is_read(rng):
    with suppress(Undecodable):
        title, body = html.extract(decode(some_bytes(rng)))
        assert isinstance(title, str)
        assert isinstance(body, str)


@fuzz_slow
def test_any_bytes_can_be_added(gate, rng):
    gate.add_stream(some_bytes(rng), id="fuzzed", collection="fuzz")


@pytest.fixture(scope="module")
def gate():
    with Millgate.open(":memory:") as gate:
        yield gate


LINE = {"type": "assistant", "sessionId": "s", "uuid": "u", "timestamp": "2026-01-01T00:00:00Z", "message": {"role": "assistant", "model": "m", "content": [{"type": "text", "text": "hi"}, {"type": "tool_use", "id": "t", "name": "Read", "input": {"file_path": "/a"}}, {"type": "tool_result", "tool_use_id": "t", "content": "x"}], "usage": {"input_tokens": 1, "output_tokens": 2}}, "payload": {"type": "message", "content": [{"text": "x"}]}}  # fmt: skip


@fuzz_slow
def test_any_recorded_session_is_read(folder, rng):
    file = folder / "session.jsonl"
    file.write_bytes(b"\n".join(encoded(rng, LINE) for _ in range(rng.randrange(1, 4))))
    assert "<html" in page(analyze([file]))


EDGE = {"source": "a", "predicate": "uses", "target": "b", "weight": 1.0, "provenance": "p"}


@fuzz
def test_any_file_of_edges_is_read_or_refused(folder, rng):
    file = folder / f"edges{rng.choice(['.csv', '.tsv', '.jsonl'])}"
    lines = [encoded(rng, EDGE) if rng.random() < 0.5 else damage(rng, b"a,uses,b,1.0,p") for _ in range(3)]  # fmt: skip
    file.write_bytes(b"\n".join(lines))
    with suppress(InputError):
        list(read_edges(file))
    with suppress(InputError):
        document_edges(text(rng, 3), f"# {text(rng)}\n[a](./b) import os, sys\n{text(rng)}")


DOCUMENT = {"kind": "document", "tenant": "t", "value": {"id": "d", "collection": "main", "title": "T", "chunks": [{"id": "d#0", "text": "hi there", "document": "d", "collection": "main", "source": "document", "metadata": {"a": 1}}], "metadata": {}}}  # fmt: skip
FACT = {"kind": "fact", "tenant": "t", "value": {"id": "f", "content": "a fact", "trust": 0.5, "tags": ["x"], "created": 1.0, "updated": 1.0}}  # fmt: skip
REVIEW = {"kind": "review", "tenant": "t", "value": {"id": "r", "query": "q", "reason": "?", "status": "open", "created": 1.0}}  # fmt: skip


@fuzz
def test_any_import_is_taken_or_refused(rng):
    store = TemporaryStore()
    edge = {"kind": "edge", "tenant": "t", "value": EDGE}
    lines = [encoded(rng, rng.choice([DOCUMENT, FACT, REVIEW, edge])) for _ in range(3)]
    with suppress(MillgateError):
        import_lines(store, lines)


MANIFEST = {"format": 2, "mark": "m", "seen": 3, "kind": "", "complete": True, "segments": [{"file": "a.seg", "dead": "", "vectors": "", "near": ""}]}  # fmt: skip


@pytest.fixture(scope="module")
def saved_index(tmp_path_factory):
    """The bytes of a segment file that a store has written."""
    folder = tmp_path_factory.mktemp("store")
    with Millgate.open(folder) as gate:
        gate.add([{"id": f"d{n}", "text": f"Refunds of kind {n} are paid."} for n in range(1100)])
        gate.context("refunds")
    return next(folder.rglob("*.seg")).read_bytes()


@fuzz_slow
def test_any_index_is_opened_or_damaged(tmp_path_factory, saved_index, rng):
    folder = tmp_path_factory.getbasetemp()
    (folder / "manifest.json").write_bytes(encoded(rng, MANIFEST))
    (folder / "a.seg").write_bytes(damage(rng, saved_index) if rng.random() < 0.8 else saved_index)
    manifest_mark(folder), manifest_seen(folder)
    with suppress(DamagedIndex):
        state = read_state(folder)
        assert state is None or state.count >= 0
    with suppress(DamagedIndex):
        load_segment(folder / "a.seg")


@fuzz
def test_any_stored_trace_is_read_or_refused(rng):
    request = {"query": "q", "window": {"texts": ["w"]}, "collection": "main", "budget": 10}
    plan = {"skip": False, "tier": "full", "budget": 10, "strategy": "rag"}
    candidate = {"chunk": {"id": "c", "text": "t"}, "score": 0.5, "notes": [{"stage": "gate", "code": "fits", "fate": "keep"}]}  # fmt: skip
    trace = {"id": "t", "created": 1.0, "request": request, "plan": plan, "candidates": [candidate], "steps": [{"stage": "gate", "seconds": 0.1}]}  # fmt: skip
    body = zlib.compress(encoded(rng, {"trace": trace, "checksums": {"c": 1}}))
    with suppress(StoreError):
        unpack_trace(damage(rng, body) if rng.random() < 0.3 else body, lambda *_: ())


SLICE = {"id": "s", "anchor": "a", "policy_id": "p", "params_hash": "h", "snapshot_hash": "x", "turns": [{"id": "a", "text": "t"}], "edges": [["a", "b"]], "token": "0" * 32}  # fmt: skip


@fuzz
def test_any_slice_is_read_or_refused(rng):
    with suppress(InputError):
        made = load_slice(mutate(rng, SLICE, 0.05))
        assert made.consistent in (True, False)


@fuzz_slow
def test_any_ignore_file_is_read_or_refused(folder, rng):
    lines = [rng.choice(["*", "**/", "!a", "[a-", "a/*.py", "\\", text(rng, 3)]) for _ in range(4)]
    with suppress(InputError):
        found = Ignore.above(folder, lines, gitignore=False)
        found.leaves_out(folder / "a" / "b.py", is_folder=False)


@fuzz
def test_any_file_of_tests_is_read_or_refused(folder, rng):
    file = folder / "tests.toml"
    some = value(rng)
    line = f"question = {json.dumps(some)}\nmust = {json.dumps(value(rng))}\ntest = [1]\n"
    good = b'budget = 3\n[[test]]\nquestion = "q"\nmust = ["a"]\nrecorded.version = "1"\n'
    raw = damage(rng, good) if rng.random() < 0.7 else line.encode("utf-8", "surrogatepass")
    file.write_bytes(raw)
    with suppress(InputError):
        assert read_cases(file)


SERVERS = {"mcpServers": {"other": {"command": "x", "args": ["y"]}}, "more": [1]}


@fuzz_slow
def test_any_clients_file_is_edited_or_left_alone(folder, rng):
    raw, toml = encoded(rng, SERVERS), damage(rng, b'[mcp_servers.other]\ncommand = "x"\n[more]\na = 1\n')  # fmt: skip
    for written, name, key in ((raw, "some.json", "mcpServers"), (toml, "some.toml", "mcp_servers")):  # fmt: skip
        file = folder / name
        file.write_bytes(written)
        place, entry = Place("A client", file, key), Entry("millgate", "millgate")
        try:
            assert place.install(entry)
        except InputError:
            assert file.read_bytes() == written
            continue
        assert not place.install(entry)
        assert place.uninstall("millgate")
