"""Circles as real agents send them: with ids, process numbers, own counters, and commands written as text."""

import json
from pathlib import Path

import pytest

from millgate.circles.finder import check
from millgate.circles.masks import is_same, without_counts
from millgate.circles.policy import CirclesPolicy
from millgate.circles.reader import ENDING
from millgate.circles.steps import annotate, ending, find_steps
from millgate.guard.dialects.gemini import GeminiDialect

RECORDINGS = Path(__file__).parents[1] / "agents" / "recordings"
CIRCLES = sorted(RECORDINGS.glob("*-circle.json"))
HEALTHY = sorted(RECORDINGS.glob("*-healthy.json"))
POLICY = CirclesPolicy()


def messages_of(path):
    messages = json.loads(path.read_text())["messages"]
    if path.stem.startswith("gemini"):
        return list(GeminiDialect().conversation({"contents": messages}))
    return messages


def named(paths):
    return pytest.mark.parametrize("path", paths, ids=lambda path: path.stem)


@named(CIRCLES)
def test_the_circle_of_each_agent_is_noted_at_its_third_copy(path):
    messages = messages_of(path)
    rungs = [mark.step for mark in find_steps(messages, POLICY).marks]
    assert rungs[0] == "note"
    assert rungs in (["note"], ["note", "list", "end"]), "each rung once"
    first = find_steps(messages, POLICY).marks[0]
    assert first.circle.copies == 3
    noted = annotate(messages, [first])
    assert "[millgate: the same call came back" in json.dumps(noted[first.at])
    assert [a for a, b in zip(noted, messages, strict=True) if a is not b] == [noted[first.at]]
    assert find_steps(noted, POLICY).marks == find_steps(messages, POLICY).marks, (
        "a note changes no count"
    )


@named(HEALTHY)
def test_a_healthy_session_of_each_agent_holds_no_circle(path):
    assert find_steps(messages_of(path), POLICY).marks == ()


def calls(results, command="python build.py"):
    """A call that came back with each of these."""
    messages = [{"role": "user", "content": "Build it."}]
    for number, result in enumerate(results):
        function = {"name": "run", "arguments": json.dumps({"command": command})}
        messages += [
            {"role": "assistant", "tool_calls": [{"id": f"c{number}", "type": "function", "function": function}]},
            {"role": "tool", "tool_call_id": f"c{number}", "content": result},
        ]  # fmt: skip
    return messages


REST = "Process exited with code 1\nOutput:\nbuild.py: the folder 'out' does not exist, and cannot be made here\n"


@pytest.mark.parametrize(
    ("values", "is_circle"),
    [
        (("f6ac62", "03bd1e", "9c3232"), True),  # drawn: new every time, in no order
        (("123456", "a3bd1e", "654321"), True),  # drawn, by chance without letters
        (("100042", "100043", "100044"), False),  # counted up
        (("0a1b2c", "1a1b2c", "2a1b2c"), False),  # counted up, hexadecimal
        (
            ("f6ac62", "f6ac62", "03bd1e"),
            False,
        ),  # two equal, then another: what was waited for has come
        (("ready", "stead", "green"), False),  # words
    ],
)
def test_a_drawn_id_is_no_progress_and_a_number_is(values, is_circle):
    found = check(calls([f"Chunk ID: {value}\n{REST}" for value in values]))
    assert (found is not None) is is_circle


def test_a_hash_that_is_the_result_is_not_masked():
    digests = ("d41d8cd98f00b204", "9e107d9d372bb682", "e4d909c290d0fb1c")
    lines = [f"{digest}  a/file/with/quite/a/long/name/so/that/the/hash/is/a/small/part/of/it.txt" for digest in digests]  # fmt: skip
    assert check(calls(lines)) is None
    assert check(calls([json.dumps({"task_id": d[:8], "todo": "resize"}) for d in digests])) is None


@pytest.mark.parametrize(
    ("notes", "is_same_result"),
    [
        (("[This call has failed 4 times with the same arguments.]", "[This call has failed 5 times with the same arguments.]"), True),
        (("", "[This call has failed 2 times with the same arguments.]"), True),
        (("[About 4 of 10 of the files are read so far.]", "[About 5 of 10 of the files are read so far.]"), False),
        (("[There were 4 files in this folder when I looked.]", "[There were 40 files in this folder when I looked.]"), False),
        (("[1, 2, 3]", "[1, 2, 4]"), False),
    ],
)  # fmt: skip
def test_an_agents_own_count_of_copies_is_no_part_of_the_result(notes, is_same_result):
    left, right = (f"no such file\n\n{note}".rstrip() for note in notes)
    counted = without_counts(left, right)
    assert (counted is not None and is_same(*counted)) is is_same_result


def spoken(times, observation="Observation:\nno such file"):
    """A model that writes its commands as code, each time with other words, and what came back."""
    messages = [{"role": "user", "content": "Read a.txt."}]
    for number in range(times):
        messages += [
            {
                "role": "assistant",
                "content": f"Let me try for time {number}.\n```bash\ncat a.txt\n```",
            },
            {"role": "user", "content": observation},
        ]
    return messages


def test_code_in_a_text_and_a_user_message_of_a_fixed_form_are_a_call_and_its_result():
    assert check(spoken(3)).copies == 3
    assert check(spoken(3, "<returncode>1</returncode>\n<output>no such file</output>")).copies == 3
    assert check(spoken(3, "It still says that there is no such file.")) is None, "a person"


def test_a_complaint_about_our_ending_does_not_restart_the_count_and_the_model_is_asked():
    messages = calls([REST] * 8)
    stopped = find_steps(messages, POLICY).ended
    assert ending(stopped).startswith(ENDING)
    complaint = "Tool call error:\n\n<error>\nNo tool calls found in the response.\n</error>"
    messages += [{"role": "assistant", "content": ending(stopped)}, {"role": "user", "content": complaint}]  # fmt: skip
    assert find_steps(messages, POLICY).ended is None, (
        "else program and proxy would answer each other for ever"
    )
    again = calls([REST])[1:]
    assert find_steps([*messages, *again], POLICY).ended.copies == 9
    person = [*messages[:-1], {"role": "user", "content": "I made the folder. Try again."}]
    assert find_steps([*person, *again], POLICY).ended is None, "a person's message lifts it"
