"""Indexes that gateways share through a folder: copied instead of built, and never believed over the store."""

import json
import shutil
import time

import numpy as np
import pytest

from millgate.errors import NotReady
from millgate.gateway import Millgate
from millgate.index.indexes import Indexes
from millgate.index.shared import uploaded
from millgate.stores.postgres.store import PostgresStore
from millgate.types import Chunk, Document

COUNT = uploaded.LEAST
QUESTION = "how long does refund 42 take by card?"


def documents(first, last):
    for n in range(first, last):
        text = f"Refund {n} takes {n % 17} days by card {n % 5}."
        yield Document(f"d{n}", chunks=(Chunk(f"d{n}", text, document=f"d{n}"),))


@pytest.fixture
def shared(tmp_path):
    folder = tmp_path / "shared"
    folder.mkdir()
    return folder


class Watched(PostgresStore):
    """A store that remembers from where its feed was read."""

    def __init__(self, *args):
        super().__init__(*args)
        self.asked = []

    def changes(self, tenant, collection, after, limit=10_000):
        self.asked.append(after)
        return super().changes(tenant, collection, after, limit)


@pytest.fixture
def store(postgres_url, shared):
    store = Watched(f"{postgres_url}?segments={shared}")
    store.put("t", list(documents(0, COUNT)))
    yield store
    store.close()


def gateway(store, folder):
    """The indexes of another machine."""
    store.asked.clear()
    return Indexes(store, folder, segments=store.segments)


def upload(store, folder):
    indexes = gateway(store, folder)
    indexes.snapshot("t", "main")
    indexes.close()


def versions(shared):
    return sorted(path for path in shared.glob("*/*/*") if path.is_dir())


def ids(view):
    return sorted(view.ids(np.arange(view.size)))


@pytest.fixture
def version(store, shared, tmp_path):
    upload(store, tmp_path / "one")
    (found,) = versions(shared)
    return found


def test_a_new_gateway_copies_the_index_and_reads_only_what_came_after(store, version, tmp_path):
    store.put("t", list(documents(COUNT, COUNT + 3)))
    indexes = gateway(store, tmp_path / "two")
    view = indexes.snapshot("t", "main")
    assert store.asked == [COUNT]
    assert (view.count, view.degraded) == (COUNT + 3, "")
    assert ids(view) == ids(Indexes(store).snapshot("t", "main"))
    indexes.close()
    assert not list((tmp_path / "two").glob("*.incoming"))


def test_both_gateways_keep_their_indexes_however_often_each_saves(store, version, tmp_path):
    upload(store, tmp_path / "two")
    for n in range(4):
        store.put("t", list(documents(COUNT + n, COUNT + n + 1)))
        upload(store, tmp_path / "two")
        upload(store, tmp_path / "one")
    for folder in ("one", "two", "three"):
        indexes = gateway(store, tmp_path / folder)
        assert not indexes.snapshot("t", "main").degraded
        assert store.asked[0] > 0


def test_a_version_is_replaced_by_one_that_is_a_quarter_newer(store, version, shared, tmp_path):
    store.put("t", list(documents(COUNT, COUNT + 10)))
    upload(store, tmp_path / "one")
    assert versions(shared) == [version]
    store.put("t", list(documents(COUNT + 10, COUNT + COUNT // 2)))
    upload(store, tmp_path / "one")
    (newer,) = versions(shared)
    assert newer.name > version.name
    upload(store, tmp_path / "two")
    assert store.asked[0] == COUNT + COUNT // 2


def alter(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)


@pytest.mark.parametrize(
    "harm",
    [
        lambda version: alter(next(version.glob("*.seg"))),
        lambda version: next(version.glob("*.seg")).unlink(),
        lambda version: alter(version / "manifest.json"),
        lambda version: (version / "checksums.json").write_text("{"),
        lambda version: (version / "checksums.json").write_text("[1]"),
        lambda version: (version / "checksums.json").unlink(),
        lambda version: (version / "checksums.json").write_text('{"../escaped": "00"}'),
    ],
    ids=["altered", "missing", "manifest", "half", "list", "unlisted", "escaping"],
)
def test_a_damaged_version_is_refused_and_the_index_built(store, version, tmp_path, harm):
    harm(version)
    indexes = gateway(store, tmp_path / "two")
    view = indexes.snapshot("t", "main")
    assert store.asked[0] == 0
    assert ids(view) == ids(Indexes(store).snapshot("t", "main"))
    indexes.close()


def test_segments_of_another_store_or_of_an_undone_history_are_left_alone(
    store, version, shared, tmp_path
):
    with store.session() as connection, connection.transaction():
        connection.execute("SET LOCAL millgate.tenant = 't'")
        connection.execute("DELETE FROM millgate.index_marks WHERE tenant = 't'")
    upload(store, tmp_path / "two")
    assert store.asked[0] == 0
    (now,) = versions(shared)
    assert now != version
    assert version.parent.parent.name == store.id


def test_an_unfinished_version_is_not_seen_and_goes_after_a_day(
    store, version, shared, tmp_path, monkeypatch
):
    (version / "checksums.json").unlink()
    upload(store, tmp_path / "two")
    assert store.asked[0] == 0
    assert version in versions(shared)
    later = time.time() + 2 * 86_400
    monkeypatch.setattr(uploaded.time, "time", lambda: later)
    store.put("t", list(documents(COUNT, 2 * COUNT)))
    upload(store, tmp_path / "two")
    assert len(versions(shared)) == 1
    assert version not in versions(shared)


def test_a_request_does_not_wait_for_the_copy(store, version, tmp_path):
    indexes = gateway(store, tmp_path / "two")
    with pytest.raises(NotReady):
        indexes.latest("t", "main")
    indexes.follow("t", "main")
    assert indexes.latest("t", "main").count == COUNT
    assert 0 not in store.asked
    indexes.close()


def test_reindex_builds_anew_and_replaces_what_is_uploaded(store, version, shared, tmp_path):
    indexes = gateway(store, tmp_path / "two")
    assert indexes.rebuild("t", "main").count == COUNT
    assert store.asked[0] == 0
    (now,) = versions(shared)
    assert now != version
    indexes.close()


def test_small_indexes_and_an_absent_folder_are_no_trouble(store, shared, tmp_path, caplog):
    few = Chunk("d", "few words", document="d", collection="small")
    store.put("t", [Document("d", "small", chunks=(few,))])
    indexes = gateway(store, tmp_path / "one")
    indexes.snapshot("t", "small")
    indexes.close()
    assert versions(shared) == []
    shutil.rmtree(shared, ignore_errors=True)
    upload(store, tmp_path / "one")
    assert not shared.exists()
    assert f"the shared folder is not there: '{shared}'" in caplog.text


def test_two_gateways_by_their_addresses_answer_alike(postgres_url, shared, tmp_path):
    urls = [f"{postgres_url}?cache={tmp_path / n}&segments={shared}" for n in ("one", "two")]
    answers = []
    for url in urls:
        with Millgate.open(url) as gate:
            if not answers:
                gate.store.put(gate.tenant, list(documents(0, COUNT)))
            found = gate.context(QUESTION, budget=300).trace.candidates
            answers.append([(c.chunk.id, c.score) for c in found])
    assert answers[0] == answers[1]
    (version,) = versions(shared)
    marks = [json.loads(path.read_text())["mark"] for path in tmp_path.glob("*/index/*/manifest.json")]  # fmt: skip
    assert len({*marks, version.name.partition("-")[2]}) == 3
