"""`millgate fold` and `millgate expand`: requests of every API there and back, and the report of what folding did."""

import json
import time

import pytest
from bench.fixtures.coding import coding_session, render_all

from millgate.gateway import Millgate
from millgate.guard.dialects.gemini import GeminiDialect
from millgate.types import Plan, Request, Step, Strategy, Tier, Trace
from millgate.types.notes import Stage

SEED = 3  # of a session with several folds


def request_of(kind):
    messages = render_all(coding_session(SEED), kind)
    if kind == "gemini":
        return GeminiDialect().replace_conversation(messages)
    return {"model": "m", "input" if kind == "responses" else "messages": messages}


@pytest.mark.parametrize("kind", ["chat", "messages", "responses", "gemini"])
def test_a_request_is_folded_and_expanded(run, tmp_path, kind):
    given = request_of(kind)
    (tmp_path / "request.json").write_text(json.dumps(given))
    code, folded, err = run("fold", "request.json")
    assert code == 0
    assert len(json.dumps(json.loads(folded))) < len(json.dumps(given))
    assert "tokens" in err
    (tmp_path / "folded.json").write_text(folded)
    code, back, _ = run("expand", "folded.json")
    assert code == 0
    assert json.loads(back) == given


def test_the_folds_are_listed_as_data(run, tmp_path):
    (tmp_path / "m.json").write_text(json.dumps(request_of("messages")["messages"]))
    _, out, _ = run("fold", "m.json", "--json")
    found = json.loads(out)["folds"]
    assert found[0]["lines"] >= 20
    assert found[0]["pointer"].startswith("[These ")


def test_what_holds_no_conversation_is_refused(run, tmp_path):
    for text, words in (("{", "is not JSON"), ('{"a": 1}', "holds no conversation")):
        (tmp_path / "x.json").write_text(text)
        code, _, err = run("fold", "x.json")
        assert code == 2
        assert words in err


def keep_call(gate, session, group, **facts):
    """Keep the trace of a call as the proxy writes it."""
    plan = Plan(skip=True, tier=Tier.STUFF, strategy=Strategy.STUFF, budget=0, reasoning="")
    call = Step(Stage.MODEL, 0.1, facts={"model": "m", "guard": "clean", "input_tokens": 900, "output_tokens": 10, "cost": 0.5})  # fmt: skip
    fold = Step(Stage.FOLD, 0.0, facts={"group": group, "folds": 1, **facts})
    id = f"{session}{facts}"
    trace = Trace(id, Request("q", session=session), plan, (call, fold), created=time.time())
    gate.save_trace_later(id, lambda: trace)


def test_the_report_compares_folded_sessions_with_those_held_out(run, tmp_path):
    with Millgate.open(str(tmp_path / "store")) as gate:
        keep_call(gate, "a", "on", saved_tokens=300, saved_cost=0.2, repeated_calls=1)
        keep_call(gate, "a", "on", saved_tokens=400, saved_cost=0.1, stops=1)
        keep_call(gate, "b", "holdout", would_save=500)
    _, out, _ = run("fold", "report", "--store", "store", "--json")
    folded, held = json.loads(out)
    assert (folded["group"], folded["sessions"], folded["turns"]) == ("on", 1, 2)
    assert (folded["saved"], folded["repeated_calls"], folded["stopped"]) == (700, 1, 1)
    assert folded["saved_cost"] == pytest.approx(0.3)
    assert (held["group"], held["saved"], held["stopped"]) == ("holdout", 500, 0)
    _, out, _ = run("fold", "report", "--store", "store")
    assert "held out" in out


def test_a_store_without_folded_calls_says_so(run, tmp_path):
    Millgate.open(str(tmp_path / "store")).close()
    _, out, _ = run("fold", "report", "--store", "store")
    assert "no call was folded or measured yet" in out
