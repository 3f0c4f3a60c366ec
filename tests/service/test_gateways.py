"""Two gateways over one PostgreSQL store act as one: documents, keys, rates, caps, reviews and traces."""

import asyncio

import pytest
from tests.service.clients import connected
from tests.waiting import MOST_S

from millgate.gateway import Millgate
from millgate.service.app import create
from millgate.service.conversation_state import ConversationState
from millgate.settings import Settings
from millgate.types import Amount


@pytest.fixture
def gates(postgres_url, tmp_path, stack):
    def gate(name, **changes):
        settings = Settings(store=f"{postgres_url}?cache={tmp_path / name}", **changes)
        return stack.enter_context(Millgate.open(settings=settings, wait_for_index=False))

    return gate


async def ask(client, query="how are refunds paid?"):
    answer = await client.post("/v1/context", json={"query": query})
    return answer.json()


async def wait_for_index(client):
    """The first index of a collection is made in the background."""
    async with asyncio.timeout(MOST_S):
        while "card" not in str(await ask(client)):  # noqa: ASYNC110  another process has it
            await asyncio.sleep(0.05)


async def test_a_document_that_one_gateway_took_is_in_the_others_next_answer(gates):
    one, two = gates("one"), gates("two")
    async with connected(create(one)) as first, connected(create(two)) as second:
        one.add([{"id": "refunds", "text": "Refunds are paid to the card."}])
        await wait_for_index(second)
        one.add([{"id": "more", "text": "Refunds of gift cards are paid in vouchers."}])
        assert "vouchers" in str(await ask(second)), "at once, not after a while"
        assert "vouchers" in str(await ask(first))


async def test_a_key_made_on_one_gateway_opens_the_other_until_it_is_revoked(gates):
    one, two = (
        gates("one", service={"keyless": "never"}),
        gates("two", service={"keyless": "never"}),
    )
    made = one.keys.create(["read"])
    async with connected(create(two), key=made.token) as client:
        assert (await client.get("/v1/documents")).status_code == 200
    one.keys.revoke(made.key.id)
    async with connected(create(two), key=made.token) as client:
        assert (await client.get("/v1/documents")).status_code == 401


async def test_a_rate_holds_over_both_gateways(gates):
    limit = {"rate": 0.01, "burst": 3}
    one, two = gates("one", service=limit), gates("two", service=limit)
    token = one.keys.create(["read"]).token
    async with (
        connected(create(one), key=token) as first,
        connected(create(two), key=token) as second,
    ):
        codes = [(await client.get("/v1/documents")).status_code for client in (first, second) * 3]
    assert codes == [200, 200, 200, 429, 429, 429]


def test_a_cap_holds_over_both_gateways(gates):
    caps = {"caps": {"tenant": {"tokens": 100}}}
    one, two = gates("one", fuse=caps), gates("two", fuse=caps)
    held = one.spending.hold("s", "", Amount(60))
    assert held.refusal is None
    one.spending.settle(held, Amount(120))
    assert two.spending.hold("s", "", Amount(60)).refusal is not None


def test_traces_reviews_and_facts_of_one_gateway_are_read_by_the_other(gates):
    one, two = gates("one"), gates("two")
    one.remember("Refunds take 14 days.")
    assert two.recall("refunds")[0].fact.content == "Refunds take 14 days."
    one.add([{"id": "a", "text": "Refunds are paid to the card."}])
    context = one.context("how are refunds paid?")
    assert one.traces()
    assert two.trace(context.trace.id).request.query == "how are refunds paid?"


async def test_injected_blocks_are_the_same_on_both_gateways(gates):
    one, two = (
        ConversationState(shared=gates(name).store, tenant="default") for name in ("one", "two")
    )
    assert await one.put(b"k", b"first") == b"first"
    assert await two.get(b"k") == b"first"
    assert await two.put(b"k", b"second") == b"first"
    assert (one.failure, two.failure) == ("", "")


async def test_a_database_that_is_away_degrades_or_waits_and_comes_back(gates, postgres):
    postgres.require_own()
    gate = gates("one", service={"deadline_s": 20.0})
    gate.add([{"id": "refunds", "text": "Refunds are paid to the card."}])
    async with connected(create(gate)) as client:
        await wait_for_index(client)
        postgres.stop()
        postgres.start()
        assert "card" in str(await ask(client))
        ready = await client.get("/readyz")
        assert ready.status_code == 200
