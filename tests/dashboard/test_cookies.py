"""What the cookies open, and what a change needs beside them."""

import re

import pytest
from tests.service.clients import connected

from millgate.gateway import Millgate
from millgate.service.app import create
from millgate.service.conversation_state import ConversationState
from millgate.service.edge.sign_in import LASTS_S, SignedIn
from millgate.testing import FixedClock


@pytest.fixture
def gate():
    with Millgate.open(":memory:") as gate:
        yield gate


@pytest.fixture
def app(gate):
    return create(gate)


async def signed_in(app, gate, *scopes):
    """The token of a session that was begun with a new key."""
    key = gate.keys.create(scopes).key
    return await app.state.service.auth.signed_in.begin(key.digest)


@pytest.fixture
async def client(gate, app):
    async with connected(app) as client:
        client.headers["cookie"] = f"millgate_session={await signed_in(app, gate, 'read')}"
        yield client


async def test_a_change_needs_the_token_of_a_page(client):
    answer = await client.post("/dashboard/sign-out", content="csrf=guess")
    assert answer.status_code == 403


async def test_a_token_serves_its_own_origin_only(client):
    page = await client.get("/dashboard/requests")
    token = re.search(r'name="csrf" value="(\w+)"', page.text)[1]
    secret = re.search(r"millgate_csrf=([\w-]+)", page.headers["set-cookie"])[0]
    client.headers["cookie"] += f"; {secret}"
    for origin, status in (("http://evil.example", 403), ("http://localhost", 303)):
        answer = await client.post("/dashboard/sign-out", content=f"csrf={token}", headers={"origin": origin})  # fmt: skip
        assert answer.status_code == status


async def test_a_key_without_the_scope_gets_a_page_that_says_so(gate, app):
    async with connected(app) as client:
        client.headers["cookie"] = f"millgate_session={await signed_in(app, gate, 'write')}"
        answer = await client.get("/dashboard/requests")
    assert answer.status_code == 403
    assert "lacks the scope read" in answer.text


async def test_every_page_forbids_scripts_that_are_not_ours(client):
    for path in ("/dashboard/requests", "/dashboard/sign-in", "/dashboard/nothing"):
        answer = await client.get(path)
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy


FOREIGN = "x" * 43


@pytest.mark.parametrize(
    "sent",
    [
        'theme={"dark": true, "size": "a b"}; millgate_session={token}',
        "session=a=b==; millgate_session={token}; broken",
        "föö[bar]@=1; millgate_session={token}",
        'millgate_session="{token}"',
        f"millgate_session=; millgate_session={FOREIGN}; millgate_session={{token}}",
        f"millgate_session={{token}}; millgate_session={FOREIGN}",
        "millgate_session=of another app; millgate_session={token}",
    ],
)
async def test_no_other_cookie_hides_ours(gate, app, sent):
    token = await signed_in(app, gate, "read")
    async with connected(app) as client:
        cookie = sent.replace("{token}", token).encode()
        for _ in range(30):  # more than the failures that an address may have
            answer = await client.get("/dashboard/requests", headers={b"cookie": cookie})
            assert answer.status_code == 200


async def test_a_change_is_taken_whatever_other_cookies_came_with_it(gate, app):
    digest = gate.keys.create(["read"]).key.digest
    begin = app.state.service.auth.signed_in.begin
    one, two = [f"millgate_session={await begin(digest)}" for _ in range(2)]
    async with connected(app) as client:
        page = await client.get("/dashboard/requests", headers={"cookie": f"millgate_session={FOREIGN}; {one}"})  # fmt: skip
        token = re.search(r'name="csrf" value="(\w+)"', page.text)[1]
        secret = re.search(r"millgate_csrf=[\w-]+", page.headers["set-cookie"])[0]
        for cookie in (f"{one}; {secret}", f"millgate_csrf=planted; {secret}; {two}"):
            answer = await client.post("/dashboard/sign-out", content=f"csrf={token}", headers={"cookie": cookie})  # fmt: skip
            assert answer.status_code == 303


async def test_whoever_plants_cookies_cannot_make_a_token(gate, app):
    session = f"millgate_session={await signed_in(app, gate, 'read')}"
    async with connected(app) as client:
        page = await client.get("/dashboard/sign-in", headers={"cookie": "millgate_csrf=planted"})
        token = re.search(r'name="csrf" value="(\w+)"', page.text)[1]
        planted = f"millgate_csrf=planted; millgate_session={FOREIGN}; {session}"
        answer = await client.post("/dashboard/sign-out", content=f"csrf={token}", headers={"cookie": planted})  # fmt: skip
    assert answer.status_code == 403


async def test_a_key_of_another_service_closes_no_page_that_needs_none(app):
    async with connected(app) as client:
        answer = await client.get("/dashboard/requests", headers={"cookie": f"millgate_session={FOREIGN}"})  # fmt: skip
        assert answer.status_code == 200
        by_header = await client.get("/dashboard/requests", headers={"authorization": f"Bearer mg_{FOREIGN}"})  # fmt: skip
        assert by_header.status_code == 401


async def test_services_on_two_ports_of_a_host_have_cookies_of_their_own(gate, app):
    token = await signed_in(app, gate, "read")
    async with connected(app, host="localhost:8642") as client:
        page = await client.get("/dashboard/requests", headers={"cookie": f"millgate_session_8643={FOREIGN}; millgate_session_8642={token}"})  # fmt: skip
        assert page.status_code == 200
        assert "millgate_csrf_8642=" in page.headers["set-cookie"]
        closed = await client.get("/dashboard/requests", headers={"cookie": f"millgate_session_8643={token}"})  # fmt: skip
        assert closed.status_code == 401
        assert "millgate_session" not in closed.headers["set-cookie"], "it is not ours to delete"


async def test_the_form_that_a_revoked_key_leads_to_lets_in(gate, app):
    revoked, valid = gate.keys.create(["read"]), gate.keys.create(["read"])
    session = await app.state.service.auth.signed_in.begin(revoked.key.digest)
    gate.keys.revoke(revoked.key.id)
    async with connected(app) as client:
        page = await client.get("/dashboard/requests", headers={"cookie": f"millgate_session={session}"})  # fmt: skip
        token = re.search(r'name="csrf" value="(\w+)"', page.text)[1]
        secret = re.search(r"millgate_csrf=[\w-]+", page.headers["set-cookie"])[0]
        answer = await client.post("/dashboard/sign-in", content=f"csrf={token}&key={valid.token}", headers={"cookie": secret})  # fmt: skip
    assert (page.status_code, answer.status_code) == (401, 303)


# Sessions


async def sign_in(client, key):
    """Sign in by the form; the cookie that the browser would keep."""
    page = await client.get("/dashboard/sign-in")
    token = re.search(r'name="csrf" value="(\w+)"', page.text)[1]
    secret = re.search(r"millgate_csrf\w*=[\w-]+", page.headers["set-cookie"])[0]
    answer = await client.post("/dashboard/sign-in", content=f"csrf={token}&key={key}", headers={"cookie": secret})  # fmt: skip
    found = re.search(r"millgate_session\w*=[\w-]+", answer.headers.get("set-cookie", ""))
    return (found[0] if found else ""), secret, token, answer


async def test_the_cookie_is_no_key_and_opens_no_route_but_the_pages(gate, app):
    made = gate.keys.create(["admin"])
    async with connected(app) as client:
        cookie, *_, answer = await sign_in(client, made.token)
        assert answer.status_code == 303
        assert made.token not in answer.headers["set-cookie"]
        assert (await client.get("/dashboard/requests", headers={"cookie": cookie})).status_code == 200  # fmt: skip
        token = cookie.partition("=")[2]
        for headers in ({"cookie": cookie}, {"authorization": f"Bearer {token}"}, {"x-millgate-key": token}):  # fmt: skip
            for path in ("/v1/documents", "/metrics"):
                assert (await client.get(path, headers=headers)).status_code == 401


async def test_the_key_itself_in_a_cookie_opens_nothing(gate, app):
    made = gate.keys.create(["read"])
    async with connected(app) as client:
        for name in ("millgate_session", "millgate_key"):
            headers = {"cookie": f"{name}={made.token}"}
            assert (await client.get("/dashboard/requests", headers=headers)).status_code == 401


async def test_a_session_that_was_ended_opens_nothing_whoever_has_its_token(gate, app):
    made = gate.keys.create(["read"])
    async with connected(app) as client:
        cookie, secret, *_ = await sign_in(client, made.token)
        other, *_ = await sign_in(client, made.token)
        page = await client.get("/dashboard/requests", headers={"cookie": f"{cookie}; {secret}"})
        token = re.search(r'name="csrf" value="(\w+)"', page.text)[1]
        left = await client.post("/dashboard/sign-out", content=f"csrf={token}", headers={"cookie": f"{cookie}; {secret}"})  # fmt: skip
        assert left.status_code == 303
        assert (await client.get("/dashboard/requests", headers={"cookie": cookie})).status_code == 401  # fmt: skip
        assert (await client.get("/dashboard/requests", headers={"cookie": other})).status_code == 200  # fmt: skip


async def test_a_wrong_key_begins_no_session(gate, app):
    gate.keys.create(["read"])
    async with connected(app) as client:
        cookie, *_, answer = await sign_in(client, "mg_" + "x" * 43)
    assert (answer.status_code, cookie) == (401, "")


async def test_a_session_ends_by_itself():
    clock = FixedClock(1_000.0)
    sessions = SignedIn(ConversationState(), clock=clock)
    token = await sessions.begin("digest")
    assert await sessions.find(token) == "digest"
    clock.advance(LASTS_S - 1)
    assert await sessions.find(token) == "digest"
    clock.advance(2)
    assert await sessions.find(token) == ""


async def test_workers_share_sessions_and_their_ends(tmp_path):
    one, two = (SignedIn(ConversationState(tmp_path / "proxy.db")) for _ in range(2))
    token = await one.begin("digest")
    assert await two.find(token) == "digest"
    await two.end(token)
    assert await one.find(token) == ""
    assert token.encode() not in (tmp_path / "proxy.db").read_bytes()


async def test_over_tls_the_cookie_belongs_to_this_host_alone(gate, app):
    made = gate.keys.create(["read"])
    async with connected(app, key=made.token) as client:
        page = await client.get("/dashboard/requests", headers={"x-forwarded-proto": "https"})
    assert page.headers["set-cookie"].startswith("__Host-millgate_csrf=")
    assert "Path=/;" in page.headers["set-cookie"]
    assert "Secure" in page.headers["set-cookie"]
