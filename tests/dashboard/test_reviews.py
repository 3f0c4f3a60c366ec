"""The review queue in a real browser, and what a key that may only read cannot open."""

import pytest
from tests.dashboard.browser import opened

pytestmark = pytest.mark.slow  # a browser; test_demo.py and test_sign_in.py look in the quick run


@pytest.fixture(scope="module", autouse=True)
def filled(gate):
    gate.reviews.ask("Who checks refunds of 900 euros?", collection="main", grades={"limits": 0.4}, reason="nothing was sure")  # fmt: skip


@pytest.fixture
def page(browser, base):
    with opened(browser, base) as page:
        yield page


def test_a_review_is_read_and_answered(page, gate):
    page.goto("/dashboard/reviews")
    page.get_by_role("link", name="Who checks refunds of 900 euros?").click()
    assert "Refunds above 500 euros" in page.locator("table").inner_text()
    page.get_by_label("Your answer").fill("The head of accounting does.")
    page.get_by_role("button", name="Answer").click()
    assert "The head of accounting does." in page.locator("main").inner_text()
    assert page.get_by_role("button", name="Approve").count() == 0
    assert "The head of accounting does." in [fact.content for fact in gate.facts.all()]


@pytest.mark.parametrize(("button", "status"), [("Approve", "approved"), ("Reject", "rejected")])
def test_what_was_found_is_approved_or_rejected(page, gate, button, status):
    asked = gate.reviews.ask(f"{button} this?", collection="main", grades={}, reason="unsure")
    page.goto(f"/dashboard/reviews/{asked.id}")
    page.get_by_role("button", name=button).click()
    page.locator(".tag", has_text=status).wait_for()
    assert gate.reviews.review(asked.id).status == status


def test_a_key_that_may_only_read_opens_no_page_that_changes_something(browser, base, gate):
    key = gate.keys.create(["read"])
    with opened(browser, base, clean=False) as page:
        page.goto("/dashboard/sign-in")
        page.get_by_label("API key").fill(key.token)
        page.get_by_role("button", name="Sign in").click()
        assert page.goto("/dashboard/reviews").status == 403
