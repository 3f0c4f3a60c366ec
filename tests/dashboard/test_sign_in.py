"""Signing in with a key, what it shows, and signing out."""

import pytest
from tests.dashboard.browser import opened


@pytest.fixture(scope="module")
def keys(gate):
    """Once a key exists, one is needed."""
    other = gate.for_tenant("other")
    other.context("what does the other tenant ask?")
    gate.context("what do we ask?")
    gate.traces()
    return {"ours": gate.keys.create(["read"]), "theirs": other.keys.create(["read"])}


def sign_in(page, key):
    page.goto("/")
    page.get_by_label("API key").fill(key)
    page.get_by_role("button", name="Sign in").click()


def test_a_key_opens_what_its_tenant_may_see(browser, base, keys):
    for who, seen, unseen in (("ours", "what do we ask?", "other tenant"), ("theirs", "other tenant", "we ask")):  # fmt: skip
        with opened(browser, base, clean=False) as page:
            sign_in(page, keys[who].token)
            page.goto("/dashboard/requests")
            text = page.locator("main").inner_text()
            assert seen in text
            assert unseen not in text


def test_the_key_is_out_of_reach_of_scripts_and_of_other_routes(browser, base, keys):
    with opened(browser, base, clean=False) as page:
        sign_in(page, keys["ours"].token)
        page.wait_for_url("**/dashboard/")
        assert page.evaluate("document.cookie + JSON.stringify({...localStorage})") == "{}"
        (cookie,) = (c for c in page.context.cookies() if c["name"].startswith("millgate_session"))
        assert (cookie["httpOnly"], cookie["sameSite"], cookie["path"]) == (True, "Strict", "/dashboard")  # fmt: skip
        assert page.request.get("/v1/traces").status == 401


def test_a_wrong_key_leads_back_to_the_form(browser, base, keys):
    with opened(browser, base, clean=False) as page:
        for key, said in (("mg_" + "x" * 43, "the key is not valid"), ("nonsense", "not a key")):
            sign_in(page, key)
            assert said in page.get_by_role("alert").inner_text()
        assert not [c for c in page.context.cookies() if c["name"].startswith("millgate_session")]


def test_signing_out_closes_the_page(browser, base, keys):
    with opened(browser, base, clean=False) as page:
        sign_in(page, keys["ours"].token)
        page.get_by_role("button", name="Sign out").click()
        page.goto("/dashboard/requests")
        assert page.get_by_label("API key").is_visible()


def test_a_revoked_key_is_said_on_the_open_page(browser, base, gate, keys):
    made = gate.keys.create(["read"])
    with opened(browser, base, clean=False) as page:
        sign_in(page, made.token)
        page.goto("/dashboard/requests")
        gate.keys.revoke(made.key.id)
        page.get_by_text("You are signed out").wait_for()
