"""Which store a setting names, where its derived files belong, and what may be shown of it."""

import errno
import os
import sys
import tempfile
from pathlib import Path

import pytest

from millgate.errors import ConfigError, StoreError
from millgate.stores.open import _cache_folder, folder_of
from millgate.stores.sqlite.store import SqliteStore
from millgate.stores.url import hide_password, is_postgres


@pytest.mark.parametrize(("store", "folder"), [(":memory:", None), ("kb", "kb"), ("C:/data/kb", "C:/data/kb"), ("/srv/a:b", "/srv/a:b"), ("/srv/a:/b", "/srv/a:/b"), ("kb//a", "kb/a"), ("kb:2", "kb:2"), ("postgres/a", "postgres/a")])  # fmt: skip
def test_a_folder_is_named_by_its_path_and_a_drive_is_no_scheme(store, folder):
    assert folder_of(store) == (folder and Path(folder))


TEXT = "give the address as a text: postgresql://"


@pytest.mark.parametrize(
    ("store", "said", "hint"),
    [
        ("mysql://ann:s3cret@db", "no store here understands mysql", "name a folder"),
        ("https//ann:s3cret@db", "no store here understands https", "name a folder"),
        ("postgres:/ann:s3cret@db", "so it is no folder", TEXT),
        ("postgres//ann:s3cret@db", "store begins with postgres//", TEXT),
        ("postgresql:ann:s3cret@db", "store begins with postgresql:,", TEXT),
        ("POSTGRES://ann:s3cret@db", "so it is no folder", TEXT),
    ],
)
def test_an_address_is_not_a_folder_and_its_password_is_kept_quiet(store, said, hint):
    with pytest.raises(ConfigError, match=said) as raised:
        folder_of(store)
    assert hint in raised.value.hint
    assert "s3cret" not in str(raised.value)


def test_derived_files_belong_to_the_users_cache_or_else_to_temporary_files(monkeypatch, tmp_path):
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    assert _cache_folder() == tmp_path / ".cache" / "millgate"

    def nobody():
        raise RuntimeError("no home")

    monkeypatch.setattr(Path, "home", nobody)
    assert _cache_folder() == Path(tempfile.gettempdir()) / "millgate-cache"


@pytest.mark.parametrize(
    ("store", "shown"),
    [
        ("kb", "kb"),
        ("postgresql://ann:s3@cret@db:5/kb?x=1", "postgresql://ann@db:5/kb"),
        ("postgres://db/kb", "postgres://db/kb"),
    ],
)
def test_a_password_is_not_shown(store, shown):
    assert hide_password(store) == shown
    assert is_postgres(store) is (store != "kb")


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has other locks")
def test_a_file_system_without_locks_is_named_at_once(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("fcntl.lockf", refuse)
    with pytest.raises(StoreError, match="has no locks") as raised:
        SqliteStore(tmp_path / "kb")
    assert "NFS" in raised.value.hint
