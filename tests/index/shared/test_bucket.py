"""Indexes that gateways share through a bucket, on a real S3-compatible server on loopback."""

import multiprocessing
import os
import socket
import sys
from datetime import timedelta
from urllib.request import Request, urlopen

import numpy as np
import pytest

from millgate.errors import ConfigError, MissingExtra, StoreError
from millgate.index.indexes import Indexes
from millgate.index.shared import bucket, uploaded
from millgate.index.shared.bucket import Bucket
from millgate.index.shared.open import open_storage
from millgate.index.shared.storage import SharedFolder
from millgate.stores.sqlite.store import SqliteStore
from millgate.types import Chunk, Document

COUNT = uploaded.LEAST
SECRET = "wJalrXUtnFEMI-not-to-be-shown"


@pytest.fixture(scope="module")
def service():
    from moto.moto_server.threaded_moto_server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    yield "http://{}:{}".format(*server.get_host_and_port())
    server.stop()


@pytest.fixture(autouse=True)
def endpoint(service, monkeypatch):
    """The environment of a gateway, and an empty bucket."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", service)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    send(f"{service}/moto-api/reset", "POST")
    send(f"{service}/shared", "PUT")


def send(url, method):
    with urlopen(Request(url, method=method)) as answer:
        answer.read()


class Watched(SqliteStore):
    """A store that remembers from where its feed was read."""

    def __init__(self, folder):
        super().__init__(folder)
        self.asked = []

    def changes(self, tenant, collection, after, limit=10_000):
        self.asked.append(after)
        return super().changes(tenant, collection, after, limit)


@pytest.fixture
def store(tmp_path):
    store = Watched(tmp_path / "kb")
    chunks = [Chunk(f"d{n}", f"Refund {n} takes {n % 17} days.", document=f"d{n}") for n in range(COUNT)]  # fmt: skip
    store.put("t", [Document(chunk.id, chunks=(chunk,)) for chunk in chunks])
    yield store
    store.close()


def read_index(store, folder, place="s3://shared/millgate"):
    """The ids that the indexes of a new machine know, and from where it had to read the feed."""
    store.asked.clear()
    indexes = Indexes(store, folder, segments=(place, "store"))
    view = indexes.snapshot("t", "main")
    indexes.close()
    return sorted(view.ids(np.arange(view.size))), store.asked[0]


def keys():
    return [file.key for file in open_storage("s3://shared/millgate", "store").list_files("")]


@pytest.mark.slow
def test_a_new_gateway_copies_the_index_from_the_bucket(store, tmp_path):
    built = read_index(store, tmp_path / "one")
    copied = read_index(store, tmp_path / "two")
    assert (built[1], copied[1]) == (0, COUNT)
    assert copied[0] == built[0]
    assert len(copied[0]) == COUNT


def test_a_newer_version_replaces_the_one_before(store, tmp_path):
    read_index(store, tmp_path / "one")
    before = keys()
    more = [Chunk(f"n{n}", f"News {n}.", document=f"n{n}") for n in range(COUNT)]
    store.put("t", [Document(chunk.id, chunks=(chunk,)) for chunk in more])
    read_index(store, tmp_path / "one")
    after = keys()
    assert not {*before} & {*after}
    assert len({key.split("/")[1] for key in after}) == 1


@pytest.mark.parametrize("harmed", ["manifest.json", "checksums.json", ".seg"])
def test_a_damaged_file_in_the_bucket_is_refused_and_the_index_built(
    store, tmp_path, caplog, harmed
):
    ids, _ = read_index(store, tmp_path / "one")
    (key,) = [key for key in keys() if key.endswith(harmed)]
    (tmp_path / "harmed").write_bytes(b"{}")
    open_storage("s3://shared/millgate", "store").upload(tmp_path / "harmed", key)
    assert read_index(store, tmp_path / "two") == (ids, 0)


def test_a_version_without_its_checksums_is_not_seen(store, tmp_path):
    read_index(store, tmp_path / "one")
    open_storage("s3://shared/millgate", "store").delete([key for key in keys() if key.endswith("checksums.json")])  # fmt: skip
    assert read_index(store, tmp_path / "two")[1] == 0


def test_a_large_file_is_copied_in_parts_and_comes_back_whole(tmp_path):
    source, target = tmp_path / "large", tmp_path / "copy"
    source.write_bytes(os.urandom(11 << 20))
    shared = Bucket("shared", "a/b")
    shared.upload(source, "c/large")
    shared.download("c/large", target)
    assert target.read_bytes() == source.read_bytes()
    (found,) = shared.list_files("c")
    assert found.key == "c/large"
    shared.delete(["c/large"])
    shared.delete(["c/large"])
    assert shared.list_files("c") == []


def test_a_bucket_that_is_not_there_is_named_and_the_gateway_goes_on(store, tmp_path, caplog):
    with pytest.raises(StoreError, match="there is no bucket wrong"):
        Bucket("wrong", "x").list_files("a")
    ids, _ = read_index(store, tmp_path / "one", "s3://wrong/millgate")
    assert len(ids) == COUNT
    assert "there is no bucket wrong" in caplog.text


def test_refused_credentials_are_said_without_showing_them(monkeypatch):
    monkeypatch.setattr("moto.settings.INITIAL_NO_AUTH_ACTION_COUNT", 0)
    with pytest.raises(StoreError) as raised:
        Bucket("shared", "x").list_files("a")
    assert "refuses these credentials" in str(raised.value)
    assert raised.value.__cause__ is None
    assert SECRET not in str(raised.value)
    assert "AKIAEXAMPLE" not in str(raised.value)


def test_a_service_that_never_answers_is_given_up(monkeypatch):
    monkeypatch.setattr(bucket, "_SILENCE", timedelta(seconds=0.2))
    monkeypatch.setattr(bucket, "_RETRIES", 0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{silent.getsockname()[1]}")
        with pytest.raises(StoreError, match="the service does not answer") as raised:
            Bucket("shared", "x").list_files("a")
    assert "AWS_ENDPOINT_URL" in raised.value.hint


def test_an_object_that_went_meanwhile_is_an_error_and_no_file(tmp_path):
    with pytest.raises(StoreError, match="it is gone"):
        Bucket("shared", "x").download("gone", tmp_path / "file")


def _list_in_child(shared, answer):
    try:
        shared.list_files("a")
    except StoreError as error:
        answer.send(str(error))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_is_told_and_does_not_hang():
    shared = Bucket("shared", "x")
    shared.list_files("a")
    mine, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(target=_list_in_child, args=(shared, theirs))  # fmt: skip
    process.start()
    assert mine.poll(20)
    assert "forked process" in mine.recv()
    process.join()


@pytest.mark.parametrize(
    "place", ["gs://bucket/x", "s3://", "s3:///x", f"s3://key:{SECRET}@bucket/x"]
)
def test_a_place_that_is_none_is_refused_without_repeating_it(place):
    with pytest.raises(ConfigError) as raised:
        open_storage(place, "store")
    assert SECRET not in str(raised.value)
    assert "s3://bucket/prefix" in raised.value.hint


def test_a_missing_package_names_its_extra(monkeypatch):
    monkeypatch.delitem(sys.modules, "millgate.index.shared.bucket")
    monkeypatch.setitem(sys.modules, "obstore.exceptions", None)
    with pytest.raises(MissingExtra, match=r"pip install '\.\[s3\]'"):
        open_storage("s3://shared/x", "store")


def test_a_folder_and_a_bucket_keep_the_same_files(tmp_path):
    (tmp_path / "shared").mkdir()
    (tmp_path / "file").write_bytes(b"some bytes")
    for storage in (SharedFolder(tmp_path / "shared" / "store"), Bucket("shared", "store")):
        storage.upload(tmp_path / "file", "one/two/name")
        storage.upload(tmp_path / "file", "one-more/two/name")
        assert [file.key for file in storage.list_files("one")] == ["one/two/name"]
        storage.download("one/two/name", tmp_path / "copy")
        assert (tmp_path / "copy").read_bytes() == b"some bytes"
        storage.delete(["one/two/name", "one/two/gone"])
        assert storage.list_files("one") == []
