"""Hostile text in documents, collections, reviews, reasons and tenants: shown as it is, and never run."""

from dataclasses import replace

import pytest
from tests.dashboard.attacks import ATTACKS
from tests.dashboard.browser import opened

pytestmark = pytest.mark.slow  # each opens dozens of pages

ALL = "\n".join(ATTACKS)
NAMED = ATTACKS[12]  # a collection of that name
COUNT = "main img, main iframe, main script, main object, main base, main form[action^='javascript'], main a[href^='javascript']"


@pytest.fixture(scope="module", autouse=True)
def attacked(gate):
    """The paths of pages on which every text that an outsider chooses is an attack."""
    gate.add({"id": t, "title": t, "text": f"refund {t}", "metadata": {t: t}} for t in ATTACKS)
    gate.add([{"id": "all", "title": ALL[:400], "text": ALL}], collection=NAMED)
    asked = [gate.reviews.ask(t, collection=NAMED, grades={t: 0.5}, reason=t) for t in ATTACKS]
    gate.reviews.answer(asked[0].id, ALL, who=ALL[:1000], note=ALL[-1000:])
    made = gate.context("refund").trace
    for n, t in enumerate(ATTACKS):
        steps = (replace(made.steps[0], degraded=t), *made.steps[1:])
        gate.save_trace(replace(made, id=f"degraded-{n}", steps=steps))
    gate.traces()
    return [
        "/dashboard/reviews",
        *(f"/dashboard/reviews/{review.id}" for review in asked[::4]),
        "/dashboard/health",
    ]


@pytest.mark.slow
def test_no_view_of_reviews_and_health_runs_what_it_shows(browser, base, attacked):
    with opened(browser, base) as page:
        page.on("dialog", lambda dialog: pytest.fail(f"a dialog: {dialog.message}"))
        for path in attacked:
            assert page.goto(path).status == 200, path
            page.wait_for_timeout(30)
            assert page.evaluate("window.hacked") is None, path
            assert page.locator(COUNT).count() == 0, path
        assert page.locator("td", has_text="window.hacked").count() > 10, "the text itself is shown"


def test_a_tenant_of_a_hostile_name_is_named_and_not_run(browser, base, gate):
    for text in (ATTACKS[0], ATTACKS[12], ATTACKS[14]):
        key = gate.for_tenant(text).keys.create(["read"])
        with opened(browser, base, clean=False) as page:
            page.goto("/dashboard/sign-in")
            page.get_by_label("API key").fill(key.token)
            page.get_by_role("button", name="Sign in").click()
            page.goto("/dashboard/health")
            assert page.locator(".who").inner_text().startswith(text.split("\t")[0][:20])
            assert page.evaluate("window.hacked") is None
