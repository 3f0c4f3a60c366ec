"""The playground in a real browser: a question, its context, the sliders, and the test that is kept of it."""

import re
import tomllib

import pytest
from tests.dashboard.browser import PHONE, expect, opened

from millgate.evaluate.regression import run_case
from millgate.evaluate.regression_file import read_cases

QUESTION = "how are refunds paid?"


@pytest.fixture
def page(browser, base):
    with opened(browser, base) as page:
        page.goto("/dashboard/playground")
        yield page


def ask(page, question=QUESTION):
    page.get_by_label("Question").fill(question)
    page.get_by_role("button", name="Ask").click()


def test_a_question_shows_its_context_and_what_was_left_out(page, gate):
    before = len(gate.traces())
    ask(page)
    expect(page.locator("pre.block")).to_contain_text("Refunds are paid within 14 days")
    expect(page.locator("#result")).to_contain_text("boilerplate")
    assert "q=how" in page.url
    assert len(gate.traces()) == before, "a question that is only tried leaves no trace"


def test_a_slider_changes_the_context_at_once(page):
    ask(page)
    expect(page.locator("pre.block")).to_contain_text("[2]")
    page.get_by_role("slider", name=re.compile("budget")).fill("20")
    expect(page.locator("#result")).to_contain_text("of 20")
    expect(page.locator("#result")).to_contain_text("The context is empty")
    expect(page.locator("#result")).to_contain_text("no room")


def test_the_lowest_place_of_the_slider_of_k_is_no_number_and_the_next_one_is_1(page):
    ask(page)
    slider, label = page.get_by_role("slider", name=re.compile("most chunks")), page.locator("label", has_text="most chunks")  # fmt: skip
    expect(label).to_contain_text("not set")
    slider.press("ArrowRight")
    expect(label.locator(".value")).to_have_text("1")
    expect(page.locator("#result")).to_contain_text("1 chunk in")
    page.wait_for_url("**k=1*")
    page.reload()
    expect(label.locator(".value")).to_have_text("1")
    expect(page.locator("#result")).to_contain_text("1 chunk in")
    slider.press("ArrowLeft")
    expect(label).to_contain_text("not set")
    expect(page.locator("#result")).to_contain_text("2 chunks in")


def test_an_answer_that_is_late_does_not_replace_a_newer_one(page):
    page.route("**/playground?q=slow*", lambda _: None)  # it is never answered
    ask(page, "slow question")
    with page.expect_event("requestfailed", lambda request: "q=slow" in request.url):
        ask(page)
    expect(page.locator("pre.block")).to_contain_text("Refunds are paid within 14 days")


def test_a_slider_that_is_a_setting_is_named_for_the_settings_file(page):
    ask(page)
    page.get_by_role("slider", name=re.compile("boilerplate")).fill("0.2")
    expect(page.locator("#result")).to_contain_text("gate.min_ratio = 0.2")


def test_the_test_that_is_kept_passes(page, gate, tmp_path):
    ask(page)
    page.get_by_role("slider", name=re.compile("budget")).fill("100")
    expect(page.locator("#result")).to_contain_text("of 100")
    with page.expect_download() as download:
        page.get_by_role("link", name="Download it").click()
    file = tmp_path / "context.toml"
    download.value.save_as(file)
    (case,) = read_cases(file)
    assert (case.question, case.budget) == (QUESTION, 100)
    assert case.must
    assert not run_case(gate, case).failures


def test_the_test_can_be_copied(browser, base):
    options = {"permissions": ["clipboard-read", "clipboard-write"], "viewport": PHONE}
    with opened(browser, base, **options) as page:
        page.goto(f"/dashboard/playground?q={QUESTION}")
        page.get_by_role("button", name="Copy").click()
        expect(page.get_by_role("button", name="Copied")).to_be_visible()
        text = page.evaluate("navigator.clipboard.readText()")
    assert tomllib.loads(text)["test"][0]["question"] == QUESTION


def test_it_works_without_scripts(browser, base):
    with opened(browser, base, java_script_enabled=False) as page:
        page.goto("/dashboard/playground")
        ask(page)
        assert "Refunds are paid within 14 days" in page.locator("pre.block").inner_text()
