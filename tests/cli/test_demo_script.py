"""The scripted session of the demo: each call of the agent carries what came before, and the model's script fits it."""

import json
import re
import urllib.request

import pytest
from tests.waiting import MOST_S

from millgate.cli import demo, demo_service
from millgate.cli.demo_script import EVENTS, Compacts, Human, Says, Uses, conversations, streams
from millgate.cli.demo_service import ScriptedService


def test_each_turn_of_the_model_is_one_call_and_each_stream_is_sent():
    turns = [event for event in EVENTS if isinstance(event, Says | Uses)]
    assert len(list(conversations())) == len(turns)
    said = [stream for turn in turns for stream in (turn.streams if isinstance(turn, Says) else [turn])]  # fmt: skip
    assert list(streams()) == said


def test_a_conversation_grows_until_it_is_compacted():
    calls = list(conversations())
    compacted = next(event for event in EVENTS if isinstance(event, Compacts))
    first = next(event for event in EVENTS if isinstance(event, Human))
    assert [message["role"] for message in calls[0]] == ["system", "user"]
    assert calls[0][1]["content"] == first.text
    after = next(call for call in calls if call[1]["content"] == compacted.summary)
    assert len(after) < max(map(len, calls))
    assert after[2]["role"] == "user"
    for call in calls:
        used = {c["id"] for m in call for c in m.get("tool_calls", ())}
        assert used == {m["tool_call_id"] for m in call if m["role"] == "tool"}


def test_the_scripted_loop_is_one_that_repeats():
    longest = max((s for s in streams() if isinstance(s, str)), key=len)
    assert longest.count("then to check the label, ") == 60
    assert longest.startswith("For a refund we need")


def test_the_scripted_model_sends_the_next_stream_in_pieces_and_then_the_last_one_again():
    with ScriptedService() as model:
        script = list(streams())
        taken = [model.next_stream() for _ in range(len(script) + 2)]
        assert taken == [*script, script[-1], script[-1]]
        events = list(demo_service._events("x" * 30))
        texts = [json.loads(e)["choices"][0]["delta"].get("content", "") for e in events[:-1]]
        assert [len(text) for text in texts] == [12, 12, 6, 0]
        assert events[-1] == "[DONE]"
        called = json.loads(next(demo_service._events(Uses("look", {"at": 1}, "seen"))))
        assert called["choices"][0]["delta"]["tool_calls"][0]["function"]["name"] == "look"


def test_the_scripted_model_speaks_server_sent_events():
    import threading

    with ScriptedService() as model:
        threading.Thread(target=model.serve_forever, daemon=True).start()
        request = urllib.request.Request(f"{model.url}/chat/completions", b"{}")
        with urllib.request.urlopen(request, timeout=MOST_S) as reply:
            lines = reply.read().split(b"\n\n")
        model.shutdown()
    assert all(line.startswith(b"data: ") for line in lines[:-1])
    assert lines[-2:] == [b"data: [DONE]", b""]


@pytest.mark.parametrize(("opens", "pages"), [(True, 1), (False, 0)])
def test_the_script_is_served_and_played_and_opened_if_that_is_asked(
    monkeypatch, capsys, opens, pages
):
    asked, played, served = [], [], []
    monkeypatch.setattr(demo_service, "open_page", asked.append)
    monkeypatch.setattr(demo_service, "play_aside", played.append)
    monkeypatch.setattr(demo_service.service_module(), "serve", lambda settings, _: served.append(settings))  # fmt: skip
    demo_service.serve_script(port=0, opens=opens)
    assert (len(asked), len(played), len(served)) == (pages, 1, 1)
    told = capsys.readouterr().out.splitlines()[0]
    assert re.search(r"http://127\.0\.0\.1:\d+$", told), (
        "a terminal takes a full stop into the link"
    )


@pytest.mark.parametrize(
    ("program", "on_path", "said"),
    [
        ("/opt/bin/pytest", None, "millgate"),
        ("/home/a/.cache/uv/x/bin/millgate", None, "uvx --from . millgate"),
        ("/home/a/.local/pipx-venvs/bin/millgate", None, "pipx run --spec . millgate"),
        ("/opt/bin/millgate", "/opt/bin/millgate", "millgate"),
        ("/opt/bin/millgate", "/usr/bin/millgate", "/opt/bin/millgate"),
        ("/opt/bin/millgate", None, "/opt/bin/millgate"),
    ],
)
def test_the_next_steps_are_written_as_this_program_is_called_here(monkeypatch, program, on_path, said):  # fmt: skip
    monkeypatch.setattr("sys.argv", [program])
    monkeypatch.setattr(demo, "which", lambda name: on_path)
    assert demo._command() == said
