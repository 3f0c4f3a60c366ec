"""Files of every kind, good and bad."""

import gzip
import json
from io import BytesIO

import pypdf
import pytest

from millgate.errors import InputError, NotFound
from millgate.gateway import Millgate
from millgate.ingest import child, tables
from millgate.ingest.decode import Undecodable
from millgate.ingest.files import add_files
from millgate.ingest.html import extract
from millgate.ingest.load import add_rows, add_stream
from millgate.ingest.office import read_pdf
from millgate.ingest.policy import IngestPolicy
from millgate.ingest.rows import Text
from millgate.ingest.walk import walk
from millgate.stores.temporary import TemporaryStore


@pytest.fixture
def store():
    store = TemporaryStore()
    yield store
    store.close()


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "docs"
    path.mkdir()
    return path


def pdf(text):
    """A small PDF with one page of text, written by hand."""
    content = f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET".encode()
    parts = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R"
        b" /Resources << /Font << /F1 5 0 R >> >> >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(content), content),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    out, spots = b"%PDF-1.4\n", []
    for number, part in enumerate(parts, 1):
        spots.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, part)
    table = b"".join(b"%010d 00000 n \n" % spot for spot in spots)
    return (
        out + b"xref\n0 6\n0000000000 65535 f \n" + table
        + b"trailer << /Size 6 /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF" % len(out)
    )  # fmt: skip


def titled(*pages, title):
    """A PDF of these pages with a title of its own."""
    writer = pypdf.PdfWriter()
    for page in pages:
        writer.append(BytesIO(page))
    writer.add_metadata({"/Title": title})
    out = BytesIO()
    writer.write(out)
    return out.getvalue()


def locked(data, password="secret"):
    writer = pypdf.PdfWriter(clone_from=BytesIO(data))
    writer.encrypt(password, algorithm="RC4-128")
    out = BytesIO()
    writer.write(out)
    return out.getvalue()


def texts(store, collection="main"):
    return {chunk.id: chunk.text for chunk in store.scan("t", collection)}


def add(store, folder, **options):
    return add_files(store, "t", [folder], root=folder.parent, **options)


GOOD = {
    "a.txt": (b"plain words", "plain words"),
    "b.md": (b"# Head\n\nbody", "# Head\n\nbody"),
    "c.py": (b"def f():\n    pass", "def f():\n    pass"),
    "d.html": (b"<title>T</title><h1>Hi</h1><p>there</p>", "# Hi\n\nthere"),
    "e.json": (b'{"name": {"deep": 1}}', '{"name": {"deep": 1}}'),
    "f.pdf": (pdf("Hello from a page"), "Hello from a page"),
    "g": (b"no suffix", "no suffix"),
    "h.txt": ("naïve café".encode("utf-16"), "naïve café"),
}


@pytest.mark.parametrize("name", GOOD)
def test_a_file_becomes_a_document(store, folder, name):
    data, text = GOOD[name]
    (folder / name).write_bytes(data)
    summary = add(store, folder)
    assert texts(store) == {f"docs/{name}": text}
    assert (summary.documents, summary.chunks, summary.skipped) == (1, 1, ())


BAD = {
    "a.bin": (b"\0\1\2\3", "binary"),
    "b.txt": (b"  \n", "empty"),
    "c.txt": ("日本語の文章です。".encode("shift_jis") * 20, "neither UTF-8"),
    "d.pdf": (b"%PDF-1.4 then rubbish", "broken PDF"),
    "e.pdf": (pdf(""), "without text"),
    "f.pdf": (locked(pdf("x")), "locked"),
    "g.json": (b'{"open": ', "JSON that cannot be read: unexpected end"),
    "h.html": (b"<script>only()</script>", "no text"),
    "i.jsonl": (b"", "empty"),
    "j.csv": (b"", "empty"),
    "k.txt": (b"x" * 200_000, "above the limit"),
    "l.jsonl": (b"\0\1\2\3", "binary"),
    "m.json": (b"[" * 100_000, "JSON that cannot be read: "),
}


def test_what_cannot_be_read_is_skipped_with_its_reason_and_the_rest_goes_on(store, folder):
    for name, (data, _) in BAD.items():
        (folder / name).write_bytes(data)
    (folder / "good.txt").write_text("good")
    (folder / "gone.txt").symlink_to("nowhere")
    summary = add(store, folder, policy=IngestPolicy(max_bytes=150_000))
    reasons = {skip.what: skip.reason for skip in summary.skipped}
    assert texts(store) == {"docs/good.txt": "good"}
    assert reasons.keys() == {f"docs/{name}" for name in [*BAD, "gone.txt"]}
    assert summary.skips == len(reasons)
    for name, (_, says) in BAD.items():
        assert says in reasons[f"docs/{name}"], name


def test_unchanged_files_are_left_alone_and_changed_ones_replaced(store, folder):
    (folder / "a.md").write_text("\n\n".join(f"## Part {n}\n\n{'word ' * 300}" for n in range(6)))
    (folder / "b.md").write_text("same")
    first = add(store, folder)
    assert first.documents == 2
    assert first.chunks == len(texts(store)) > 5
    head = store.head("t", "main")
    assert add(store, folder).unchanged == 2
    assert store.head("t", "main") == head
    (folder / "a.md").write_text("short now")
    again = add(store, folder)
    assert (again.documents, again.unchanged) == (1, 1)
    assert texts(store) == {"docs/a.md": "short now", "docs/b.md": "same"}


def test_another_chunk_policy_cuts_anew(store, folder):
    (folder / "a.md").write_text("word " * 900)
    add(store, folder)
    summary = add(store, folder, policy=IngestPolicy(chunk={"target": 100, "maximum": 100}))
    assert summary.documents == 1
    assert len(texts(store)) > 5


def test_headings_title_the_chunks_of_a_long_page(store, folder):
    (folder / "a.md").write_text(f"# Guide\n\n{'x ' * 700}\n\n## Refunds\n\n{'y ' * 3000}")
    add(store, folder)
    titles = {chunk.title for chunk in store.scan("t", "main")}
    assert titles == {"Guide", "Guide > Refunds"}


def test_positions_and_documents_are_recorded(store, folder):
    (folder / "a.txt").write_text("\n\n".join(f"{'word ' * 200}{n}" for n in range(9)))
    add(store, folder)
    chunks = list(store.scan("t", "main", document="docs/a.txt"))
    assert [chunk.position for chunk in chunks] == list(range(len(chunks)))
    assert [chunk.id for chunk in chunks] == [f"docs/a.txt#{n}" for n in range(len(chunks))]
    assert len(chunks) > 3


def test_hidden_and_machine_made_folders_are_passed_by(store, folder):
    for name in (".git/x.txt", "node_modules/x.js", "__pycache__/x.txt", ".env", "sub/y.txt"):
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("text")
    add(store, folder)
    assert list(texts(store)) == ["docs/sub/y.txt"]


def test_pruning_removes_what_is_gone_and_nothing_else(store, folder):
    for name in ("a.md", "b.md"):
        (folder / name).write_text(name)
    (folder / "t.csv").write_text("name\nann\nbob\n")
    add_rows(store, "t", [{"id": "docs/row.md", "text": "a row of its own"}])
    add(store, folder)
    (folder / "a.md").unlink()
    assert add(store, folder).removed == 0
    assert add(store, folder, prune=True).removed == 1
    assert set(texts(store)) == {"docs/b.md", "docs/row.md", "docs/t.csv:2", "docs/t.csv:3"}
    (folder / "t.csv").unlink()
    assert add(store, folder, prune=True).removed == 2


def test_a_table_that_shrank_loses_its_last_lines(store, folder):
    (folder / "t.csv").write_text("name\nann\nbob\n")
    add(store, folder)
    (folder / "t.csv").write_text("name\nann\n")
    assert add(store, folder).removed == 1
    assert texts(store) == {"docs/t.csv:2": "name: ann"}


def test_rows_with_their_own_ids_go_with_their_file_or_line_if_one_prunes(store, folder):
    for name in ("a", "b"):
        rows = [json.dumps({"id": f"{name}{n}", "text": f"text {n}"}) for n in range(2)]
        (folder / f"{name}.jsonl").write_text("\n".join(rows))
    add_stream(store, "t", b'{"text": "of a pipe"}\n{"id": "p", "text": "of a pipe too"}')
    add_rows(store, "t", [{"id": "c", "text": "of no file"}])
    add(store, folder)
    every = set(texts(store))
    (folder / "a.jsonl").unlink()
    (folder / "b.jsonl").write_text('{"id": "b1", "text": "text 1"}')
    assert add(store, folder).removed == 0
    assert add(store, folder, prune=True).removed == 3
    assert set(texts(store)) == every - {"a0", "a1", "b0"}
    assert add(store, folder.parent, prune=True).removed == 0


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("a.md", b"the password is swordfish", b" \n"),
        ("a.html", b"<p>the password is swordfish</p>", b"<p></p>"),
        ("t.csv", b"name\nann\nbob\n", b""),
        ("t.csv", b"name\nann\nbob\n", b"name\n"),
        ("r.json", b'[{"text": "one"}, {"text": "two"}]', b""),
    ],
)
def test_a_file_that_is_empty_now_is_empty_in_the_store(store, folder, name, before, after):
    (folder / name).write_bytes(before)
    (folder / "other.md").write_text("stays")
    add(store, folder)
    (folder / name).write_bytes(after)
    held = len(texts(store)) - 1
    summary = add(store, folder)
    assert (summary.removed, texts(store)) == (held, {"docs/other.md": "stays"})


def test_a_list_of_rows_that_is_one_text_now_loses_its_rows(store, folder):
    (folder / "r.json").write_text('[{"text": "one"}, {"text": "two"}]')
    add(store, folder)
    (folder / "r.json").write_text('{"a": "b"}')
    assert add(store, folder).removed == 2
    assert texts(store) == {"docs/r.json": '{"a": "b"}'}


def test_a_file_that_cannot_be_read_any_more_keeps_its_text_and_that_is_said(store, folder):
    (folder / "a.json").write_text('{"walrus": "lives in Nome"}')
    add(store, folder)
    (folder / "a.json").write_text('{"walrus": "lives')
    assert "docs/a.json" in texts(store)
    (skip,) = add(store, folder, prune=True).skipped
    assert skip.reason.endswith("; the store keeps its former text")
    assert "docs/a.json" in texts(store)


def test_json_lines_are_rows(store, folder):
    rows = [
        {"_id": "a", "title": "T", "text": "one", "collection": "c", "metadata": {"k": 1}, "x": 2},
        {"id": 7, "content": "two"},
        {"text": "three"},
    ]
    (folder / "r.jsonl").write_text("\ufeff" + "\n\n".join(json.dumps(row) for row in rows))
    assert add(store, folder).documents == 3
    (one,) = store.scan("t", "c")
    assert (one.id, one.title, one.metadata) == ("a", "T", {"k": 1, "x": 2})
    assert texts(store) == {"7": "two", "docs/r.jsonl:5": "three"}


def test_json_that_would_take_far_more_memory_than_bytes_is_not_parsed(store, folder):
    (folder / "bomb.json").write_bytes(b"[" + b"[]," * 3_000_000 + b"[]]")
    (folder / "deep.json").write_bytes(
        b'{"text": "one", "metadata": {"a": ' + b"[" * 300 + b"]" * 300 + b"}}"
    )
    told = add(store, folder)
    assert {skip.what: skip.reason.partition(" than ")[0] for skip in told.skipped} == {
        "docs/bomb.json": "JSON that cannot be read: it holds more",
        "docs/deep.json": "JSON that cannot be read: it is nested deeper",
    }


def test_a_json_file_may_hold_more_than_a_body():
    (whole,) = tables.json_rows(b"[" + b"1," * 1_000_000 + b"1]", "numbers.json")
    assert (type(whole), whole.size) == (Text, 2_000_003)


@pytest.mark.parametrize("suffix", ["jsonl", "ndjson"])
def test_a_bad_line_costs_only_itself(store, folder, suffix):
    lines = [
        '{"id": "a", "text": "one"}',
        "{broken",
        "[1]",
        '{"id": "b"}',
        '{"id": [], "text": "x"}',
    ]
    lines += ['{"id": "c", "text": "two", "metadata": 3}', '{"id": "z", "text": "last"}']
    (folder / f"r.{suffix}").write_text("\n".join(lines))
    summary = add(store, folder)
    assert texts(store) == {"a": "one", "z": "last"}
    assert [skip.what.rpartition(":")[2] for skip in summary.skipped] == ["2", "3", "4", "5", "6"]


def test_a_json_list_of_rows_is_rows(store, folder):
    (folder / "r.json").write_text(json.dumps([{"id": "a", "text": "one"}, {"text": "two"}]))
    add(store, folder)
    assert texts(store) == {"a": "one", "docs/r.json:2": "two"}


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ("id,text\na,one\nb,two\n", {"a": "one", "b": "two"}),
        ("name;age\nann;3\n", {"docs/t.csv:2": "name: ann\nage: 3"}),
        ('id\ttitle\ttext\nx\tT\t"two\nlines"\n\n', {"x": "two\nlines"}),
        (",name,name\n0,ann,bob\n", {"docs/t.csv:2": "column 1: 0\nname: ann\nname 3: bob"}),
        ("a,a 3,a\n1,2,3\n", {"docs/t.csv:2": "a: 1\na 3: 2\na 3 3: 3"}),
        (",,\nname,age,\n,,\nann,3,\n", {"docs/t.csv:4": "name: ann\nage: 3"}),
    ],
)
def test_csv_lines_are_rows(store, folder, table, expected):
    (folder / "t.csv").write_text(table)
    add(store, folder)
    assert texts(store) == expected


@pytest.mark.parametrize(
    ("head", "middle"),
    [("id,text", 'b,"{}"'), ("id,note", 'b,"{}"'), ("id,text", "b,{}")],
    ids=["text", "column", "without quotes"],
)
def test_a_huge_cell_costs_neither_its_row_nor_those_after_it(store, folder, head, middle):
    huge = " ".join(f"word{n}" for n in range(110_000))
    assert len(huge) > 1_000_000
    table = "\n".join([head, "a,one", middle.format(huge), "c,three", ""])
    (folder / "t.csv").write_text(table)
    summary = add(store, folder)
    assert not summary.skipped
    joined = dict.fromkeys("abc", "")
    for chunk in store.scan("t", "main"):
        joined[chunk.document] += f" {chunk.text}"
    assert joined["b"].split()[-110_000:] == huge.split()
    assert joined["a"].endswith("one")
    assert joined["c"].endswith("three")
    add_rows(store, "t", [{"id": "b", "text": huge}, {"id": "d", "text": "four"}])
    assert set(store.digests("t", "main")) == {*"abcd"}


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        ("name,age\n", "a table without rows"),
        (",,\n,,\n", "a table without rows"),
        ("a," * 200_000 + "\n1,2\n", "more than 100,000 columns"),
    ],
)
def test_a_table_that_gives_no_rows_says_so(store, folder, table, reason):
    (folder / "t.csv").write_text(table)
    assert [skip.reason for skip in add(store, folder).skipped] == [reason]


def test_cells_beyond_the_last_column_belong_to_it(store, folder):
    (folder / "t.csv").write_text('id,text\na,one, two, three\nb,four,\nc,"five,"\n')
    add(store, folder)
    assert texts(store) == {"a": "one, two, three", "b": "four", "c": "five,"}


def test_western_csv_is_read(store, folder):
    (folder / "t.csv").write_bytes("id,text\na,café\n".encode("cp1252"))
    add(store, folder)
    assert texts(store) == {"a": "café"}


def test_of_two_rows_with_one_id_the_later_stands_and_it_is_said(store):
    rows = [{"id": "a", "text": "one"}, {"id": "b", "text": "x"}, {"id": "a", "text": "two"}]
    summary = add_rows(store, "t", rows)
    assert texts(store) == {"b": "x", "a": "two"}
    assert [(skip.what, "before" in skip.reason) for skip in summary.skipped] == [("a", True)]


def test_a_clash_costs_only_the_document_that_makes_it(store):
    long = "word " * 2000
    rows = [{"id": "a#1", "text": "mine"}, {"id": "a", "text": long}, {"id": "b", "text": "good"}]
    summary = add_rows(store, "t", rows)
    assert texts(store) == {"a#1": "mine", "b": "good"}
    assert "both claim" in summary.skipped[0].reason


@pytest.mark.parametrize(
    "row", [3, {"id": "a"}, {"id": True, "text": "x"}, {"text": "x", "title": 1}]
)
def test_a_bad_row_names_its_number(store, row):
    with pytest.raises(InputError, match="row 1"):
        add_rows(store, "t", [{"id": "ok", "text": "fine"}, row])
    assert texts(store) == {"ok": "fine"}


def test_a_row_without_an_id_gets_one_from_its_text(store):
    add_rows(store, "t", [{"text": "same"}])
    summary = add_rows(store, "t", [{"text": "same"}])
    assert summary.unchanged == 1


def test_a_path_that_is_not_there_is_an_error(store, tmp_path):
    with pytest.raises(NotFound, match="no file or folder"):
        add_files(store, "t", [tmp_path / "nothing"])


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"just words", {"stdin": "just words"}),
        (b'{"id": "a", "text": "one"}\n{"id": "b", "text": "two"}', {"a": "one", "b": "two"}),
        (b'{"not": "a row"}', {"stdin": '{"not": "a row"}'}),
        (b"", {}),
        (b"\0\1", {}),
    ],
)
def test_a_pipe_is_rows_or_one_text(store, data, expected):
    summary = add_stream(store, "t", data)
    assert texts(store) == expected
    assert bool(summary.skips) == (not expected)


def test_progress_reaches_its_total(store, folder):
    for n in range(5):
        (folder / f"{n}.txt").write_text("word " * 100)
    seen = []
    add(
        store,
        folder,
        policy=IngestPolicy(batch_documents=2),
        on_progress=lambda p: seen.append(p.bytes),
    )
    assert seen == sorted(seen)
    assert seen[-1] == 5 * 500


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("<p>a<![😀]7>b", "ab"),
        ("<p>a<![if !IE]>b<![endif]>c", "abc"),
        ("<p>a<![😀", "a<![😀"),
        ("<p>1 < 2 &amp; 3", "1 < 2 & 3"),
        ("<p>open <a href=", "open <a href="),
    ],
)
def test_a_section_that_html_does_not_know_and_an_unfinished_tag_are_no_errors(page, text):
    assert extract(page) == ("", text)


def test_html_keeps_shape_and_drops_scripts():
    page = """<html><head><title> A  page </title><style>x</style></head><body><nav>menu</nav>
    <h2>List</h2><ul><li>one<li>two</ul><pre>a\n  b</pre>
    <table><tr><th>k</th><td>v</td></tr></table><script>bad()</script>&lt;end&gt;</body></html>"""
    title, text = extract(page)
    assert title == "A page"
    assert text.split("\n\n") == [
        "## List",
        "- one\n- two",
        "```\na\n  b\n```",
        "| k | v |",
        "<end>",
    ]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_a_bad_line_is_named_by_its_number_in_the_file_and_its_column(store, folder, encoding):
    row = json.dumps({"text": "one\u2028two"}, ensure_ascii=False)
    (folder / "rows.jsonl").write_bytes(f'{row}\n\n{{"text": 1\n'.encode(encoding))
    (skip,) = add(store, folder).skipped
    assert texts(store) == {"docs/rows.jsonl:1": "one\u2028two"}
    assert skip.what == "docs/rows.jsonl:3"
    assert skip.reason.startswith("not valid JSON: unexpected end of data at column 1")


@pytest.mark.parametrize(
    ("limits", "batches"),
    [
        ({"batch_documents": 2}, [2, 4, 5]),
        ({"batch_bytes": 300}, [3, 5]),
        ({"batch_bytes": 301}, [4, 5]),
        ({"batch_bytes": 300, "batch_documents": 2}, [2, 4, 5]),
    ],
)
def test_a_batch_is_written_as_soon_as_it_has_enough_documents_or_text(store, limits, batches):
    seen = []
    rows = [{"id": str(n), "text": "x" * 100} for n in range(5)]
    policy = IngestPolicy(**limits)
    add_rows(store, "t", rows, policy=policy, on_progress=lambda p: seen.append(p.documents))
    assert seen == batches


def test_a_pdf_gives_its_title_and_its_pages_with_a_blank_line_between_them():
    data = titled(pdf("One"), pdf("Two"), title=" A report ")
    assert read_pdf(data) == ("A report", "One\n\nTwo")
    assert read_pdf(pdf("One")) == ("", "One")


def test_a_pdf_whose_password_is_empty_is_read():
    assert read_pdf(locked(pdf("One"), password="")) == ("", "One")
    with pytest.raises(Undecodable, match="locked"):
        read_pdf(locked(titled(pdf("One"), title="A report")))


def test_a_file_that_holds_more_text_than_is_kept_says_so(monkeypatch):
    monkeypatch.setattr(child, "MAX_TEXT", 5)
    assert child._answer("html", b"<title>T</title><p>words</p>") == {"title": "T", "text": "words"}
    assert "more than 5 characters" in child._answer("html", b"<p>words.</p>")["reason"]
    assert child._answer("pdf", b"no PDF")["reason"].startswith("broken PDF")


def test_a_file_has_one_id_from_wherever_it_is_named(tmp_path, monkeypatch):
    (tmp_path / "notes").mkdir()
    (tmp_path / "work").mkdir()
    (tmp_path / "notes" / "a.md").write_text("A note.")
    monkeypatch.chdir(tmp_path / "work")
    elsewhere = tmp_path / "kb"
    ids = {file.id for name in ("../notes", tmp_path / "notes") for file in walk([name], root=elsewhere)}  # fmt: skip
    assert ids == {(tmp_path / "notes" / "a.md").as_posix()}


def test_a_line_of_a_chat_that_is_not_json_is_told(tmp_path):
    said = '{"messages": [{"role": "user", "content": "Hello there, how are you?"}]}'
    (tmp_path / "chat.jsonl").write_text(f"{said}\nchanged\n")
    with Millgate.open(":memory:") as gate:
        told = gate.add_files(tmp_path / "chat.jsonl")
    assert told.documents == 1
    assert [skip.reason for skip in told.skipped] == ["not valid JSON"]


@pytest.mark.parametrize("name", ["changelog.gz", "guide.md.gz", "page.html.gz"])
def test_a_compressed_file_is_read_as_what_it_was(store, folder, name):
    (folder / name).write_bytes(gzip.compress(b"<p>Boats float on the harbor."))
    assert add_files(store, "t", [folder]).documents == 1
    (chunk,) = store.scan("t", "main")
    assert "Boats float" in chunk.text


def test_a_compressed_file_that_cannot_be_read_says_why(store, folder):
    (folder / "a.gz").write_bytes(b"no gzip")
    (folder / "b.gz").write_bytes(gzip.compress(b"boats" * 1000)[:-20])
    (folder / "c.jsonl.gz").write_bytes(gzip.compress(b"{}"))
    (folder / "d.gz").write_bytes(gzip.compress(b"boats " * 1_000_000))
    made = add_files(store, "t", [folder], policy=IngestPolicy(max_bytes=1_000_000))
    why = {skip.what.rpartition("/")[2]: skip.reason for skip in made.skipped}
    assert why["a.gz"].startswith("damaged:")
    assert why["b.gz"].startswith("damaged:")
    assert "unpack it" in why["c.jsonl.gz"]
    assert "once unpacked" in why["d.gz"]
