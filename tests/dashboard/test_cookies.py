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
