"""The service of `millgate demo --serve` in a real browser: every view of it, and what a person does there."""

import re

import pytest
from tests.dashboard.browser import PHONE, expect, opened
from tests.service.clients import served, until

from millgate.cli.demo import demo_settings, play
from millgate.gateway import Millgate

QUESTION = "How long do refunds take, and what does the customer have to send?"


@pytest.fixture(scope="module")
def base():
    """The address of a service in which the demo ran."""
    with demo_settings(0) as settings, served(settings) as (url, _):
        play(url)
        with Millgate.open(settings=settings) as gate:
            until(lambda: sum(bool(row.outcome) for row in gate.traces(limit=1000)) == 17)
        yield url


@pytest.fixture(scope="module")
def traces(base, browser):
    with opened(browser, base) as page:
        return page.request.get("/v1/traces?limit=1000").json()["traces"]


@pytest.fixture
def page(browser, base):
    with opened(browser, base) as page:
        yield page


@pytest.fixture
def asked(page, traces):
    """The page of the first question, which came with a window."""
    id = [row["id"] for row in traces if row["query"] == QUESTION][-1]
    page.goto(f"/dashboard/requests/{id}")
    return page


def test_the_first_view_is_small(browser, base):
    with opened(browser, base) as page:
        sizes = []
        page.on("response", lambda response: sizes.append(len(response.body())))
        page.goto("/", wait_until="networkidle")
        assert len(sizes) <= 10
        assert sum(sizes) <= 300_000
        assert page.locator("h1").inner_text() == "The window"


@pytest.mark.parametrize(
    "look", [{}, {"color_scheme": "dark"}, {"viewport": PHONE}], ids=["light", "dark", "phone"]
)
def test_every_view_loads_cleanly(browser, base, traces, look):
    question = [row["id"] for row in traces if row["query"] == QUESTION]
    cut = next(row["id"] for row in traces if row["outcome"] == "recovered")
    paths = (
        "/dashboard/",
        "/dashboard/requests",
        f"/dashboard/requests/{question[-1]}",
        f"/dashboard/requests/{cut}",
        "/dashboard/costs",
    )
    with opened(browser, base, **look) as page:
        for path in paths:
            assert page.goto(path).status == 200
            assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, path


def test_the_navigation_of_a_phone_is_one_line_and_shows_where_one_is(browser, base):
    with opened(browser, base, viewport=PHONE) as page:
        page.goto("/dashboard/health")
        links = page.locator(".top nav a")
        assert len({link.bounding_box()["y"] for link in links.all()}) == 1
        expect(page.locator(".top nav [aria-current]")).to_be_in_viewport(ratio=1)


def test_the_scrubber_shows_what_a_turn_added_and_what_a_compaction_dropped(page):
    page.goto("/")
    slider = page.get_by_role("slider", name=re.compile("Turn"))
    facts = page.locator("#turn-facts")
    slider.fill("2")
    expect(facts).to_contain_text("results of read_file")
    slider.fill("16")
    expect(facts).to_contain_text("compacted")
    assert page.locator("#bars path.filled").count() == 7, "every kind of token stands in the demo"
    slider.press("ArrowLeft")
    expect(page.locator("#turn-number")).to_have_text("15")


def test_a_note_of_the_ladder_leaves_the_injected_block_in_the_window(page):
    page.goto("/")
    rows = page.locator("#turns tbody tr").all_inner_texts()
    noted = [row for row in rows if "circle: " in row]
    assert len(noted) == 2
    column = page.locator("#turns thead th").all_inner_texts().index("injected by Millgate")
    for row in page.locator("#turns tbody tr", has_text="circle: ").all():
        assert int(row.locator("td").nth(column).inner_text().replace(",", "")) > 200


def test_a_chunk_stands_beside_the_passage_of_the_window_that_it_repeats(asked):
    asked.get_by_role("link", name="Refund policy").click()
    marks = asked.locator("#detail mark")
    expect(marks).to_have_count(2)
    assert marks.all_inner_texts() == ["Refunds are paid within 14 days to the card that was charged"] * 2  # fmt: skip
    expect(asked.locator("#detail")).to_contain_text("new to the window")


def test_why_not_names_the_smallest_change(asked):
    asked.locator("tr", has_text="service-log").get_by_role("link", name="why not?").click()
    expect(asked.locator("#detail")).to_contain_text("gate left it out")
    expect(asked.locator("#detail li").first).to_contain_text("gate.min_ratio")


def test_sliders_show_at_once_what_enters_and_leaves(asked):
    budget = asked.get_by_role("slider", name=re.compile("budget"))
    budget.fill("100")
    expect(asked.locator("#replay")).to_contain_text("With budget = 100")
    left = asked.locator("#replay .dropped").first
    expect(left).to_contain_text("refund-steps-2023")
    asked.get_by_role("button", name="Back to what it was").click()
    expect(asked.locator("#replay")).to_contain_text("As it was")


def test_a_replay_shows_the_context_as_the_model_gets_it(asked):
    asked.get_by_role("link", name="The context as the model gets it").click()
    asked.locator("#context-text summary").click()
    expect(asked.locator("#context-text pre")).to_contain_text("Refunds are paid within 14 days")


def test_a_call_links_the_context_that_was_put_in_front_of_its_question(page, traces):
    answered = next(row["id"] for row in traces if row["outcome"] == "clean" and row["session"] == "refund-4711")  # fmt: skip
    page.goto(f"/dashboard/requests/{answered}")
    page.get_by_role("link", name=re.compile("millgate why ")).click()
    expect(page.get_by_role("heading", name="Candidates")).to_be_visible()


def test_the_axis_of_a_short_session_ends_at_its_last_turn(page):
    page.goto("/dashboard/?session=support")
    turns = page.locator("#turns tbody tr").count()
    assert turns < 12
    assert page.locator(".along").first.inner_text().split()[-1] == str(turns)


def test_a_cut_answer_is_shown_with_what_was_cut(page):
    page.goto("/dashboard/requests?kind=cut")
    page.locator("tbody a", has_text="Does she have to send us anything").click()
    assert "then to check the label" in page.locator("del").inner_text()
    assert "the order number is enough" in page.locator("pre.answer").inner_text()
    assert page.locator("svg path.line").count() == 2


def test_sessions_have_a_forecast_and_a_circle_is_told(page):
    page.goto("/dashboard/costs")
    assert "of 30,000 tokens" in page.locator("main").inner_text()
    page.goto("/dashboard/?session=refund-4711")
    page.locator("#turns tr", has_text="circle: ").first.get_by_role("link").first.click()
    expect(page.get_by_role("heading", name="What Millgate did")).to_be_visible()
    assert "was added to the last tool result" in page.locator("main").inner_text()


def test_a_request_reads_without_scripts(browser, base, traces):
    id = [row["id"] for row in traces if row["query"] == QUESTION][-1]
    with opened(browser, base, java_script_enabled=False) as page:
        page.goto(f"/dashboard/requests/{id}")
        page.get_by_role("button", name="Replay").click()
        assert "As it was" in page.locator("#replay").inner_text()
        page.go_back()
        page.get_by_role("link", name="why not?").first.click()
        assert "left it out" in page.locator("#detail").inner_text()
