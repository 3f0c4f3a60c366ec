import json
import urllib.request

import pytest
from tests.building import grade_with
from tests.waiting import MOST_S

from millgate.errors import UpstreamError
from millgate.models.grade import LlmGrader, read_grade
from millgate.pipeline.stages.grade import Action, GradePolicy
from millgate.types import Candidate, Chunk


def found(*texts):
    return [Candidate(Chunk(f"c{at}", text), 1.0) for at, text in enumerate(texts)]


def calls(web):
    with urllib.request.urlopen(f"{web}/calls") as answer:
        return json.load(answer)


def reply(content):
    return {"choices": [{"message": {"content": content}}]}


async def test_each_candidate_gets_its_own_grade(web):
    grader = LlmGrader(f"{web}/good", "judge")
    assert await grader.grade("how?", found("a refund takes days", "whales")) == [0.9, 0.1]


async def test_grades_are_remembered_and_calls_are_limited(web):
    grader = LlmGrader(f"{web}/good", "judge", concurrency=2)
    rows = found(*(f"text {n}" for n in range(12)))
    before = calls(web)["chat"]
    await grader.grade("how many?", rows)
    between = calls(web)
    await grader.grade("how many?", rows)
    assert between["chat"] - before == 12
    assert calls(web)["chat"] == between["chat"]
    assert 1 <= between["most"] <= 4


async def test_the_verdict_uses_what_passed(web):
    grader = LlmGrader(f"{web}/good", "judge")
    graded = await grade_with(grader, "how?", found("a refund takes days", "whales"), GradePolicy())
    assert graded.action is Action.CORRECT
    assert [c.chunk.id for c in graded.sifted.kept] == ["c0"]
    assert graded.confidences == {"c0": 0.9, "c1": 0.1}


@pytest.mark.parametrize("mode", ["prose", "garbage", "nothing", "error", "slow"])
async def test_a_grader_that_never_answers_well_fails_as_a_whole(web, mode):
    grader = LlmGrader(f"{web}/{mode}", "judge", timeout_s=0.5 if mode == "slow" else MOST_S)
    with pytest.raises(UpstreamError):
        await grader.grade("how?", found("a", "b"))


async def test_one_answer_that_fails_leaves_its_passage_doubtful(web):
    grader = LlmGrader(f"{web}/half", "judge")
    assert await grader.grade("how?", found("a refund", "whales")) == [0.8, grader.bands.lower]


def test_the_agreed_form_is_read():
    assert read_grade(reply(' {"relevance": 7}\n')) == 0.7


@pytest.mark.parametrize(
    "answer",
    [
        None,
        [],
        {},
        {"choices": []},
        {"choices": [{"message": {"content": None}}]},
        {"error": "quota"},
        reply(""),
        reply("relevant"),
        reply('{"relevance": "9"}'),
        reply('{"relevance": 9.5}'),
        reply('{"relevance": true}'),
        reply('{"relevance": 11}'),
        reply('{"relevance": -1}'),
        reply('{"relevance": 9, "because": "it says so"}'),
        reply('Sure! {"relevance": 9}'),
        reply('{"relevance": 9} {"relevance": 1}'),
        reply('```json\n{"relevance": 9}\n```'),
        reply("[9]"),
        reply("9"),
    ],
)
def test_anything_else_is_no_grade(answer):
    with pytest.raises(UpstreamError):
        read_grade(answer)
