"""What fails is told to callers without a path of the machine, and no longer than it fails."""

import pytest
from tests.service.clients import connected

from millgate.gateway import Millgate
from millgate.service.app import create
from millgate.stores.sqlite.store import FILE


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "kb"


@pytest.fixture
def gate(folder):
    with Millgate.open(folder, log={"enabled": False}) as gate:
        gate.add([{"id": "a", "text": "Refunds are paid within 14 days."}])
        gate.context("refunds")
        gate.traces()
        yield gate


async def ask(client):
    """What callers read, from every kind of route."""
    context = await client.post("/v1/context", json={"query": "refunds"})
    pages = [await client.get(f"/dashboard{path}") for path in ("/", "/requests", "/reviews")]
    gets = [await client.get(path) for path in ("/readyz", "/v1/traces", "/v1/facts")]
    return [context, *pages, *gets]


async def test_no_answer_names_the_place_of_a_store_that_is_gone(gate, folder, monkeypatch):
    monkeypatch.setattr("millgate.calls.worker.PAUSE_S", 0.01)
    async with connected(create(gate)) as client:
        assert all(answer.status_code == 200 for answer in await ask(client))
        file, aside = folder / FILE, folder / "aside"
        file.rename(aside)
        broken = await ask(client)
        aside.rename(file)
        await ask(client)  # the first answer says what was lost
        again = await ask(client)
    assert any(answer.status_code == 503 for answer in broken)
    told = "\n".join(f"{answer.headers} {answer.text}" for answer in broken)
    assert "was moved, deleted or replaced" in told
    assert str(folder) not in told
    assert [answer.status_code for answer in again] == [200] * len(again)
    assert "not stored" not in again[0].text


class Diary:
    """A memory that fails with the path of its file."""

    name = "diary"

    def prefetch(self, query, **options):
        raise FileNotFoundError(2, "No such file or directory", "/home/ann/diary.db")


async def test_no_answer_names_the_file_of_a_memory_that_fails():
    with Millgate.open(":memory:", providers=[Diary()]) as gate:
        gate.add([{"id": "a", "text": "Refunds are paid within 14 days."}])
        async with connected(create(gate)) as client:
            context = await client.post("/v1/context", json={"query": "refunds"})
            ready = await client.get("/readyz")
    assert "No such file" in context.text
    assert "diary: failures in a row: 1" in ready.text
    assert "/home/ann" not in context.text + ready.text
