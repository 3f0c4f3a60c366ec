"""One rule for sums: what a session took, cost and saved is the same figure wherever somebody reads it."""

import json
import re
from collections import Counter

import pytest
from tests.promises.sessions.agents import ClaudeCode
from tests.proxy.upstream import PROSE, told

from millgate.explain.costs import add_up, compare_groups
from millgate.sessions.xray.session import analyze
from millgate.wrap.summary import Summary

LOOP = (*PROSE, *["The keeper opened the gate and the river went on past the mill. "] * 200)
REQUESTS = 9


@pytest.fixture(scope="module")
def session(gateway_with, rig):
    """A session that is folded, with one answer that loops: requests, replies, service, and the calls upstream."""
    gateway, claude = gateway_with(fold=True, traces=100), ClaudeCode("sums")
    asked = [
        *claude.ask("How does the import read its pages?", (0, 1, 0, 1)),
        *claude.ask("And then?", (2, 0, 2)),
    ]
    assert len(asked) == REQUESTS
    sent, calls = [], 0
    for n, request in enumerate(asked):
        answers = (
            [told(*LOOP), told("So be it.")]
            if n == 4
            else [told("Well.", usage=(1_000 * n + 500, 40))]
        )
        sent.append(gateway.send(request, *answers))
        calls += len(rig.upstream.seen[request.fields["model"]])
    return asked, sent, gateway.service, calls


@pytest.fixture(scope="module")
def rows(session):
    return [row for row in session[2].gate.traces(limit=100) if row.outcome]


@pytest.fixture(scope="module")
def told_by_wrap(session):
    return Summary(Counter({"guarded": REQUESTS}), [session[2].metrics.text()])


def test_a_token_that_was_folded_counts_once(session, rows, told_by_wrap, tmp_path):
    asked, sent, _, _ = session
    log = tmp_path / "requests.jsonl"
    log.write_text("".join(json.dumps(request.fields) + "\n" for request in asked))
    found = {
        "header": sum(int(re.search(r"(\d+) of them new", one.notes["fold"])[1]) for one in sent),
        "wrap": told_by_wrap.sums["folded"],
        "costs": compare_groups(rows)[0].saved,
        "dashboard": sum(row.saved for row in rows),
        "xray": analyze([log]).fold.tokens,
    }
    assert found["header"] > 1_000
    assert len(set(found.values())) == 1, found


def test_calls_are_those_that_the_upstream_saw_the_guards_own_included(session, rows, told_by_wrap):
    found = {"upstream": session[3], "wrap": told_by_wrap.calls, "costs": add_up(rows).calls}
    assert found["upstream"] == REQUESTS + 1
    assert len(set(found.values())) == 1, found


def test_money_is_what_all_tries_cost(rows, told_by_wrap):
    total = add_up(rows)
    assert total.priced == total.calls
    assert told_by_wrap.cost == pytest.approx(total.cost, abs=1e-5)
    assert sum(row.cost.cost for row in rows) == pytest.approx(total.cost)
