"""Texts that repeat by their nature, or because they were asked for: no loop, until they are hopeless."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millgate.guard import CONTENT, TOOL, Piece, State, StreamMachine
from millgate.guard.honest import FenceTracker, RequestText
from millgate.guard.policy import GuardPolicy

ASK = ({"role": "user", "content": "Write the file, please."},)
HONEST = {
    "zeros": "static const int table[] = {\n    " + "0, " * 800 + "0\n};\n",
    "empty cells": "<table>\n" + "  <tr><td></td><td></td></tr>\n" * 60 + "</table>\n",
    "mock rows": "[\n" + '  {"id": 1, "name": "John Doe", "active": true},\n' * 50 + "]\n",
    "a recursion": "Traceback:\n" + '  File "fib.py", line 4, in fib\n    return fib(n - 1)\n' * 60,
    "empty rows": "\\begin{tabular}{|c|c|}\n" + " & & \\\\ \\hline\n" * 90 + "\\end{tabular}\n",
    "a telomere": ">chr1\n" + "TTAGGG" * 500 + "\n",
    "drums": "HH|x-x-x-x-|\nSD|----o---|\nBD|o-------|\n\n" * 40,
    "a sentence": "I will not talk in class.\n" * 100,
}


def play(machine, text, channel=CONTENT, size=5):
    """What a client gets of one call, up to its stall."""
    if machine.report.calls == 0:
        machine.start()
    out = []
    for at in range(0, len(text), size):
        out += machine.feed(Piece(channel, text[at : at + size]))
        if machine.stalled:
            return "".join(out)
    return "".join([*out, *machine.end()])


@pytest.mark.parametrize("kind", HONEST)
@pytest.mark.parametrize("size", [5, 10**6])
def test_a_file_that_a_tool_call_writes_may_repeat_and_the_report_notes_it(kind, size):
    machine = StreamMachine(ASK)
    written = json.dumps({"path": "a", "content": HONEST[kind]})
    assert play(machine, written, TOOL, size) == written
    assert machine.report.state is State.DONE
    assert any("in a tool call" in warning for warning in machine.report.warnings)


@pytest.mark.parametrize("kind", HONEST)
def test_fenced_code_may_repeat_and_what_follows_it_is_watched(kind):
    text = f"Here it is:\n\n```\n{HONEST[kind]}\n```\nThat is all. "
    machine = StreamMachine(ASK)
    assert play(machine, text) == text
    assert any("in fenced code" in warning for warning in machine.report.warnings)
    looping = StreamMachine(ASK)
    play(looping, text + "And then he looked at the water below. " * 40)
    assert looping.stalled
    assert looping.report.cuts[0].onset >= len(text) - 2


def test_several_repetitions_in_one_piece_are_judged_one_by_one():
    text = "```\n" + HONEST["zeros"] + "```\nSo: " + "And then he looked at the water below. " * 40
    machine = StreamMachine(ASK)
    play(machine, text, size=10**6)
    assert machine.stalled


@pytest.mark.parametrize("kind", HONEST)
def test_a_unit_that_was_asked_for_is_no_loop(kind):
    text, ask = HONEST[kind], ({"role": "user", "content": f"Go on:\n{HONEST[kind][:150]}"},)
    assert play(StreamMachine(ask), text) == text


@pytest.mark.parametrize(
    "messages",
    [
        ({"role": "tool", "content": json.dumps({"text": HONEST["mock rows"][:200]})},),
        ({"role": "user", "content": [{"type": "tool_result", "content": [{"type": "text", "text": HONEST["mock rows"][:200]}]}]},),
        ({"type": "function_call_output", "output": HONEST["mock rows"][:200]},),
        ({"role": "user", "parts": [{"functionResponse": {"response": {"text": HONEST["mock rows"][:200]}}}]},),
    ],
)  # fmt: skip
def test_a_unit_that_was_read_from_a_file_is_no_loop_in_any_api(messages):
    machine = StreamMachine((*ASK, *messages))
    assert play(machine, HONEST["mock rows"]) == HONEST["mock rows"]


def test_what_the_model_said_itself_does_not_excuse_it():
    said = (
        {"role": "assistant", "content": "He looked at the water below him for a while. "},
        *ASK,
    )
    machine = StreamMachine(said)
    play(machine, "He looked at the water below him for a while. " * 40)
    assert machine.stalled


WATER = "He looked at the water below him for a while. "
SAID = f"I will tell it now. {WATER}Then he went home."
QUOTED = f"No tool call was found in your answer:\n> {SAID}\nAnswer again."


@pytest.mark.parametrize(
    "messages",
    [
        ({"role": "assistant", "content": SAID}, {"role": "user", "content": QUOTED}),
        ({"role": "assistant", "content": SAID + WATER * 9}, {"role": "user", "content": f"Bad: {WATER * 5}"}),
        ({"role": "assistant", "content": WATER + "Then he went home."}, {"role": "tool", "content": f"Wrong format: {WATER}Then he went"}),
        ({"role": "model", "parts": [{"text": SAID}]}, {"role": "user", "parts": [{"text": QUOTED}]}),
        ({"role": "assistant", "content": [{"type": "text", "text": SAID}]}, {"role": "user", "content": [{"type": "text", "text": json.dumps(QUOTED)}]}),
    ],
)  # fmt: skip
def test_what_an_agent_quotes_of_the_model_does_not_excuse_it(messages):
    machine = StreamMachine((*ASK, *messages))
    play(machine, WATER * 40)
    assert machine.stalled


def test_what_is_quoted_of_an_answer_that_the_agent_left_out_does_not_excuse_it():
    messages = (*ASK, {"role": "user", "content": QUOTED})
    assert play(StreamMachine(messages), WATER * 40) == WATER * 40
    machine = StreamMachine(messages, left_out={1: SAID})
    play(machine, WATER * 40)
    assert machine.stalled


@pytest.mark.parametrize(
    "messages",
    [
        # it was there before the model said it
        ({"role": "user", "content": QUOTED}, {"role": "assistant", "content": SAID}),
        # it is asked for in the person's own words
        ({"role": "assistant", "content": SAID}, {"role": "user", "content": f'Write "{WATER}" forty times.'}),
        ({"role": "assistant", "content": SAID}, {"role": "user", "content": f'{QUOTED} Write "{WATER}" forty times.'}),
    ],
)  # fmt: skip
def test_what_a_person_asks_for_may_be_what_the_model_said_before(messages):
    assert play(StreamMachine((*ASK, *messages)), WATER * 40) == WATER * 40


def test_rows_that_the_model_wrote_are_data_once_they_are_read_again():
    rows = HONEST["mock rows"]
    messages = (
        {"role": "assistant", "content": f"```\n{rows}```"},
        {"role": "user", "content": f"Output:\n{rows}"},
    )
    assert play(StreamMachine((*ASK, *messages)), rows) == rows


def test_a_few_characters_that_stand_somewhere_in_a_long_request_excuse_nothing():
    request = RequestText(({"role": "tool", "content": "a = [0, 1]; and so on and on it went. ha"}, *ASK))  # fmt: skip
    assert not request.find("0, ")
    assert not request.find("ha")
    assert not request.find("and so on ")
    assert not request.find("   ")
    assert RequestText(({"role": "user", "content": "Laugh: hahahaha!"},)).find("ha") == "person"


@pytest.mark.parametrize("channel", [CONTENT, TOOL])
def test_a_repetition_without_end_is_cut_in_code_and_in_a_tool_call(channel):
    lead = "```\n" if channel == CONTENT else '{"content": "'
    machine = StreamMachine(ASK)
    got = play(machine, lead + "value = 0;\n" * 10_000, channel)
    assert machine.stalled
    assert len(got) < 17_000


@pytest.mark.parametrize(
    ("text", "is_open"),
    [
        ("a\n```python\nx\n", True),
        ("a\n```python\nx\n```\n", False),
        ("~~~~\n```\n~~~\n", True),
        ("~~~~\n~~~~~\n", False),
        ("- a\n  ```\n  x\n", True),
        ("> ```\n> x\n", True),
        ("a ``` b\n", False),
        ("```\n```python\n", True),
    ],
)
def test_a_fence_is_open_until_its_own_mark_closes_it(text, is_open):
    for size in (1, len(text)):
        fences = FenceTracker()
        for at in range(0, len(text), size):
            fences.feed(text[at : at + size])
        assert fences.is_open is is_open


@given(st.text(alphabet="ab \n\\.", max_size=80), st.text(max_size=30))
def test_any_text_may_stand_in_a_request(request_text, unit):
    RequestText(({"role": "user", "content": request_text},)).find(unit)


def test_the_report_keeps_some_notes_and_not_all():
    machine = StreamMachine(ASK, policy=GuardPolicy())
    text = "".join(f"row {n}\n" + "0, " * 300 + "\n" for n in range(100))
    play(machine, text, TOOL)
    assert len(machine.report.warnings) == 20
