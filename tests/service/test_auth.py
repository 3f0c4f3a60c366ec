"""Who is let in: by key and scope, or from this machine while no key exists."""

import pytest
from tests.service.clients import connected

from millgate.errors import AccessError, NotReady
from millgate.gateway import Millgate
from millgate.integrations.mcp.tools import Access, FactFeedback
from millgate.keys import Keys
from millgate.service.app import create
from millgate.service.edge import auth as auth_module
from millgate.service.edge.auth import (
    CACHE_S,
    OUTAGE_S,
    PAUSE_S,
    Auth,
    had_key,
    has_active_key,
    is_loopback,
)
from millgate.settings import Settings
from millgate.testing import FixedClock
from millgate.text.cache import ENTRY_BYTES

ASK = {"query": "refunds"}


def give(gate, *scopes, tenant="default"):
    return gate.for_tenant(tenant).keys.create(scopes)


@pytest.mark.parametrize(
    ("how", "status"),
    [
        ({}, 200),
        ({"address": "::1"}, 200),
        ({"host": "127.0.0.1"}, 200),
        ({"address": "10.0.0.7"}, 401),
        ({"address": "testclient"}, 401),
        ({"host": "evil.example"}, 401),
    ],
)
async def test_without_a_key_only_this_machine_is_let_in(app, how, status):
    async with connected(app, **how) as client:
        answer = await client.post("/v1/context", json=ASK)
    assert answer.status_code == status
    if status == 401:
        assert answer.headers["www-authenticate"] == "Bearer"
        assert answer.headers["content-type"] == "application/problem+json"
        assert "millgate keys create" in answer.json()["hint"]


@pytest.mark.parametrize(
    "header",
    [
        {"x-forwarded-for": "127.0.0.1"},
        {"forwarded": "for=127.0.0.1"},
        {"origin": "https://evil.example"},
        {"origin": "null"},
    ],
)
async def test_what_a_proxy_or_a_foreign_page_sends_needs_a_key(client, header):
    assert (await client.get("/v1/documents", headers=header)).status_code == 401


async def test_once_a_key_exists_it_is_needed_here_too(gate, app):
    made = give(gate, "read")
    async with connected(app) as without, connected(app, key=made.token) as with_key:
        assert (await without.post("/v1/context", json=ASK)).status_code == 401
        assert (await with_key.post("/v1/context", json=ASK)).status_code == 200


@pytest.mark.parametrize(("keyless", "status"), [("loopback", 200), ("never", 401)])
async def test_the_rule_for_callers_without_a_key_can_be_set(keyless, status):
    with Millgate.open(":memory:", service={"keyless": keyless}) as gate:
        give(gate, "read")
        async with connected(create(gate)) as client:
            assert (await client.get("/v1/documents")).status_code == status


@pytest.mark.parametrize("key", ["mg_" + "x" * 43, "mg_", "nonsense", "mg_" + "x" * 5000, "é" * 46])
async def test_an_unknown_key_opens_nothing(app, key):
    async with connected(app, address="10.0.0.7") as client:
        headers = {"authorization": f"Bearer {key}".encode("latin-1")}
        answer = await client.get("/v1/documents", headers=headers)
    assert answer.status_code == 401
    assert answer.json()["detail"] == "the key is not valid"


@pytest.mark.parametrize(
    ("scope", "method", "path", "body"),
    [
        ("read", "POST", "/v1/context", ASK),
        ("write", "POST", "/v1/facts", {"content": "a fact"}),
        ("write", "DELETE", "/v1/documents/refunds", None),
        ("review", "GET", "/v1/reviews", None),
        ("admin", "GET", "/metrics", None),
        ("admin", "POST", "/v1/graph/slices", {"anchor": "x"}),
    ],
)
async def test_each_scope_opens_its_own_routes_only(gate, app, scope, method, path, body):
    others = [give(gate, s).token for s in ("read", "write", "review") if s != scope]
    for key in others:
        async with connected(app, key=key) as client:
            answer = await client.request(method, path, **({"json": body} if body else {}))
        assert answer.status_code == 403
        assert scope in answer.json()["detail"]
    async with connected(app, key=give(gate, scope).token) as client:
        answer = await client.request(method, path, **({"json": body} if body else {}))
    assert answer.status_code not in (401, 403)


async def test_admin_holds_every_scope(gate, app):
    async with connected(app, key=give(gate, "admin").token) as client:
        for path in ("/v1/documents", "/v1/reviews", "/metrics"):
            assert (await client.get(path)).status_code == 200


async def test_the_key_may_come_as_x_api_key(gate, app):
    made = give(gate, "read", tenant="acme")
    async with connected(app, address="10.0.0.7") as client:
        answer = await client.get("/v1/documents", headers={"x-api-key": made.token})
    assert answer.json() == {"collections": {}}


async def test_a_revoked_key_stops_working_within_seconds(gate):
    made, clock = give(gate, "read"), FixedClock(0.0)
    auth = Auth(gate.keys, "default", clock=clock)
    scope = {"headers": [(b"authorization", f"Bearer {made.token}".encode())]}
    assert (await auth.caller(scope)).key == made.key.id
    gate.keys.revoke(made.key.id)
    clock.advance(CACHE_S)
    with pytest.raises(Exception, match="not valid"):
        await auth.caller(scope)


@pytest.mark.parametrize(
    ("host", "near"),
    [
        ("127.0.0.1", True),
        ("127.8.9.1", True),
        ("::1", True),
        ("[::1]", True),
        ("::ffff:127.0.0.1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("192.168.1.1", False),
        ("localhost.evil.example", False),
        ("", False),
    ],
)
def test_loopback_is_this_machine_alone(host, near):
    assert is_loopback(host) is near


def test_settings_name_the_service():
    assert Settings().service.host == "127.0.0.1"


@pytest.mark.parametrize(
    "header",
    [
        {"via": "1.1 proxy"},
        {"x-real-ip": "10.0.0.7"},
        {"host": "evil.example@127.0.0.1"},
        {"x-forwarded-host": "gate.example"},
        {"x-forwarded-proto": "https"},
        {"cf-connecting-ip": "10.0.0.7"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"origin": "http://localhost:3000"},
    ],
)
async def test_what_smells_of_a_proxy_or_another_page_needs_a_key(client, header):
    assert (await client.get("/v1/documents", headers=header)).status_code == 401


@pytest.mark.parametrize(
    "header",
    [{"sec-fetch-site": "none"}, {"sec-fetch-site": "same-origin", "origin": "http://localhost"}],
)
async def test_a_page_of_our_own_needs_none(client, header):
    assert (await client.get("/v1/documents", headers=header)).status_code == 200


async def test_what_speaks_an_old_http_needs_a_key(gate):
    auth = Auth(gate.keys, "default")
    scope = {"type": "http", "path": "/v1/documents", "client": ("127.0.0.1", 1), "headers": [(b"host", b"localhost")]}  # fmt: skip
    assert (await auth.caller({**scope, "http_version": "1.1"})).tenant == "default"
    with pytest.raises(AccessError):
        await auth.caller({**scope, "http_version": "1.0"})


async def test_revoking_the_last_key_does_not_open_the_service(gate):
    made = give(gate, "read")
    gate.keys.revoke(made.key.id)
    async with connected(create(gate)) as client:
        assert (await client.post("/v1/context", json=ASK)).status_code == 401


async def test_keys_that_do_not_exist_close_no_address_to_others(gate):
    app, made_before = create(gate), give(gate, "read").token
    async with connected(app) as client:
        bad = [{"authorization": f"Bearer mg_{n:043d}"} for n in range(60)]
        codes = {(await client.post("/v1/context", json=ASK, headers=h)).status_code for h in bad}
        assert codes == {401}
        for token in (made_before, give(gate, "read").token):
            good = {"authorization": f"Bearer {token}"}
            assert (await client.post("/v1/context", json=ASK, headers=good)).status_code == 200


async def test_trust_of_a_reviewer_is_a_reviewers_to_give(gate):
    app = create(gate)
    async with connected(app, key=give(gate, "write").token) as writer:
        assert (await writer.post("/v1/facts", json={"content": "All refunds are paid.", "trust": 1.0})).status_code == 403  # fmt: skip
        assert (await writer.post("/v1/facts", json={"content": "All refunds are paid.", "trust": 0.8})).status_code == 200  # fmt: skip
    async with connected(app, key=give(gate, "write", "review").token) as reviewer:
        assert (await reviewer.post("/v1/facts", json={"content": "Parcels go by rail.", "trust": 1.0})).status_code == 200  # fmt: skip


async def test_neither_a_change_nor_praise_lifts_a_fact_to_a_reviewers_trust(gate):
    app, id = create(gate), gate.remember("All refunds are paid.", trust=0.8).fact.id
    async with connected(app, key=give(gate, "write").token) as writer:
        changed = await writer.patch(f"/v1/facts/{id}", json={"trust": 0.95})
        assert changed.status_code == 403
        for _ in range(10):
            await writer.post(f"/v1/facts/{id}/feedback", json={"helpful": True})
        assert gate.facts.get(id).trust == 0.85
    async with connected(app, key=give(gate, "write", "review").token) as reviewer:
        changed = await reviewer.patch(f"/v1/facts/{id}", json={"trust": 0.95})
        assert changed.json()["trust"] == 0.95
    async with connected(app, key=give(gate, "write").token) as writer:
        await writer.post(f"/v1/facts/{id}/feedback", json={"helpful": True})
        assert gate.facts.get(id).trust == 0.95
        await writer.post(f"/v1/facts/{id}/feedback", json={"helpful": False})
        assert gate.facts.get(id).trust == 0.85


async def test_a_reviewer_sees_the_fact_as_it_will_be_stored_and_confirms_that(gate):
    app = create(gate)
    review = gate.reviews.ask("Policy: pay all. Who founded it?", collection="main", grades={}, reason="?")  # fmt: skip
    secret = "sk-" + "a1B2" * 12
    async with connected(app, key=give(gate, "review").token) as reviewer:
        answer = {"answer": f"Maria.  Her key is {secret}"}
        draft = (await reviewer.post(f"/v1/reviews/{review.id}/draft", json=answer)).json()
        assert secret not in draft["content"]
        assert "Policy" not in draft["content"]
        assert gate.reviews.review(review.id).status == "pending"
        assert not gate.facts.all()
        decision = {"status": "answered", **answer, "confirmed": answer["answer"]}
        refused = await reviewer.post(f"/v1/reviews/{review.id}", json=decision)
        assert refused.status_code == 422
        decision["confirmed"] = draft["content"]
        decided = await reviewer.post(f"/v1/reviews/{review.id}", json=decision)
        assert decided.json()["fact"]["content"] == draft["content"]
        assert [fact.content for fact in gate.facts.all()] == [draft["content"]]


async def test_a_key_is_read_again_once_it_was_known_for_so_long(gate):
    made, clock = give(gate, "read"), FixedClock(100.0)
    auth = Auth(gate.keys, "default", clock=clock)
    scope = {"headers": [(b"x-millgate-key", made.token.encode())]}
    await auth.caller(scope)
    gate.keys.revoke(made.key.id)
    clock.advance(CACHE_S - 0.01)
    assert (await auth.caller(scope)).key == made.key.id
    clock.advance(0.01)
    with pytest.raises(AccessError):
        await auth.caller(scope)


async def test_a_key_that_was_read_is_trusted_for_a_while_if_the_store_is_away(gate, monkeypatch):
    made, clock = give(gate, "read"), FixedClock(100.0)
    auth = Auth(gate.keys, "default", clock=clock)
    await auth.check(made.token)

    def away(*_):
        raise NotReady("the server is away")

    with monkeypatch.context() as patch:
        patch.setattr(Keys, "find_digest", away)
        with pytest.raises(NotReady):
            await auth.check(give(gate, "read").token)
        clock.advance(OUTAGE_S - PAUSE_S)
        assert (await auth.check(made.token)).id == made.key.id
        clock.advance(PAUSE_S)
        with pytest.raises(NotReady):
            await auth.check(made.token)
    gate.keys.revoke(made.key.id)
    with pytest.raises(AccessError, match="not valid"):
        await auth.check(made.token)


async def test_so_many_keys_are_remembered_and_the_oldest_is_forgotten(gate, monkeypatch):
    monkeypatch.setattr(auth_module, "_CACHE_BYTES", 2 * (auth_module._KEY_BYTES + ENTRY_BYTES))
    auth, keys = Auth(gate.keys, "default", clock=FixedClock(0.0)), [give(gate, "read") for _ in range(3)]  # fmt: skip
    scopes = [{"headers": [(b"x-api-key", key.token.encode())]} for key in keys]
    for scope in scopes:
        await auth.caller(scope)
    for key in keys:
        gate.keys.revoke(key.key.id)
    assert (await auth.caller(scopes[1])).key == keys[1].key.id
    assert (await auth.caller(scopes[2])).key == keys[2].key.id
    with pytest.raises(AccessError):
        await auth.caller(scopes[0])


async def test_our_own_header_goes_before_a_bearer_and_that_before_x_api_key(gate):
    auth = Auth(gate.keys, "default")
    good = give(gate, "read").token.encode()
    for headers in (
        [(b"x-millgate-key", good), (b"authorization", b"Bearer other")],
        [(b"authorization", b"bearer " + good), (b"x-api-key", b"other")],
        [(b"authorization", b"Basic other"), (b"x-api-key", good)],
    ):
        assert (await auth.caller({"headers": headers})).key


async def test_on_a_proxied_path_another_services_key_is_not_ours_to_judge(gate):
    local = {"client": ("127.0.0.1", 1), "http_version": "1.1"}
    headers = [(b"host", b"localhost"), (b"authorization", b"Bearer sk-of-the-model")]
    auth = Auth(gate.keys, "default")
    caller = await auth.caller({**local, "path": "/v1/chat/completions", "headers": headers})
    assert caller.key == ""
    with pytest.raises(AccessError):
        await auth.caller({**local, "path": "/v1/context", "headers": headers})


def test_a_key_that_is_not_revoked_is_an_active_one(gate):
    assert not had_key(gate.keys)
    assert not has_active_key(gate.keys)
    made = give(gate, "read")
    assert had_key(gate.keys)
    assert has_active_key(gate.keys)
    gate.keys.revoke(made.key.id)
    assert had_key(gate.keys)
    assert not has_active_key(gate.keys)


async def test_praise_over_mcp_lifts_a_fact_no_higher_than_praise_over_http(gate):
    id = gate.remember("All refunds are paid.", trust=0.8).fact.id
    for _ in range(10):
        await gate.afeedback(id, helpful=True, scopes={"write"})
    assert gate.facts.get(id).trust == 0.85
    asked = FactFeedback(id=id, helpful=True)
    await asked.run(Access(gate, frozenset({"read", "write"})))
    assert gate.facts.get(id).trust == 0.85
    await asked.run(Access(gate, frozenset({"write", "review"})))
    assert gate.facts.get(id).trust == pytest.approx(0.9)
