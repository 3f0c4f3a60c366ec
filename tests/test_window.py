"""The window through the whole pipeline: repeats stay out, what is new comes in, failure costs nothing."""

import pytest
from pydantic import BaseModel

from millgate import Millgate
from millgate.errors import InputError
from millgate.text.fingerprint import WindowFingerprint
from millgate.types import Window

FACTS = [
    "The millgate of the canal opens at dawn and lets the river into the upper field.",
    "A canal warden checks the millgate every evening and writes the level of the river down.",
    "When the river floods, the millgate closes by itself and a bell rings in the village.",
    "The old canal was dug by hand in nine years, long before there was a millgate.",
    "Bakers in the village open their shops at five and sell bread to the wardens.",
]


@pytest.fixture
def gate():
    rows = [{"id": f"f{i}", "text": text} for i, text in enumerate(FACTS)]
    # Passages enough that the plan retrieves instead of loading everything.
    rows += [{"id": f"n{i}", "text": f"note {i} about nothing of {i * 7}"} for i in range(400)]
    with Millgate.open(":memory:") as opened:
        opened.add(rows)
        yield opened


def ask(gate, **more):
    return gate.context("millgate canal river", budget=200, **more)


def fate(context, id):
    return [(n.stage, n.fate) for n in context.why(id) if n.stage in ("penalize", "expand")]


def test_what_the_window_shows_is_not_injected_again(gate):
    context = ask(gate, window=[f"user said: {FACTS[0]} And so on."])
    assert FACTS[0] not in context.text
    assert FACTS[1] in context.text
    assert ("penalize", "drop") in fate(context, "f0")


def test_a_fingerprint_does_as_well_as_the_text(gate):
    payload = WindowFingerprint.of([f"user said: {FACTS[0]} And so on."]).to_json()
    context = ask(gate, window=payload)
    assert FACTS[0] not in context.text
    assert not context.degraded


def test_without_a_window_or_switched_off_nothing_is_penalized(gate):
    assert FACTS[0] in ask(gate).text
    assert FACTS[0] in ask(gate, window=[FACTS[0]], penalize=False).text


def test_a_broken_fingerprint_costs_the_stage_and_not_the_request(gate):
    context = ask(gate, window={"version": 99})
    assert FACTS[0] in context.text
    assert any("penalize" in reason and "version" in reason for reason in context.degraded)


def test_a_window_that_holds_everything_makes_the_store_be_asked_again(gate):
    context = ask(gate, window=FACTS[:4])
    steps = {step.stage: step for step in context.trace.steps}
    assert "expand" in steps
    assert not steps["expand"].degraded


class SdkMessage(BaseModel):
    """A message as the SDKs of models give it."""

    role: str = "assistant"
    content: str | list[dict[str, str]] | None = None
    tool_calls: list[dict[str, str]] | None = None


@pytest.mark.parametrize(
    "message",
    [
        SdkMessage(content="a text"),
        {"role": "assistant", "content": [SdkMessage(content="a text")]},
        {"type": "function_call_output", "call_id": "c1", "output": "a text"},
        {"role": "user", "parts": [{"text": "a text"}]},
    ],
)
def test_messages_may_be_those_of_any_sdk(message):
    assert Window.of([message]).texts == ("a text",)


def test_messages_without_a_text_are_passed_over_and_misspelt_ones_are_named():
    silent = [
        SdkMessage(tool_calls=[]),
        {"role": "assistant"},
        {"type": "image_url", "image_url": {}},
    ]
    assert Window.of(silent).texts == ()
    with pytest.raises(InputError, match="no 'content': it has 'role', 'contents'"):
        Window.of([{"role": "tool", "contents": "a text"}])
