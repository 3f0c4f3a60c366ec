"""The generated pages are what the code says, and the service takes every body that they show."""

import importlib.util
from pathlib import Path

import pytest
from tests.service.clients import connected

from millgate import Millgate
from millgate.service.app import create
from millgate.settings import Settings

DOCS = Path(__file__).parent.parent / "docs"


def load_generator():
    spec = importlib.util.spec_from_file_location("docs_generate", DOCS / "generate.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


generate = load_generator()
PAGES = generate.pages()


@pytest.mark.parametrize("name", sorted(PAGES))
def test_a_generated_page_is_up_to_date(name):
    assert (DOCS / name).read_text(encoding="utf-8") == PAGES[name], "run: make docs"


def test_every_route_that_takes_a_body_shows_one():
    taking = {
        f"{method.upper()} {path}"
        for path, operations in generate.openapi()["paths"].items()
        for method, operation in operations.items()
        if "requestBody" in operation
    }
    assert taking - set(generate.EXAMPLES) == set()
    assert set(generate.EXAMPLES) - taking == set()


async def test_the_service_takes_every_body_that_is_shown():
    settings = Settings(store=":memory:")
    with Millgate.open(settings=settings) as gate:
        async with connected(create(gate)) as client:
            known = {}
            for route, body in generate.EXAMPLES.items():
                if route in DEPENDENT:
                    continue
                method, path = route.split(" ")
                for place, id in known.items():
                    path = path.replace(f"{place}/{{id}}", f"{place}/{id}")
                answer = await client.request(method, path, json=body)
                assert answer.status_code == 200, (route, answer.text)
                told = answer.json()
                if route == "POST /v1/facts":
                    known["/v1/facts"] = told["fact"]["id"]
                if route == "POST /v1/context":
                    known["/v1/traces"] = told["trace"]


# what needs a review that waits, a paused session or a signed slice is tried with one by the tests of its route
DEPENDENT = {
    "POST /v1/reviews/{id}/draft",
    "POST /v1/reviews/{id}",
    "POST /v1/sessions/resume",
    "POST /v1/graph/slices",
    "POST /v1/graph/verify",
}
