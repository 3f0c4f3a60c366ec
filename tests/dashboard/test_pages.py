"""Pages on little: an empty store, a request whose text was not kept, a name that nobody has, a paused session."""

import re

import pytest
from tests.dashboard.conftest import ROWS
from tests.service.clients import connected

from millgate.gateway import Millgate
from millgate.service.app import create
from millgate.service.dashboard.requests import sliders
from millgate.types import Amount, Request


@pytest.fixture
def gate(request):
    with Millgate.open(":memory:", **getattr(request, "param", {})) as gate:
        yield gate


@pytest.fixture
async def client(gate):
    async with connected(create(gate)) as client:
        yield client


@pytest.mark.parametrize("path", ["/dashboard/", "/dashboard/requests", "/dashboard/costs"])
async def test_an_empty_store_says_how_to_begin(client, path):
    answer = await client.get(path)
    assert answer.status_code == 200
    assert "yet" in answer.text


@pytest.mark.parametrize("path", ["/dashboard/", "/dashboard/requests", "/dashboard/costs"])  # fmt: skip
async def test_an_empty_store_shows_the_address_that_the_browser_came_to(client, path):
    answer = await client.get(path, headers={"host": "127.0.0.1:9911"})
    assert "export OPENAI_BASE_URL=http://127.0.0.1:9911/v1" in answer.text


async def test_a_gateway_without_an_upstream_says_first_how_to_set_one(client):
    page = (await client.get("/dashboard/")).text
    upstream = "export MILLGATE_PROXY__UPSTREAMS__MAIN__URL="
    assert 0 < page.index(upstream) < page.index("export OPENAI_BASE_URL=")


async def test_the_command_to_wrap_has_its_options_before_the_agent(tmp_path):
    with Millgate.open(tmp_path / "kb") as gate:
        async with connected(create(gate)) as client:
            page = (await client.get("/dashboard/")).text
    assert f"millgate wrap --store {tmp_path / 'kb'} claude" in page


UPSTREAM = {"proxy": {"upstreams": {"main": {"url": "https://models.example/v1"}}}}


@pytest.mark.parametrize("gate", [UPSTREAM], indirect=True)
async def test_a_gateway_with_an_upstream_does_not_ask_for_one(client):
    assert "MILLGATE_PROXY__UPSTREAMS" not in (await client.get("/dashboard/")).text


async def test_questions_from_the_command_line_are_no_session_and_none_is_called_old(gate, client):
    gate.add(ROWS)
    gate.context("how are refunds paid?")
    page = (await client.get("/dashboard/")).text
    assert "No agent has come through yet" in page
    assert "1 question was asked without a session" in page


async def test_the_dashboard_is_found_without_its_last_slash(client):
    answer = await client.get("/dashboard")
    assert (answer.status_code, answer.headers["location"]) == (303, "/dashboard/")


def test_a_slider_that_begins_between_two_steps_is_moved_by_one_step(gate):
    asked, places = Request("q", budget=1225), {}
    for budget in (1220, 1230, 1240):
        (slider, *_) = sliders(asked, gate, {"budget": str(budget)})
        places[budget] = slider.moved
    assert places == {1220: True, 1230: False, 1240: True}, "browsers show 1,225 as 1,230"


@pytest.mark.parametrize("gate", [{"trace": {"text": False}}], indirect=True)
async def test_a_request_without_its_text_can_be_read_and_says_what_is_missing(gate, client):
    gate.add(ROWS)
    id = gate.context("how are refunds paid?", window=[ROWS[0]["text"]], k=1).trace.id
    page = await client.get(f"/dashboard/requests/{id}")
    assert page.status_code == 200
    assert "(text not kept)" in page.text
    assert 'type="range"' not in page.text
    chunk = await client.get(f"/dashboard/requests/{id}/chunk?chunk=limits")
    assert "The text is not shown" in chunk.text
    why = await client.get(f"/dashboard/requests/{id}/why?chunk=limits")
    assert "nothing can be tried" in why.text


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/dashboard/requests/nobody", 404),
        ("/dashboard/nothing", 404),
        ("/dashboard/static/nothing.js", 404),
        ("/dashboard/requests?page=0", 422),
        ("/dashboard/requests?kind=other", 422),
        ("/dashboard/requests/x/why", 422),
    ],
)
async def test_what_cannot_be_shown_is_a_page_that_says_why(client, path, status):
    answer = await client.get(path)
    assert answer.status_code == status
    assert 'role="alert"' in answer.text
    assert answer.headers["content-type"].startswith("text/html")


@pytest.mark.parametrize("gate", [{"fuse": {"caps": {"session": {"tokens": 5}}}}], indirect=True)
async def test_a_paused_session_is_resumed_from_its_page(gate, client):
    held = gate.spending.hold("monday", "", Amount(9))
    gate.spending.settle(held, Amount(9))
    page = await client.get("/dashboard/costs")
    assert "is paused" in page.text
    token = re.search(r'name="csrf" value="(\w+)"', page.text)[1]
    client.headers["cookie"] = re.search(r"millgate_csrf=[\w-]+", page.headers["set-cookie"])[0]
    answer = await client.post("/dashboard/costs/resume", content=f"csrf={token}&session=monday")
    assert answer.status_code == 303
    assert gate.spending.list_spends()[0][0].tokens == 0


async def test_a_search_in_another_script_finds_its_request(gate, client):
    gate.context("Wie hoch ist die Rückerstattung?")
    answer = await client.get("/dashboard/requests", params={"q": "RÜCKERSTATTUNG"})
    assert "1 found" in answer.text
