"""The health of a service in a real browser: plots over time, and the parts."""

import time
from dataclasses import replace

import pytest
from tests.dashboard.browser import expect, opened

from millgate.service.dashboard.health import draw_charts, percentile
from millgate.service.dashboard.ranges import TimeRange
from millgate.types import ContextBudget, TraceSummary

PLOTS = [
    "Requests",
    "Pressure",
    "Tokens not sent twice",
    "Time to a context",
    "Degraded requests",
]


@pytest.fixture(scope="module", autouse=True)
def asked(gate):
    """Three requests: one of them degraded two hours ago, by a late step, one with a full window."""
    window = ["Refunds are paid within 14 days to the card."]
    made = gate.context("how are refunds paid?", window=window, budget=300).trace
    full = gate.context("refunds?", context_budget=ContextBudget(1000, 999)).trace
    steps = (replace(made.steps[0], degraded="it was too late"), *made.steps[1:])
    gate.save_trace(replace(made, id="late", created=made.created - 7200, steps=steps))
    assert full.plan.skip
    gate.traces()


@pytest.fixture
def page(browser, base):
    with opened(browser, base) as page:
        page.goto("/dashboard/health?span=day")
        yield page


def test_every_plot_has_a_name_and_its_numbers(page):
    assert page.locator("figure h2").all_inner_texts() == PLOTS
    for name in PLOTS:
        assert page.get_by_role("img", name=name, exact=True).count() == 1
    page.locator("summary", has_text="Pressure").click()
    assert "100 %" in page.locator("#pressure-numbers").inner_text()


def test_a_degraded_request_is_counted_with_its_reason(page):
    assert "it was too late" in page.locator("main").inner_text()


def test_a_range_can_be_chosen(page):
    expect(page.locator("dl.tiles")).to_contain_text("requests3")
    page.get_by_role("link", name="Hour").click()
    expect(page.locator("dl.tiles")).to_contain_text("requests2")
    expect(page.get_by_role("link", name="Hour")).to_have_attribute("aria-current", "true")
    assert "span=hour" in page.url


def test_pointing_at_a_column_shows_its_numbers(page):
    plot = page.locator("svg#context-times")
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    page.mouse.move(box["x"] + box["width"] - 2, box["y"] + 20)
    expect(page.locator(".tip")).to_contain_text("p95")
    page.mouse.move(box["x"] - 40, box["y"])
    expect(page.locator(".tip")).to_be_hidden()


def test_numbers_that_were_opened_stay_open_when_the_page_is_renewed(page, gate):
    page.locator("summary", has_text="Pressure").click()
    gate.context("how are refunds paid?", budget=200)
    gate.traces()
    page.get_by_role("link", name="Day").click()
    expect(page.locator("dl.tiles")).to_contain_text("requests4")
    expect(page.locator("#pressure-numbers table")).to_be_visible()


def test_the_parts_and_the_index_are_shown(page):
    text = page.locator("main").inner_text()
    assert "can it serve?\nyes" in text
    assert "Index lag" in text


def summary(created, **given):
    return TraceSummary(
        id=str(created), created=created, query="q", session="", collection="main", strategy="s", tier="t",
        pressure=0.5, skip=False, budget=1, candidates=1, kept=1, seconds=0.1, **given,
    )  # fmt: skip


def test_requests_are_split_by_time_and_none_is_lost():
    now = time.time()
    rows = [summary(now - age) for age in range(100)]
    start, end = rows[-1].created, rows[0].created
    begins = [start + (end - start) * at / 10 for at in range(10)]
    buckets = TimeRange("all", rows, begins, end).split()
    assert sum(map(len, buckets)) == 100
    assert all(8 <= len(some) <= 12 for some in buckets)


def test_requests_of_one_moment_are_one_bucket():
    rows = [summary(5.0, saved=7), summary(5.0)]
    charts = draw_charts(TimeRange("all", rows, [4.0, 5.0], 6.0))
    assert [chart.id for chart in charts] == ["requests", "pressure", "savings", "context-times"]


@pytest.mark.parametrize(("share", "found"), [(0.5, 51), (0.95, 96), (1.0, 100)])
def test_a_percentile_is_one_of_the_values(share, found):
    assert percentile(range(1, 101), share) == found
    assert percentile([], share) is None
