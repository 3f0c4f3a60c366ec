"""The list of requests: live, filtered, searched, and read without a script."""

import pytest
from tests.dashboard.browser import PHONE, expect, opened

pytestmark = pytest.mark.slow  # a browser; test_demo.py and test_sign_in.py look in the quick run

WINDOW = ["Refunds are paid within 14 days to the card."]


@pytest.fixture(scope="module", autouse=True)
def asked(gate):
    gate.context("how are refunds paid?", window=WINDOW, session="monday", budget=300)
    gate.context("who checks large refunds?", session="tuesday", budget=300)
    gate.traces()  # they are written behind the answer


@pytest.fixture
def page(browser, base):
    with opened(browser, base) as page:
        yield page


def test_the_newest_request_stands_first(page):
    page.goto("/dashboard/requests")
    assert page.locator("tbody tr").first.inner_text().count("who checks large refunds?") == 1


def test_a_search_shows_matching_requests_while_it_is_typed(page):
    page.goto("/dashboard/requests")
    page.get_by_label("Search").fill("PAID how")
    expect(page.locator("tbody tr")).to_have_count(1)
    assert "how are refunds paid?" in page.locator("tbody").inner_text()
    assert "q=PAID+how" in page.url


def test_a_session_is_a_filter(page):
    page.goto("/dashboard/requests?session=tuesday")
    assert page.locator("tbody tr").count() == 1


def test_a_filter_that_finds_nothing_says_so(page):
    page.goto("/dashboard/requests?kind=degraded")
    assert "Nothing matches" in page.locator("#rows").inner_text()


def test_a_new_request_appears_by_itself(page, gate):
    page.goto("/dashboard/requests")
    gate.context("when do parcels leave?")
    gate.traces()
    page.get_by_text("when do parcels leave?").wait_for()


def test_a_lost_connection_is_said_and_recovers(browser, base):
    with opened(browser, base, clean=False) as page:
        page.goto("/dashboard/requests")
        page.context.set_offline(True)
        page.get_by_text("The connection is lost").wait_for()
        page.context.set_offline(False)
        page.locator("#connection").wait_for(state="hidden")


def test_the_page_works_without_scripts(browser, base):
    with opened(browser, base, java_script_enabled=False) as page:
        page.goto("/dashboard/requests")
        page.get_by_label("Session").fill("monday")
        page.get_by_role("button", name="Filter").click()
        assert page.locator("tbody tr").count() == 1


def test_nothing_is_wider_than_a_phone(browser, base):
    with opened(browser, base, viewport=PHONE) as page:
        page.goto("/dashboard/requests")
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
