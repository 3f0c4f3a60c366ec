"""Folding says once what the window holds twice, and takes nothing away: it can be undone to the byte."""

import json
from copy import deepcopy

import pytest
from bench.fixtures.sessions import MadeCall, Turn, render

import millgate

FILE = "\n".join(f"value_{n} = load({n})" for n in range(60))
EDITED = FILE.replace("load(30)", "load(31)")
LOG = "\n".join(f"step {n} took {n * 7 % 13} s" for n in range(45))
FAILED = "\n".join(["Error: the build failed", *(f"  at line {n} of main.py" for n in range(50))])
TURNS = [
    Turn(human="Fix it."),
    Turn(calls=(MadeCall("read", {"path": "a.py"}, FILE),)),
    Turn(calls=(MadeCall("edit", {"path": "a.py"}, "ok"), MadeCall("read", {"path": "a.py"}, EDITED))),
    Turn(calls=(MadeCall("run", {"line": "make"}, f"{LOG}\n{FILE}"),)),
    Turn(human="And now?"),
    Turn(calls=(MadeCall("run", {"line": "cat a.py"}, EDITED),)),
]  # fmt: skip
over_apis = pytest.mark.parametrize("api", ["chat", "messages"])


@over_apis
def test_what_stands_in_the_window_already_becomes_a_pointer_and_comes_back_to_the_byte(api):
    messages = render(TURNS, api)
    sent, report = millgate.fold(messages)
    assert report.saved_tokens > 500
    assert json.dumps(sent).count("Nothing was deleted") >= 2
    assert millgate.expand(sent) == messages


@over_apis
def test_no_message_gets_longer_and_no_earlier_one_changes_with_what_comes_later(api):
    messages = render(TURNS, api)
    whole = millgate.fold(messages)[0]
    for count in range(1, len(messages) + 1):
        assert millgate.fold(messages[:count])[0] == whole[:count]
    for before, after in zip(messages, whole, strict=True):
        assert len(json.dumps(after)) <= len(json.dumps(before))


@over_apis
def test_errors_first_readings_and_what_people_say_stay_as_they_are(api):
    said = Turn(human=f"Here it is again:\n{FILE}")
    failing = [Turn(calls=(MadeCall("run", {"line": "make"}, FAILED),)) for _ in range(3)]
    messages = render([*TURNS[:2], *failing, said], api)
    assert millgate.fold(deepcopy(messages))[0] == messages
