"""What the cookies open, and what a change needs beside them."""

import re

import pytest
from tests.service.clients import connected

from headgate.gateway import Headgate
from headgate.service.app import create


@pytest.fixture
def gate():
    with Headgate.open(":memory:") as gate:
        yield gate


@pytest.fixture
def app(gate):
    return create(gate)


@pytest.fixture
async def client(gate, app):
    async with connected(app) as client:
        client.headers["cookie"] = f"headgate_key={gate.keys.create(['read']).token}"
        yield client


async def test_a_change_needs_the_token_of_a_page(client):
    answer = await client.post("/dashboard/sign-out", content="csrf=guess")
    assert answer.status_code == 403


async def test_a_token_serves_its_own_origin_only(client):
    page = await client.get("/dashboard/requests")
    token = re.search(r'name="csrf" value="(\w+)"', page.text)[1]
    secret = re.search(r"headgate_csrf=([\w-]+)", page.headers["set-cookie"])[0]
    client.headers["cookie"] += f"; {secret}"
    for origin, status in (("http://evil.example", 403), ("http://localhost", 303)):
        answer = await client.post("/dashboard/sign-out", content=f"csrf={token}", headers={"origin": origin})  # fmt: skip
        assert answer.status_code == status


async def test_a_key_without_the_scope_gets_a_page_that_says_so(gate, app):
    made = gate.keys.create(["write"])
    async with connected(app) as client:
        client.headers["cookie"] = f"headgate_key={made.token}"
        answer = await client.get("/dashboard/requests")
    assert answer.status_code == 403
    assert "lacks the scope read" in answer.text


async def test_every_page_forbids_scripts_that_are_not_ours(client):
    for path in ("/dashboard/requests", "/dashboard/sign-in", "/dashboard/nothing"):
        answer = await client.get(path)
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy


FOREIGN = "hg_" + "x" * 43


@pytest.mark.parametrize(
    "sent",
    [
        'theme={"dark": true, "size": "a b"}; headgate_key={key}',
        "session=a=b==; headgate_key={key}; broken",
        "föö[bar]@=1; headgate_key={key}",
        'headgate_key="{key}"',
        f"headgate_key=; headgate_key={FOREIGN}; headgate_key={{key}}",
        f"headgate_key={{key}}; headgate_key={FOREIGN}",
        "headgate_key=of another app; headgate_key={key}",
    ],
)
async def test_no_other_cookie_hides_ours(gate, app, sent):
    token = gate.keys.create(["read"]).token
    async with connected(app) as client:
        cookie = sent.replace("{key}", token).encode()
        for _ in range(30):  # more than the failures that an address may have
            answer = await client.get("/dashboard/requests", headers={b"cookie": cookie})
            assert answer.status_code == 200


async def test_a_change_is_taken_whatever_other_cookies_came_with_it(gate, app):
    key = f"headgate_key={gate.keys.create(['read']).token}"
    async with connected(app) as client:
        page = await client.get("/dashboard/requests", headers={"cookie": f"headgate_key={FOREIGN}; {key}"})  # fmt: skip
        token = re.search(r'name="csrf" value="(\w+)"', page.text)[1]
        secret = re.search(r"headgate_csrf=[\w-]+", page.headers["set-cookie"])[0]
        for cookie in (f"{key}; {secret}", f"headgate_csrf=planted; {secret}; {key}"):
            answer = await client.post("/dashboard/sign-out", content=f"csrf={token}", headers={"cookie": cookie})  # fmt: skip
            assert answer.status_code == 303


async def test_whoever_plants_cookies_cannot_make_a_token(gate, app):
    key = f"headgate_key={gate.keys.create(['read']).token}"
    async with connected(app) as client:
        page = await client.get("/dashboard/sign-in", headers={"cookie": "headgate_csrf=planted"})
        token = re.search(r'name="csrf" value="(\w+)"', page.text)[1]
        planted = f"headgate_csrf=planted; headgate_key={FOREIGN}; {key}"
        answer = await client.post("/dashboard/sign-out", content=f"csrf={token}", headers={"cookie": planted})  # fmt: skip
    assert answer.status_code == 403


async def test_a_key_of_another_service_closes_no_page_that_needs_none(app):
    async with connected(app) as client:
        answer = await client.get("/dashboard/requests", headers={"cookie": f"headgate_key={FOREIGN}"})  # fmt: skip
        assert answer.status_code == 200
        by_header = await client.get("/dashboard/requests", headers={"authorization": f"Bearer {FOREIGN}"})  # fmt: skip
        assert by_header.status_code == 401


async def test_services_on_two_ports_of_a_host_have_cookies_of_their_own(gate, app):
    token = gate.keys.create(["read"]).token
    async with connected(app, host="localhost:8642") as client:
        page = await client.get("/dashboard/requests", headers={"cookie": f"headgate_key_8643={FOREIGN}; headgate_key_8642={token}"})  # fmt: skip
        assert page.status_code == 200
        assert "headgate_csrf_8642=" in page.headers["set-cookie"]
        closed = await client.get("/dashboard/requests", headers={"cookie": f"headgate_key_8643={token}"})  # fmt: skip
        assert closed.status_code == 401
        assert "headgate_key" not in closed.headers["set-cookie"], "it is not ours to delete"


async def test_the_form_that_a_revoked_key_leads_to_lets_in(gate, app):
    revoked, valid = gate.keys.create(["read"]), gate.keys.create(["read"])
    gate.keys.revoke(revoked.key.id)
    async with connected(app) as client:
        page = await client.get("/dashboard/requests", headers={"cookie": f"headgate_key={revoked.token}"})  # fmt: skip
        token = re.search(r'name="csrf" value="(\w+)"', page.text)[1]
        secret = re.search(r"headgate_csrf=[\w-]+", page.headers["set-cookie"])[0]
        answer = await client.post("/dashboard/sign-in", content=f"csrf={token}&key={valid.token}", headers={"cookie": secret})  # fmt: skip
    assert (page.status_code, answer.status_code) == (401, 303)
