"""Load: good lines are linked, bad ones told, and documents speak for themselves."""

import pytest

from millgate.errors import InputError
from millgate.knowledge import edges
from millgate.knowledge.edges import chunk_edges, document_edges, link_edges, read_edges
from millgate.stores.temporary import TemporaryStore
from millgate.types import Chunk, Edge


def lines(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return list(read_edges(path))


def test_a_csv_with_a_header_is_read(tmp_path):
    rows = lines(
        tmp_path, "e.csv", "\ufeffsubject,relation,object,weight\na,Depends On,b,0.5\n\nb,uses,c,\n"
    )
    assert rows == [
        Edge("a", "depends_on", "b", 0.5, "e.csv"),
        Edge("b", "uses", "c", 1.0, "e.csv"),
    ]


def test_a_long_cell_of_a_csv_costs_its_own_row_at_most(tmp_path):
    found = lines(tmp_path, "e.csv", f"a,uses,b\na,uses,{'x' * 200_000}\nb,uses,c\n")
    assert [line for line in found if isinstance(line, Edge)] == [
        Edge("a", "uses", "b", 1.0, "e.csv"),
        Edge("b", "uses", "c", 1.0, "e.csv"),
    ]


def test_a_csv_without_a_header_is_read_by_position(tmp_path):
    assert lines(tmp_path, "e.csv", 'a,uses,"b, c",0.3,notes\n') == [
        Edge("a", "uses", "b, c", 0.3, "notes")
    ]
    assert lines(tmp_path, "e.tsv", "a\tuses\tb\n") == [Edge("a", "uses", "b", 1.0, "e.tsv")]


def test_json_lines_are_read(tmp_path):
    rows = lines(
        tmp_path, "e.jsonl", '{"source":"a","predicate":"uses","target":"b","weight":0.25}\n'
    )
    assert rows == [Edge("a", "uses", "b", 0.25, "e.jsonl")]


@pytest.mark.parametrize(
    ("name", "line", "reason"),
    [
        ("e.csv", "a,uses\n", "e.csv:1: no target"),
        ("e.csv", "a,uses]-> x,b\n", "predicate"),
        ("e.csv", "a,uses,b,heavy\n", "could not convert"),
        ("e.csv", "a,uses,b,7\n", "weight is 7.0"),
        ("e.csv", "a,uses,b,nan\n", "weight is nan"),
        (
            "e.jsonl",
            "{nope\n",
            "e.jsonl:1: not JSON (unexpected character, expected a string key at column 2)",
        ),
        ("e.jsonl", "[1]\n", "not an object"),
        ("e.jsonl", '{"source":{"x":1},"predicate":"uses","target":"b"}\n', "no source"),
        ("e.jsonl", '{"source":"a","predicate":"uses","target":"b","weight":[1]}\n', "float"),
    ],
)
def test_a_bad_line_tells_why(tmp_path, name, line, reason):
    (row,) = lines(tmp_path, name, line)
    assert isinstance(row, str)
    assert reason in row


def test_a_file_that_is_not_utf8_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"not UTF-8: byte 0xe9.*iconv"):
        lines(tmp_path, "e.csv", b"a,uses,caf\xe9\n")
    with pytest.raises(InputError, match="not UTF-8"):
        lines(tmp_path, "e.jsonl", b"\xff\xfe{}")


def test_a_file_that_is_none_is_refused(tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        list(read_edges(tmp_path / "absent.csv"))
    with pytest.raises(InputError, match="not an edge file"):
        list(read_edges(tmp_path / "edges.xlsx"))


def test_nul_bytes_do_not_stop_a_csv(tmp_path):
    assert lines(tmp_path, "e.csv", "a\0,uses,b\n") == [Edge("a", "uses", "b", 1.0, "e.csv")]


def test_linking_counts_what_it_did(monkeypatch):
    monkeypatch.setattr(edges, "BATCH", 10)
    store = TemporaryStore()
    rows = [Edge("a", "uses", str(i)) for i in range(25)] + [f"bad {i}" for i in range(30)]
    result = link_edges(store, "t", iter(rows))
    assert (result.linked, result.skipped, len(result.reasons)) == (25, 30, 20)
    assert len(store.edges_touching("t", ["a"])) == 25


def triples(name, text):
    return [(e.source, e.predicate, e.target) for e in document_edges(name, text)]


def test_a_document_tells_its_headings():
    text = "# Setup\n\n## Linux\n\n```\n# no heading\n```\n\n## macOS ##\n# Use\n"
    assert triples("guide.md", text) == [
        ("guide.md#Setup", "part_of", "guide.md"),
        ("guide.md#Linux", "part_of", "guide.md#Setup"),
        ("guide.md#macOS", "part_of", "guide.md#Setup"),
        ("guide.md#Use", "part_of", "guide.md"),
    ]


def test_a_document_tells_its_links():
    text = (
        "See [a](./a.md#top), [b](../b.md 'title'), [[Wiki Page|text]], ![pic](p.png), [x](#here),\n"
        '[web](https://example.org/x?y=1) and <a href="c.html">c</a>, again [a](./a.md).'
    )
    assert triples("docs/in.md", text) == [
        ("docs/in.md", "links_to", "docs/a.md"),
        ("docs/in.md", "links_to", "b.md"),
        ("docs/in.md", "links_to", "Wiki Page"),
        ("docs/in.md", "links_to", "https://example.org/x?y=1"),
        ("docs/in.md", "links_to", "docs/c.html"),
    ]


@pytest.mark.parametrize(
    ("name", "link", "target"),
    [
        ("guide/in.md", "install.md", "guide/install.md"),
        ("guide/in.md", "./steps/one.md", "guide/steps/one.md"),
        ("guide/in.md", "../ref/api.md?raw=1#top", "ref/api.md"),
        ("guide/in.md", "../../../up.md", "up.md"),
        ("guide/in.md", "/ref/api.md", "ref/api.md"),
        ("guide/in.md", "two%20words.md", "guide/two words.md"),
        ("guide/in.md", "steps/", "guide/steps"),
        ("in.md", "install.md", "install.md"),
        ("/home/ann/in.md", "install.md", "/home/ann/install.md"),
        ("/home/ann/in.md", "/etc/motd.md", "/etc/motd.md"),
        ("https://a.org/guide/in", "install#top", "https://a.org/guide/install"),
        ("guide/in.md", "https://a.org/x", "https://a.org/x"),
    ],
)
def test_a_relative_link_is_resolved_against_the_folder_of_its_document(name, link, target):
    assert triples(name, f"See [this]({link}).") == [(name, "links_to", target)]


@pytest.mark.parametrize("link", ["#here", "mailto:ann@a.org", "tel:1", "javascript:x", "?q=1"])
def test_a_link_that_leads_to_no_document_is_no_edge(link):
    assert triples("guide/in.md", f"See [this]({link}).") == []


@pytest.mark.parametrize(
    ("name", "text", "modules"),
    [
        (
            "a.py",
            "import os, numpy as np\nfrom .x import y\n  import re\nimported = 1",
            ["os", "numpy", ".x", "re"],
        ),
        (
            "a.ts",
            "import { x } from 'lib'\nconst y = require(\"fs\")\nimport 'side'",
            ["lib", "fs", "side"],
        ),
        (
            "a.go",
            'import (\n\t"fmt"\n\tlog "github.com/x/log"\n)\nx := "no"',
            ["fmt", "github.com/x/log"],
        ),
        ("a.rs", "use std::io::Read;\npub use crate::x;", ["std::io::Read", "crate::x"]),
        ("a.java", "import static java.util.List;\nimport a.b.*;", ["java.util.List", "a.b"]),
        ("a.cpp", '#include <vector>\n#include "x.h"', ["vector", "x.h"]),
    ],
)
def test_code_tells_what_it_imports(name, text, modules):
    assert triples(name, text) == [(name, "depends_on", module) for module in modules]


def test_a_document_needs_a_name():
    with pytest.raises(InputError, match="name"):
        document_edges(" ", "# x")


@pytest.mark.parametrize("text", ["", "[" * 50_000, "](" * 50_000, "```\n" * 20_000, "#" * 50_000])
def test_hostile_text_ends(text):
    assert document_edges("a.md", text) == []


def test_stored_chunks_speak_for_their_documents():
    chunks = [
        Chunk("1", "# One", document="a.md"),
        Chunk("2", "## Two", document="a.md"),
        Chunk("3", "import re", document="b.py"),
        Chunk("4", "# loose"),
    ]
    found = [(e.source, e.predicate, e.target) for e in chunk_edges(chunks)]
    assert found == [
        ("a.md#One", "part_of", "a.md"),
        ("a.md#Two", "part_of", "a.md#One"),
        ("b.py", "depends_on", "re"),
    ]
