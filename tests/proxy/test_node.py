"""The openai package for JavaScript, from its registry, with the proxy as its base URL."""

import json
import subprocess
from pathlib import Path

import pytest
from tests.programs import find_program, install_package
from tests.proxy.upstream import (
    DONE,
    LOOP,
    PROSE,
    RESET,
    UNIT,
    answer,
    call_item,
    chunk,
    json_head,
    message_item,
    reasoning_item,
    response_answer,
    response_stream,
    said,
)
from tests.waiting import MOST_S

from millgate.guard.policy import GuardPolicy


@pytest.fixture(scope="module")
def package():
    """Node.js, and a folder with the package in it."""
    folder = install_package("openai", 7)
    return find_program("node", "nodejs", how="npm is there, so look at its installation"), folder


@pytest.fixture(scope="module")
def seen(rig, package):
    served = rig.serve(guard=GuardPolicy(keep_alive_s=0.25, tool_calls="whole"))
    call = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}  # fmt: skip
    models = {
        "clean": rig.script(said(*PROSE, usage=(12, 40))),
        "loop": rig.script(said(*LOOP), said("All is well.", id="other", usage=(70, 9))),
        "reasoning": rig.script([*said("Hm.", name="reasoning_content")[:-2], *said("Yes.")]),
        "tools": rig.script([chunk({"tool_calls": [call]}), chunk({}, finish="tool_calls"), DONE]),
        "early": rig.script([json_head(429), b'{"error": {"message": "slow down"}}']),
        "late": rig.script([*said(*PROSE)[:-2], RESET]),
        "structured": rig.script(said('{"a": "', *[UNIT] * 400), said('{"a": ', "1}")),
        "whole": rig.script(answer("".join(LOOP)), answer("All is well.")),
        "responses": rig.script(response_stream(reasoning_item("Hm."), message_item("".join(PROSE)))),
        "responsesLoop": rig.script(response_stream(texts=LOOP), response_stream(texts=("All is well.",), id="resp_2")),
        "responsesTools": rig.script(response_stream(call_item('{"a": "' + UNIT * 400)), response_stream(call_item('{"a": 1}'))),
        "responsesEarly": rig.script([json_head(429), b'{"error": {"message": "slow down"}}']),
        "responsesLate": rig.script([*response_stream(texts=PROSE)[:6], RESET]),
        "responsesWhole": rig.script(response_answer(message_item("".join(LOOP))), response_answer(message_item("All is well."))),
    }  # fmt: skip
    node, folder = package
    script = Path(__file__).with_name("client.mjs")
    done = subprocess.run(
        [node, str(script), str(folder), f"{served.url}/v1", json.dumps(models)],
        capture_output=True, text=True, timeout=MOST_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_node_reads_a_clean_stream_and_its_usage(seen):
    assert seen["clean"]["text"] == "".join(PROSE)
    assert seen["clean"]["usage"]["total_tokens"] == 52


def test_node_reads_on_over_a_rollback(seen):
    got = seen["loop"]
    assert got["text"].endswith("All is well.")
    assert got["text"].count(UNIT) <= 3
    assert got["ids"] == ["chatcmpl-1"]
    assert got["usage"]["millgate"]["rollbacks"] == 1


def test_node_reads_reasoning_tools_and_structured_output(seen):
    assert (seen["reasoning"]["thought"], seen["reasoning"]["text"]) == ("Hm.", "Yes.")
    assert seen["tools"]["calls"] == '{"a": 1}'
    assert json.loads(seen["structured"]["text"]) == {"a": 1}


def test_node_raises_errors_before_and_after_the_first_byte(seen):
    assert seen["early"]["error"].startswith("429")
    assert seen["late"]["error"].startswith(
        "stream: "
    )  # of the connection: no status, no words of ours
    assert seen["late"]["text"] == "".join(PROSE)


def test_node_reads_an_answer_whose_loop_was_cut(seen):
    assert seen["whole"]["text"].endswith("All is well.")
    assert seen["whole"]["usage"]["millgate"]["rollbacks"] == 1


def test_node_reads_responses_also_over_a_rollback(seen):
    assert seen["responses"]["text"] == "".join(PROSE)
    got = seen["responsesLoop"]
    assert got["text"].endswith("All is well.")
    assert got["text"].count(UNIT) <= 3
    assert got["ids"] == ["resp_1"]
    assert got["numbers"] == list(range(len(got["numbers"])))
    assert got["final"]["output"][0]["content"][0]["text"] == got["text"]
    assert seen["responsesTools"]["final"]["output"][0]["arguments"] == '{"a": 1}'


def test_node_reads_errors_and_whole_answers_of_responses(seen):
    assert seen["responsesEarly"]["error"].startswith("429")
    assert seen["responsesLate"]["error"].startswith("stream: ")
    whole = seen["responsesWhole"]
    assert whole["id"] == "resp_1"
    assert whole["text"].endswith("All is well.")
    assert whole["usage"]["millgate"]["rollbacks"] == 1
