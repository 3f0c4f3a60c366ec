"""The scripted session of the demo: each call of the agent carries what came before, and the model's script fits it."""

import json
import re
import threading
import urllib.request

import pytest
from tests.waiting import MOST_S

from millgate.cli import demo
from millgate.cli.demo import SCRIPT, ScriptedModel, conversations


def test_a_conversation_grows_until_it_is_compacted():
    calls = [messages for messages, _ in conversations()]
    events = SCRIPT["session"]
    assert len(calls) == sum("says" in event or "uses" in event for event in events)
    summary = next(event["compacts"] for event in events if "compacts" in event)
    assert [message["role"] for message in calls[0]] == ["system", "user"]
    assert calls[0][1]["content"] == events[0]["human"]
    after = next(call for call in calls if call[1]["content"] == summary)
    assert len(after) < max(map(len, calls))
    assert after[2]["role"] == "user"
    for call in calls:
        used = {c["id"] for m in call for c in m.get("tool_calls", ())}
        assert used == {m["tool_call_id"] for m in call if m["role"] == "tool"}


def test_one_answer_of_the_script_repeats_and_is_followed_by_what_was_meant():
    (twice,) = [answers for _, answers in conversations() if len(answers) > 1]
    looping, after = (answer["content"] for answer in twice)
    assert looping.count("then to check the label, ") == 60
    assert "no label to photograph" in after


def test_the_scripted_model_streams_the_next_answer_each_time_and_then_the_last_one_again():
    with ScriptedModel() as model:
        threading.Thread(target=model.serve_forever, daemon=True).start()
        script = list(model.answers)
        for answer in (*script, script[-1]):
            assert ask(model) == answer
        model.shutdown()


def ask(model):
    """What a call gets, put together from its server-sent events."""
    request = urllib.request.Request(f"http://127.0.0.1:{model.server_port}/v1", b"{}")
    with urllib.request.urlopen(request, timeout=MOST_S) as reply:
        *events, done, rest = reply.read().split(b"\n\n")
    assert (done, rest) == (b"data: [DONE]", b"")
    *deltas, end = (json.loads(e.removeprefix(b"data: "))["choices"][0] for e in events)
    if end["finish_reason"] == "tool_calls":
        (delta,) = deltas
        return delta["delta"]
    assert end["finish_reason"] == "stop"
    return {"content": "".join(delta["delta"]["content"] for delta in deltas)}


@pytest.mark.parametrize(("opens", "pages"), [(True, 1), (False, 0)])
def test_the_script_is_served_and_played_and_opened_if_that_is_asked(
    monkeypatch, capsys, opens, pages
):
    asked, served, played = [], [], threading.Event()
    monkeypatch.setattr(demo, "open_page", asked.append)
    monkeypatch.setattr(demo, "play", lambda url: played.set())
    monkeypatch.setattr(demo.service_module(), "serve", lambda settings, _: served.append(settings))
    demo.serve_script(port=0, opens=opens)
    assert played.wait(MOST_S)
    assert (len(asked), len(served)) == (pages, 1)
    told = capsys.readouterr().out.splitlines()[0]
    assert re.search(r"http://127\.0\.0\.1:\d+$", told), (
        "a terminal takes a full stop into the link"
    )


@pytest.mark.parametrize(
    ("program", "on_path", "said"),
    [
        ("/opt/bin/pytest", None, "millgate"),
        ("/opt/bin/millgate", "/opt/bin/millgate", "millgate"),
        ("/opt/bin/millgate", "/usr/bin/millgate", "/opt/bin/millgate"),
        ("/opt/bin/millgate", None, "/opt/bin/millgate"),
    ],
)
def test_the_next_steps_are_written_as_this_program_is_called_here(run, monkeypatch, program, on_path, said):  # fmt: skip
    monkeypatch.setattr("sys.argv", [program])
    monkeypatch.setattr(demo, "which", lambda name: on_path)
    assert f"\n  {said} add YOUR_FOLDER\n" in run("demo")[1]
