"""Files made to be slow, large or to lead elsewhere cost a line in the report and nothing else."""

import os
import subprocess
import sys
import time
from contextlib import closing

import pytest
from tests.waiting import MOST_S

from millgate.errors import LimitError
from millgate.gateway import Millgate
from millgate.ingest import child, html
from millgate.ingest.decode import Undecodable
from millgate.ingest.walk import walk
from millgate.settings import Settings


@pytest.fixture
def gate():
    with Millgate.open(settings=Settings(store=":memory:")) as gate:
        yield gate


def test_links_out_of_the_folder_are_left_alone(tmp_path, gate):
    (tmp_path / "secret.txt").write_text("root:x:0:0")
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "real.md").write_text("Parcels are sent by rail.")
    (docs / "users.txt").symlink_to(tmp_path / "secret.txt")
    (docs / "same.md").symlink_to(docs / "real.md")
    made = gate.add_files(docs)
    assert [skip.reason for skip in made.skipped] == ["a link to a place outside the folder"]
    assert made.documents == 2


def test_a_link_to_itself_is_one_skipped_file(tmp_path, gate):
    (tmp_path / "real.md").write_text("Parcels are sent by rail.")
    (tmp_path / "loop.md").symlink_to(tmp_path / "loop.md")
    made = gate.add_files(tmp_path)
    assert (made.documents, made.skips) == (1, 1)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes in a folder")
def test_patterns_in_a_pipe_are_not_waited_for(tmp_path, gate):
    (tmp_path / "real.md").write_text("Parcels are sent by rail.")
    os.mkfifo(tmp_path / ".gitignore")
    assert gate.add_files(tmp_path).documents == 1


def test_a_store_named_by_a_link_to_itself_is_no_reason_to_fail_a_walk(tmp_path):
    (tmp_path / "real.md").write_text("Parcels are sent by rail.")
    (tmp_path / "kb").symlink_to(tmp_path / "kb")
    found = walk([tmp_path / "real.md"], store=tmp_path / "kb")
    assert [file.path.name for file in found] == ["real.md"]


@pytest.mark.parametrize(
    "page",
    ["<svg>" * 60_000 + "</object>" * 60_000, "<!--" * 100_000, "<a" * 200_000, "</a" * 150_000],
    ids=["svg", "comment", "tag", "end"],
)
def test_a_page_made_to_be_slow_is_read_or_skipped_within_its_time(
    tmp_path, gate, page, monkeypatch
):
    monkeypatch.setattr(child, "WALL_S", 5)
    (tmp_path / "page.html").write_text(page)
    start = time.process_time()
    made = gate.add_files(tmp_path)
    assert made.documents + made.skips == 1
    assert time.process_time() - start < 5  # our own time; the child has its limit


def test_what_is_silent_ends_with_its_own_tag():
    page = "<p>one</p><svg><svg>x</svg>y</svg><p>two</p><script>z</script></svg><p>three</p>"
    assert html.extract(page)[1].split() == ["one", "two", "three"]


def test_a_child_that_takes_too_long_is_ended(monkeypatch):
    monkeypatch.setattr(child, "WALL_S", 0.01)
    with closing(child.ParserProcess()) as parser, pytest.raises(Undecodable, match="took longer"):
        parser.extract("html", b"<p>hello</p>" * 10_000)


def read_in_a_child(reader):
    """What a child does that takes files apart with this reader and may use a second."""
    code = (
        "from millgate.ingest import child, html\n"
        f"def extract(text):\n    {reader}\n"
        "html.extract, child.cpu_seconds = extract, lambda size: 1\n"
        "child.main()"
    )
    command = [sys.executable, "-c", code]
    asked = b"html 1\nx" * 2
    return subprocess.run(command, input=asked, capture_output=True, timeout=MOST_S, check=False)


def test_a_child_that_takes_too_much_memory_says_so():
    done = read_in_a_child("return '', bytes(2 * child.MEMORY_BYTES)")
    assert done.stdout.count(b'{"reason":"took more than 1024 MB to read"}') == 2


def test_a_child_that_takes_too_much_time_is_ended_by_the_system():
    assert read_in_a_child("while True: pass").returncode < 0


@pytest.mark.slow
def test_each_file_has_its_own_time():
    # each takes more than half of the second that one file may take
    done = read_in_a_child(
        "import time; end = time.process_time() + 0.6\n"
        "    while time.process_time() < end: pass\n"
        "    return '', 'read'"
    )
    assert done.stdout.count(b'"text":"read"') == 2


def test_what_a_parser_prints_is_no_answer():
    assert read_in_a_child("print('x' * 100); return '', 'read'").stdout.count(b"read") == 2


def test_a_process_is_kept_for_many_files_and_a_new_one_follows_one_that_died(monkeypatch):
    with closing(child.ParserProcess()) as parser:
        parser.extract("html", b"<p>one</p>")
        first = parser._process
        parser.extract("html", b"<p>two</p>")
        assert parser._process is first
        first.kill()
        with pytest.raises(Undecodable, match="took more than"):
            parser.extract("html", b"<p>three</p>")
        assert parser.extract("html", b"<p>four</p>") == ("", "four")
        monkeypatch.setattr(child, "MOST_FILES", 1)
        second = parser._process
        parser.extract("html", b"<p>five</p>")
        assert parser._process is not second
    assert first.poll() is not None
    assert second.poll() is not None


def test_a_child_gives_title_and_text_and_reasons():
    with closing(child.ParserProcess()) as parser:
        assert parser.extract("html", b"<title>T</title><p>hello</p>") == ("T", "hello")
        with pytest.raises(Undecodable, match="broken PDF"):
            parser.extract("pdf", b"%PDF-1.4 nonsense")


def test_titles_and_metadata_are_bounded(gate):
    with pytest.raises(LimitError, match="title"):
        gate.add([{"id": "a", "text": "x", "title": "t" * 501}])
    with pytest.raises(LimitError, match="metadata"):
        gate.add([{"id": "a", "text": "x", "metadata": {"m": "x" * 20_000}}])
    gate.add([{"id": "a", "text": "x", "title": "t" * 500, "metadata": {"m": "x" * 16_000}}])


def test_a_long_heading_does_not_grow_with_every_chunk(tmp_path, gate):
    (tmp_path / "long.md").write_text(
        "# " + "word " * 20_000 + "\n\n" + "A line of text.\n\n" * 2_000
    )
    gate.add_files(tmp_path)
    chunks = list(gate.store.scan("default", "main"))
    assert max(len(chunk.title) for chunk in chunks) <= 500


@pytest.mark.parametrize("id", ["a\nb", "a\0b", "a\x1bb", "a\u2028b", "\x7f"])
def test_an_id_that_cannot_stand_in_an_address_is_refused(gate, id):
    made = gate.add([{"id": id, "text": "x"}])
    assert (made.documents, made.skips) == (0, 1)
    assert "control character" in made.skipped[0].reason


def test_a_small_file_may_take_less_time_than_a_large_one():
    assert child.cpu_seconds(0) == child.LEAST_CPU_S
    assert child.cpu_seconds(1_000_000) == child.LEAST_CPU_S + child.CPU_S_PER_MB
    assert child.cpu_seconds(100_000_000) == child.MOST_CPU_S
