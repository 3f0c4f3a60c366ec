"""Folding in the proxy: off by default, under the prefix law on every API, measured without a change, and stopping."""

import json

import pytest
from bench.fixtures.coding import coding_session, render_all
from bench.fixtures.sessions import MadeCall, Turn, render
from tests.proxy import web
from tests.proxy.upstream import PROSE, response_stream, said, told
from tests.waiting import MOST_S

import millgate
from millgate.circles.policy import CirclesPolicy
from millgate.circles.reader import is_from_model
from millgate.errors import ConfigError
from millgate.explain.describe import describe
from millgate.guard.dialects.gemini import GeminiDialect
from millgate.service.conversation_state import ConversationState
from millgate.service.observe.call_trace import call_trace
from millgate.service.observe.model_call import FoldedCall
from millgate.sessions.folding.policy import FoldPolicy
from millgate.sessions.folding.report import Fold, FoldReport
from millgate.sessions.prompt_cache.judgment import CacheCounts
from millgate.spending.prices import Price

PATHS = {"chat": "/v1/chat/completions", "messages": "/v1/messages", "responses": "/v1/responses"}
STREAMS = {
    "chat": said(*PROSE),
    "messages": told(*PROSE),
    "responses": response_stream(texts=PROSE),
}
CODE = "\n".join(f"    value_{n} = load({n * 7})" for n in range(60))
ON = FoldPolicy(mode="on")
SEED = 3  # of a session with several folds


@pytest.fixture(scope="module")
def folding(rig):
    return rig.serve(fold=ON)


def post(served, api, model, messages, headers=None, **more):
    body = {"model": model, "stream": True, "max_tokens": 100, **more}
    body |= {"input" if api == "responses" else "messages": messages}
    return web.post(served.url + PATHS[api], json=body, headers=headers, timeout=MOST_S)


def sent(upstream, model, api="messages"):
    """The conversation as it reached the model."""
    return upstream.seen[model][-1].json["input" if api == "responses" else "messages"]


def reads(copies, *more, path="a.py", api="messages"):
    """A conversation in which a file is read again and again, with other calls in between."""
    turns = [Turn(human="Read a.")]
    for n in range(copies):
        turns.append(Turn(calls=(MadeCall("Read", {"file_path": path}, CODE),)))
        turns.append(Turn(calls=(MadeCall("Bash", {"command": f"true {n}"}, f"{n}"),)))
    return render([*turns[:-1], *more], api)


def requests_of(messages):
    """The beginnings of a conversation that an agent would send: up to each message of the model."""
    turns = [at for at, message in enumerate(messages) if is_from_model(message)]
    return [messages[:at] for at in turns if not is_from_model(messages[at - 1])]


def test_nothing_is_folded_unless_it_is_asked_for(rig, served, upstream):
    model = rig.script(STREAMS["messages"])
    body = json.dumps({"model": model, "messages": reads(2), "stream": True}, indent=1)
    headers = {"content-type": "application/json"}
    reply = web.post(served.url + PATHS["messages"], content=body, headers=headers, timeout=MOST_S)
    assert upstream.seen[model][-1].body == body.encode()
    assert "x-millgate-fold" not in reply.headers


@pytest.mark.parametrize("api", PATHS)
def test_every_request_of_a_session_begins_as_the_last_and_can_be_expanded(rig, folding, upstream, api):  # fmt: skip
    model, before = rig.script(STREAMS[api]), []
    messages = render_all(coding_session(SEED), api)
    folded = 0
    for request in requests_of(messages):
        reply = post(folding, api, model, request)
        now = sent(upstream, model, api)
        assert now[: len(before)] == before
        assert millgate.expand(now) == request
        assert reply.content == b"".join(STREAMS[api])
        before, folded = now, folded + (now != request)
    assert folded
    assert folding.calls[-1].fold.report.folds


def test_gemini_is_folded_in_its_own_shape():
    dialect = GeminiDialect()
    messages = render_all(coding_session(SEED), "gemini")
    sent, report = millgate.fold(messages)
    contents = dialect.replace_conversation(sent)
    assert report.folds[0].pointer[:50] in str(contents)
    back = millgate.expand(list(dialect.conversation(contents)))
    assert dialect.replace_conversation(back) == dialect.replace_conversation(messages)


def test_measuring_changes_no_byte_and_says_what_it_would_save(rig, upstream):
    measuring = rig.serve(fold=FoldPolicy(mode="measure"))
    model = rig.script(STREAMS["messages"])
    reply = post(measuring, "messages", model, reads(2))
    assert sent(upstream, model) == reads(2)
    assert reply.headers["x-millgate-fold"].startswith("measure: 1 run, ")
    assert measuring.calls[-1].fold.report.saved_tokens > 500


def test_the_header_goes_before_the_settings(rig, served, folding, upstream):
    model = rig.script(STREAMS["messages"])
    post(served, "messages", model, reads(1), {"x-millgate-fold": "on"})
    post(served, "messages", model, reads(2), {"x-millgate-fold": "on"})
    assert sent(upstream, model) != reads(2)
    assert "x-millgate-fold" not in post(folding, "messages", model, reads(2), {"x-millgate-fold": "off"}).headers  # fmt: skip
    assert sent(upstream, model) == reads(2)
    refused = post(served, "messages", model, reads(2), {"x-millgate-fold": "maybe"})
    assert refused.status_code == 400
    assert "off, measure or on" in refused.json()["error"]["message"]


def test_upstream_key_and_session_have_modes_of_their_own():
    policy = FoldPolicy(by={"upstream:u": "on", "key:k": "measure", "session:s": "off"})
    assert policy.mode_for(upstream="v") == "off"
    assert policy.mode_for(upstream="u") == "on"
    assert policy.mode_for(upstream="u", key="k") == "measure"
    assert policy.mode_for(upstream="u", key="k", session="s") == "off"
    for name in ("u", "model:x", "key:"):
        with pytest.raises(ConfigError, match="session:NAME, key:ID or upstream:NAME"):
            FoldPolicy(by={name: "on"})


def test_a_holdout_leaves_a_share_of_the_sessions_alone(rig, upstream):
    policy = FoldPolicy(mode="on", holdout=0.5)
    names = [f"session {n}" for n in range(400)]
    held = [name for name in names if policy.is_held_out(name)]
    assert 150 < len(held) < 250
    assert not any(ON.is_held_out(name) for name in names)
    served, model = rig.serve(fold=policy), rig.script(STREAMS["messages"])
    for name, is_held in ((held[0], True), (next(n for n in names if n not in held), False)):
        for copies in (1, 2):
            post(served, "messages", model, reads(copies), {"x-millgate-session": name})
        assert (sent(upstream, model) == reads(2)) is is_held
        assert served.calls[-1].fold.group == ("holdout" if is_held else "on")


def test_what_was_sent_before_folding_was_switched_on_stays_as_it_was(rig, folding, upstream):
    model = rig.script(STREAMS["messages"])
    begun = reads(2, Turn(text="So far."), Turn(human="Go on."))
    post(folding, "messages", model, begun)
    assert sent(upstream, model) == begun
    more = [*begun, *reads(1)[1:]]
    post(folding, "messages", model, more)
    now = sent(upstream, model)
    assert now[: len(begun)] == begun
    assert now[-1] != more[-1]


def test_folding_stops_for_a_session_whose_model_asks_again(rig, upstream):
    served = rig.serve(fold=ON, circles=CirclesPolicy(rungs={}))
    model, session = rig.script(STREAMS["messages"]), {"x-millgate-session": "heals"}
    for copies in (1, 2, 3):
        reply = post(served, "messages", model, reads(copies), session)
    assert sent(upstream, model)[-1] == reads(3)[-1]
    assert "stopped: " in reply.headers["x-millgate-fold"]
    assert served.calls[-1].fold.has_stopped
    # the prefix stands, what comes after it is not folded, nor is another conversation of the session
    post(served, "messages", model, reads(5), session)
    assert sent(upstream, model)[10:] == reads(5)[10:]
    compacted = reads(2)
    compacted[0] = {"role": "user", "content": "A summary."}
    for end in (1, len(compacted)):
        post(served, "messages", model, compacted[:end], session)
    assert sent(upstream, model) == compacted


def test_a_state_that_cannot_be_kept_leaves_the_request_as_it_is(rig, upstream, tmp_path):
    broken = ConversationState(tmp_path / "no folder" / "proxy.db")
    served, model = rig.serve(fold=ON, remembered=broken), rig.script(STREAMS["messages"])
    for copies in (1, 2):
        post(served, "messages", model, reads(copies))
    assert sent(upstream, model) == reads(2)


def test_the_trace_names_every_fold_and_its_text(rig, folding):
    model = rig.script(STREAMS["messages"])
    for copies in (1, 2):
        post(folding, "messages", model, reads(copies), {"x-millgate-session": "traced"})
    trace = call_trace(folding.calls[-1], tenant="default", now=1.0)
    whole, fold = (step for step in trace.steps if step.stage == "fold")
    assert whole.facts["group"] == "on"
    assert whole.facts["saved_tokens"] == fold.facts["tokens"] > 0
    assert whole.facts["repeated_calls"] == 1
    assert fold.text == CODE
    assert fold.facts["source"].startswith("the result of your call Read(a.py), call toolu_")
    told = [one.what for one in describe(trace).done if one.stage == "fold"]
    assert told[0].startswith("60 lines were folded")


def test_the_saving_is_priced_as_the_cache_was_used():
    folds = tuple(Fold(at, (), 0, 20, 1_000_000, "", "") for at in (1, 9))
    price = Price(input=1.0, output=0.0, cached=0.1, written=1.25)
    for counts, cost in (
        (None, 2.0),
        (CacheCounts(5, 5, 0, is_automatic=False), 1.35),
        (CacheCounts(5, 0, 0, is_automatic=True), 1.1),
    ):
        call = FoldedCall("on", FoldReport(folds), 5)
        call.price(price, counts)
        assert call.saved_cost == pytest.approx(cost)
