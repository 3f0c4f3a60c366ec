"""Hostile text in every place where a text can stand: shown as it is, and never run."""

import time
from urllib.parse import quote

import orjson
import pytest
from tests.dashboard.attacks import ATTACKS
from tests.dashboard.browser import opened
from tests.service.clients import until

from millgate.circles.finder import Circle, Tried
from millgate.circles.steps import CircleSteps, Mark
from millgate.guard.report import Cut, GuardReport
from millgate.service.observe.call_trace import call_trace
from millgate.service.observe.model_call import ModelCall
from millgate.spending.limits import CapStatus

ALL = "\n".join(ATTACKS)  # for the pages of a single chunk and a single call


def hostile_call(gate, number, text):
    """A call in which everything that an outsider chooses is the attack."""
    report = GuardReport(rollbacks=1, cuts=[Cut("content", 9, 2, 3, text, text, 9, at=5, text=text)])  # fmt: skip
    message = {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "type": "function", "function": {"name": text, "arguments": "{}"}}]}  # fmt: skip
    result = {"role": "tool", "tool_call_id": "1", "content": text * 20}
    sent = orjson.dumps({"messages": [{"role": "user", "content": text}, message, result]})
    call = ModelCall(
        "/v1/chat/completions", "chat", id=f"call-{number}", model=text, upstream=text, query=text, session=text,
        sent=sent, report=report, answer=f"{text} and on", error=text,
    )  # fmt: skip
    circle = Circle(1, 3, (Tried(text, "{}", text),), 1, 3)
    call.circles = CircleSteps((Mark(2, "note", circle),))
    call.cap_statuses = (CapStatus("session", text, "paused", 9, 5, "tokens"),)
    gate.save_trace(call_trace(call, tenant=gate.tenant, now=time.time()))


@pytest.fixture(scope="module", autouse=True)
def attacked(gate):
    gate.add({"id": text, "title": text, "text": f"refund {text} refund"} for text in ATTACKS)
    gate.add([{"id": "all", "title": "refund", "text": ALL}])
    for number, text in enumerate((*ATTACKS, ALL)):
        hostile_call(gate, number, text)
    made = [gate.context(f"refund {text}", window=[text], session=text[:200], budget=4000) for text in ATTACKS]  # fmt: skip
    last = gate.context("refund", window=[ALL], session=ALL[:200], k=3, budget=9000)
    gate.traces()
    return [context.trace.id for context in (*made, last)]


def check(page, path):
    page.goto(path)
    page.wait_for_timeout(50)
    assert page.evaluate("window.hacked") is None, path
    assert page.evaluate("document.querySelectorAll('main img, main iframe, main script, main object, main base').length") == 0, path  # fmt: skip


@pytest.mark.slow
def test_no_view_runs_what_it_shows(browser, base, attacked):
    assert len(ATTACKS) >= 40
    one, all_of_them = attacked[0], attacked[-1]
    paths = [
        "/dashboard/",
        f"/dashboard/?session={quote(ATTACKS[0])}",
        "/dashboard/requests",
        f"/dashboard/requests?page=2&q={quote(ATTACKS[12])}&session={quote(ATTACKS[13])}",
        f"/dashboard/requests/{one}",
        f"/dashboard/requests/{one}/why?chunk={quote(ATTACKS[14])}",
        f"/dashboard/requests/{one}/replay?budget={quote(ATTACKS[15])}",
        f"/dashboard/requests/{all_of_them}/chunk?chunk=all",
        "/dashboard/costs",
        f"/dashboard/requests?session={quote(ATTACKS[16])}",
        f"/dashboard/requests/call-{len(ATTACKS)}",
    ]
    with opened(browser, base) as page:
        until(lambda: page.request.get(paths[5]).ok)  # the index of the service follows by itself
        page.on("dialog", lambda dialog: pytest.fail(f"a dialog: {dialog.message}"))
        for path in paths:
            check(page, path)
        assert page.locator("del").inner_text().count("window.hacked") > 40, (
            "the text itself is shown"
        )
