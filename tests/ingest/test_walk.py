"""Which files of a folder are taken, and under which id."""

from pathlib import Path

import pytest

from millgate import Millgate
from millgate.ingest.readers import SourceFile
from millgate.ingest.rows import Skip
from millgate.ingest.walk import walk


def ids(*paths, **options):
    return {one.id for one in walk(paths, **options) if isinstance(one, SourceFile)}


@pytest.fixture
def repository(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".git").mkdir()
    for name in ("a.md", "b.log", "keep.log", "out/c.md", "sub/d.md", "sub/e.tmp", "sub/out/f.md"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    (tmp_path / ".gitignore").write_text("*.log\n!keep.log\n/out/\n")
    (tmp_path / "sub" / ".gitignore").write_text("*.tmp\n")
    return tmp_path


def test_what_gitignore_names_is_left_out(repository):
    assert ids(".") == {"a.md", "keep.log", "sub/d.md", "sub/out/f.md"}


def test_the_rules_of_the_folders_above_hold_too(repository):
    (repository / "sub" / "g.log").write_text("log")
    assert ids("sub") == {"sub/d.md", "sub/out/f.md"}


def test_the_deepest_rule_decides(repository):
    (repository / "sub" / ".gitignore").write_text("!g.log\n")
    (repository / "sub" / "g.log").write_text("log")
    assert "sub/g.log" in ids(".")


def test_gitignore_can_be_switched_off(repository):
    assert {"b.log", "out/c.md", "sub/e.tmp"} <= ids(".", gitignore=False)


def test_patterns_of_the_caller_go_before_all(repository):
    assert ids(".", exclude=["sub/", "keep.*"]) == {"a.md"}
    assert ids("sub", exclude=["/out"]) == {"sub/d.md"}


def test_a_file_that_is_named_is_taken_though_it_is_ignored(repository):
    assert ids("b.log") == {"b.log"}


def test_a_folder_that_is_named_is_taken_though_it_is_ignored(repository):
    assert ids("out") == {"out/c.md"}
    (repository / "out" / ".gitignore").write_text("c.*\n")
    (repository / "out" / "d.md").write_text("d")
    assert ids("out") == {"out/d.md"}


def test_a_folder_without_files_is_told(repository):
    (repository / "new").mkdir()
    (repository / "new" / ".hidden").write_text("hidden")
    (skip,) = walk(["new"])
    assert skip == Skip("new", "no files in it but hidden or ignored ones")


def test_the_store_is_never_read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.md").write_text("Parcels leave at noon.")
    with Millgate.open("kb") as gate:
        gate.add_files(".")
        (tmp_path / "kb" / "notes.txt").write_text("inside the store")
        again = gate.add_files(".", "kb", "kb/notes.txt")
        assert again.documents == 0
        assert {skip.reason for skip in again.skipped} == {"part of the store itself"}
        assert set(gate.store.digests("default", "main")) == {"a.md"}


def test_a_file_has_one_id_from_every_working_folder(tmp_path, monkeypatch):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("Parcels leave at noon.")
    for here, named in (
        (tmp_path, "docs"),
        (tmp_path / "docs", "a.md"),
        (tmp_path.parent, tmp_path),
    ):
        monkeypatch.chdir(here)
        with Millgate.open(tmp_path / "kb") as gate:
            gate.add_files(named)
            assert set(gate.store.digests("default", "main")) == {"docs/a.md"}


def test_generated_files_are_skipped_with_their_reason(tmp_path):
    page = tmp_path / "html"
    (page / "_sources").mkdir(parents=True)
    written = {"app.py": "x = 1\n", "html/a.html": "<p>a", "plain.js": "let a = 1\n" * 200}
    made = {
        "uv.lock": "x",
        "html/searchindex.js": "Search.setIndex({})",
        "a.min.css": "a{}",
        "bundle.js": "a=1;" * 500,
    }
    for name, text in (written | made).items():
        (tmp_path / name).write_text(text)
    (page / "_sources" / "a.rst.txt").write_text("a")
    found = list(walk([tmp_path], root=tmp_path))
    assert {one.id for one in found if isinstance(one, SourceFile)} == written.keys()
    skipped = {one.what: one.reason for one in found if isinstance(one, Skip)}
    assert skipped.keys() == made.keys() | {"html/_sources"}
    assert "name the file itself" in skipped["bundle.js"]
    assert ids(tmp_path / "bundle.js", root=tmp_path) == {"bundle.js"}


def test_sources_that_stand_beside_no_pages_are_taken(tmp_path):
    (tmp_path / "_sources").mkdir()
    (tmp_path / "_sources" / "a.md").write_text("a")
    assert ids(tmp_path, root=tmp_path) == {"_sources/a.md"}


def test_a_path_that_may_not_be_looked_at_is_told_and_the_others_go_on(tmp_path, monkeypatch):
    (tmp_path / "a.md").write_text("a")
    stat = Path.stat

    def refuse(self, **options):
        if "locked" in self.parts:
            raise PermissionError(13, "Permission denied", str(self))
        return stat(self, **options)

    monkeypatch.setattr(Path, "stat", refuse)
    found = list(walk([tmp_path / "locked" / "b", tmp_path / "a.md"], root=tmp_path))
    assert found[0] == Skip("locked/b", "cannot be read: Permission denied")
    assert found[1].id == "a.md"
