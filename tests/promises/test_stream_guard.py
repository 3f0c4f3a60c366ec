"""The stream design: a loop is found in the stream and sliced off, and the model goes on in the same stream.

The eight cases that the published design states, through `Guard`, with our detector and with the published one; and
what is no loop: what a person asks for, not what a document holds.
"""

import math
from collections import Counter

import pytest

from millgate.errors import LoopError
from millgate.guard import PUBLISHED_DIVERGENCE, EntropyDetector, Guard
from millgate.testing import ScriptedModel
from millgate.text.entropy import SlidingEntropy

ASK = [{"role": "user", "content": "What comes out at the end?"}]
LEAD = "The final output is calculated as follows. The stall begins "
AFTER = "Let us look at the step from another side. The correct result is 42."
NAMED_LOOPS = ["fo", "do", "therefore, "]
PROSE = """\
We know that that valve, the one that that report names, had had its seat replaced. It had, in fact, had it twice.

| valve | open | shut |
|-------|------|------|
| north | 06:00 | 07:00 |
| south | 06:00 | 07:00 |
| east  | 06:00 | 07:00 |

```python
for gate in gates:
    gate.open()
    gate.close()
```
----------------------------------------
So the keeper opens the north one first, the south one next, and the east one last; the report says why.
"""


def tokens(text, size=4):
    return [text[at : at + size] for at in range(0, len(text), size)]


def looping(unit, lead=""):
    return tokens(lead + unit * (200_000 // len(unit)))


async def ask(guard, messages=ASK):
    """What the client gets, and the error it ends with, if any."""
    said = []
    try:
        async for piece in guard.stream(messages):
            said.append(piece)  # noqa: PERF401  # what came before the error counts
    except LoopError as error:
        return "".join(said), error
    return "".join(said), None


def test_sliding_entropy_is_what_counting_anew_gives():
    text = (PROSE + "fo" * 100 + LEAD) * 3
    sliding = SlidingEntropy(64)
    for end, char in enumerate(text, 1):
        window = text[max(0, end - 64) : end]
        shares = [count / len(window) for count in Counter(window).values()]
        assert abs(sliding.push(char) + sum(p * math.log2(p) for p in shares)) < 1e-9


async def test_technical_prose_with_natural_repeats_passes_as_it_came():
    model = ScriptedModel([tokens(PROSE * 2)])
    guard = Guard(model)
    assert await ask(guard) == (PROSE * 2, None)
    assert (guard.report.rollbacks, guard.report.warnings, len(model.calls)) == (0, [], 1)


@pytest.mark.parametrize("unit", ["fo", "do"])
@pytest.mark.parametrize(
    ("rule", "reason", "within"),
    [({"max_drop": 99}, "absolute", 64), ({"min_bits": 0}, "derivative", 32)],
)
def test_low_entropy_and_a_fall_of_entropy_are_stalls(unit, rule, reason, within):
    prose = (
        "The fields below get what they can drink and no more. Nobody thanks him for a quiet year. "
    )
    stall = EntropyDetector(**rule).feed(prose + unit * 100)
    assert stall.reason.startswith(reason)
    assert 0 < stall.position - len(prose) <= within


@pytest.mark.parametrize("unit", NAMED_LOOPS)
async def test_a_loop_is_severed_and_the_answer_goes_on_in_the_same_stream(unit):
    model = ScriptedModel([looping(unit, LEAD), tokens(AFTER)])
    guard = Guard(model)
    said, error = await ask(guard)
    assert error is None
    assert said.startswith(LEAD)
    assert said.endswith(AFTER)
    assert len(said) < len(LEAD + AFTER) + 60
    assert model.open == 0
    assert model.yielded < 300  # the loop was not read to its end
    assert (guard.report.rollbacks, guard.report.passed_on, guard.report.state) == (1, "", "done")


@pytest.mark.parametrize("detector", ["repeat", "entropy", "both"])
async def test_the_history_is_sliced_at_the_loop_and_the_token_is_injected(detector):
    model = ScriptedModel([looping("fo", LEAD), tokens(PUBLISHED_DIVERGENCE + AFTER)])
    guard = Guard(model, detector=detector, divergence=PUBLISHED_DIVERGENCE)
    said, _ = await ask(guard)
    told = {"role": "assistant", "content": LEAD + PUBLISHED_DIVERGENCE}
    assert model.calls[1].messages == [*ASK, told]
    assert PUBLISHED_DIVERGENCE not in said
    assert said.endswith(AFTER)


@pytest.mark.parametrize("detector", ["repeat", "entropy", "both"])
@pytest.mark.parametrize("unit", NAMED_LOOPS)
async def test_a_model_that_always_loops_is_given_up_after_three_rollbacks(unit, detector):
    model = ScriptedModel([looping(unit, LEAD), looping(unit)])
    guard = Guard(model, detector=detector)
    said, error = await ask(guard)
    assert isinstance(error, LoopError)
    assert len(said) - len(LEAD) <= 400
    assert (len(model.calls), model.open) == (4, 0)
    assert (guard.report.rollbacks, guard.report.state, len(guard.report.cuts)) == (3, "failed", 4)


async def test_with_the_detector_entropy_the_published_machine_runs():
    model = ScriptedModel([looping("0,\n", LEAD), looping("0,\n"), tokens(AFTER)])
    guard = Guard(model, detector="entropy")
    assert (await ask(guard))[1] is None
    for call in model.calls[1:]:
        assert call.messages[-1]["content"].startswith(LEAD)
        assert call.messages[-1]["content"].endswith(PUBLISHED_DIVERGENCE)
        assert call.sampling is None
    assert guard.report.warnings == []


# What is no loop


async def test_rows_that_the_model_writes_again_are_believed_but_not_called_recovered():
    rows = "| north | open |\n" * 60
    model = ScriptedModel([tokens(rows)])
    guard = Guard(model)
    said, error = await ask(guard)
    assert error is None
    assert said.endswith(rows[-600:])
    assert guard.report.state == "done"
    assert "the model was asked again, and wrote the same" in guard.report.passed_on


@pytest.mark.parametrize("unit", ["| north | open |\n", "    0,\n", '{"id": 1, "name": "a"},\n'])
async def test_rows_without_end_are_believed_once_and_then_cut(unit):
    model = ScriptedModel([looping(unit)])
    said, error = await ask(Guard(model))
    assert isinstance(error, LoopError)
    assert (len(model.calls), len(said) < 20_000) == (4, True)


LINE = "I will not talk in class while the keeper explains the gate.\n"


async def test_a_person_who_asks_for_a_line_a_hundred_times_gets_it():
    model = ScriptedModel([tokens(LINE * 100)])
    ask_for_it = [{"role": "user", "content": f"Write a hundred times: {LINE}"}]
    assert await ask(Guard(model), ask_for_it) == (LINE * 100, None)


@pytest.mark.parametrize(
    "brought",
    [
        {"role": "tool", "tool_call_id": "1", "content": LINE},
        {"role": "system", "content": f"Never write this: {LINE}"},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": LINE}]},
        {"role": "user", "content": f"<ref 0123456789abcdef: recalled>\n{LINE}</ref 0123456789abcdef>\n\nGo on."},
    ],
    ids=["tool", "system", "tool_result", "recalled"],
)  # fmt: skip
async def test_a_sentence_of_a_document_may_repeat_but_not_without_end(brought):
    honest = ScriptedModel([tokens(LINE * 100)])
    assert await ask(Guard(honest), [*ASK, brought]) == (LINE * 100, None)
    endless = ScriptedModel([tokens(LINE * (2_000_000 // len(LINE)), 40)])
    said, error = await ask(Guard(endless), [*ASK, brought])
    assert isinstance(error, LoopError)
    assert len(said) < 20_000


async def test_what_a_person_asks_for_has_an_end_too():
    model = ScriptedModel([tokens(LINE * (2_000_000 // len(LINE)), 40)])
    said, error = await ask(Guard(model), [{"role": "user", "content": f"Write forever: {LINE}"}])
    assert isinstance(error, LoopError)
    assert 100_000 < len(said) < 300_000
