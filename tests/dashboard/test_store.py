"""The store in a real browser: collections, documents, chunks, facts, the graph and the review queue."""

import re

import pytest
from tests.dashboard.browser import expect, opened

from millgate.types import Edge

pytestmark = pytest.mark.slow  # a browser; test_demo.py and test_sign_in.py look in the quick run


@pytest.fixture(scope="module", autouse=True)
def filled(gate):
    gate.add(({"id": f"n{n}", "text": f"Note number {n} on shipping."} for n in range(120)), collection="notes")  # fmt: skip
    gate.add([{"id": "long", "title": "A long one", "text": "\n\n".join(f"Part {n}. " + "words " * 200 for n in range(4))}])  # fmt: skip
    gate.graph.link([Edge("refunds", "checked_by", "Accounting"), Edge("Accounting", "part_of", "Finance", 0.5)])  # fmt: skip
    gate.remember("Accounting checks refunds on Fridays.")
    gate.reviews.ask("Who checks refunds of 900 euros?", collection="main", grades={"limits": 0.4}, reason="nothing was sure")  # fmt: skip


@pytest.fixture
def page(browser, base):
    with opened(browser, base) as page:
        yield page


def test_a_collection_is_browsed_in_reading_order_to_its_last_page(page):
    page.goto("/dashboard/store")
    page.get_by_role("link", name="notes", exact=True).click()
    assert page.locator("tbody tr").count() == 50
    assert "n0" in page.locator("tbody tr").first.inner_text()
    page.get_by_role("link", name="Next").click()
    page.get_by_role("link", name="Next").click()
    assert page.locator("tbody tr").count() == 20
    assert "n119" in page.locator("tbody tr").last.inner_text()
    assert page.get_by_role("link", name="Next").count() == 0


def test_chunks_are_searched_while_one_types(page):
    page.goto("/dashboard/store/collection?name=main")
    page.get_by_label("Search").fill("second person")
    expect(page.locator("#chunks caption")).to_contain_text("best first")
    assert "limits" in page.locator("tbody tr").first.inner_text()


def test_an_id_that_is_pasted_in_finds_its_chunk(page):
    page.goto("/dashboard/store/collection?name=notes&q=n77")
    assert "n77" in page.locator("tbody tr").first.inner_text()


def test_a_document_goes_only_after_a_question(page, gate):
    gate.add([{"id": "old", "title": "Old", "text": "This is out of date."}], collection="drafts")
    gate.add([{"id": "kept", "title": "Kept", "text": "This one stays."}], collection="drafts")
    page.goto("/dashboard/store/document?collection=drafts&id=old")
    page.get_by_role("link", name="Remove the document").click()
    page.get_by_role("link", name="Keep it").click()
    assert gate.document("old", collection="drafts")
    page.get_by_role("link", name="Remove the document").click()
    page.get_by_role("button", name="Remove the document").click()
    assert "1 chunk was removed" in page.locator("main").inner_text()
    assert "out of date" not in page.locator("main").inner_text()
    assert [size.documents for name, size in gate.collections().items() if name == "drafts"] == [1]


def test_a_chunk_and_a_whole_collection_can_go(page, gate):
    gate.add(({"id": f"t{n}", "text": f"Temporary {n}."} for n in range(3)), collection="temporary")
    page.goto("/dashboard/store/remove?collection=temporary&chunk=t1")
    page.get_by_role("button", name="Remove the chunk").click()
    assert gate.collections()["temporary"].chunks == 2
    page.get_by_role("link", name="Remove the collection").click()
    assert "2 chunks" in page.locator("main").inner_text()
    page.get_by_role("button", name="Remove the whole collection").click()
    page.wait_for_url("**/dashboard/store")
    assert "temporary" not in gate.collections()


def test_a_long_document_shows_all_its_chunks(page, gate):
    page.goto("/dashboard/store/document?collection=main&id=long")
    assert page.locator("section.card").count() == len(gate.document("long"))


def test_feedback_moves_the_trust_of_a_fact_and_is_plotted(page, gate):
    page.goto("/dashboard/store/facts")
    page.get_by_role("link", name="Accounting checks refunds").click()
    page.get_by_label("Why").fill("it answered a customer")
    page.get_by_role("button", name="It helped").click()
    expect(page.locator("tbody tr")).to_contain_text("helpful: it answered a customer")
    page.get_by_role("button", name="It did not").click()
    expect(page.locator("tbody tr")).to_have_count(2)
    (fact,) = gate.facts.all()
    assert (fact.helpful, fact.unhelpful, fact.trust) == (1, 1, 0.45)
    assert page.locator("figure path.line").get_attribute("d").count("V") == 3


def test_a_fact_is_forgotten_after_a_question(page, gate):
    made = gate.remember("The old office was in Bonn.").fact
    page.goto(f"/dashboard/store/facts/{made.id}")
    page.get_by_role("link", name="Forget it").click()
    page.get_by_role("button", name="Forget it").click()
    page.wait_for_url("**/dashboard/store/facts")
    assert "Bonn" not in page.locator("main").inner_text()


def test_the_graph_is_a_picture_whose_names_are_links(page):
    page.goto("/dashboard/store/graph")
    page.get_by_role("link", name="refunds").click()
    svg = page.get_by_role("group", name=re.compile("edges around refunds"))
    assert svg.locator("circle").count() == 2
    svg.get_by_role("link", name="Accounting").click()
    assert page.locator("svg.graph circle").count() == 3
    assert page.locator("tbody tr").count() == 2


def test_a_review_is_read_and_answered(page, gate):
    page.goto("/dashboard/store/reviews")
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
    page.goto(f"/dashboard/store/reviews/{asked.id}")
    page.get_by_role("button", name=button).click()
    page.locator(".tag", has_text=status).wait_for()
    assert gate.reviews.review(asked.id).status == status


def test_everything_works_without_scripts(browser, base):
    with opened(browser, base, java_script_enabled=False) as page:
        page.goto("/dashboard/store/collection?name=main")
        page.get_by_label("Search").fill("photo of the label")
        page.get_by_role("button", name="Search").click()
        assert "label" in page.locator("tbody tr").first.inner_text()
        page.locator("tbody tr").first.get_by_role("link", name="Remove").click()
        assert "cannot be undone" in page.locator("main").inner_text()


def test_a_key_that_may_only_read_sees_no_way_to_change(browser, base, gate):
    key = gate.keys.create(["read"])
    with opened(browser, base, clean=False) as page:
        page.goto("/dashboard/sign-in")
        page.get_by_label("API key").fill(key.token)
        page.get_by_role("button", name="Sign in").click()
        page.goto("/dashboard/store/collection?name=main")
        assert page.get_by_role("link", name="Remove").count() == 0
        page.goto("/dashboard/store/facts")
        assert page.get_by_role("button", name="Helped").count() == 0
        for path in ("remove?collection=main&chunk=log", "reviews"):
            assert page.goto(f"/dashboard/store/{path}").status == 403
        assert page.goto("/dashboard/health/doctor").status == 403
