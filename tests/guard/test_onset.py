"""The published example: a tiny loop is held back early and cut at its onset, for the client and for the model."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millgate.guard import PUBLISHED_DIVERGENCE, EntropyDetector, Guard, GuardPolicy, RepeatDetector
from millgate.guard.entropy import choose_detector, find_trailing_run
from millgate.testing import ScriptedModel

INTRO = "The gate was opened at dawn and the water ran down to the fields. The stall begins "
AFTER = "Then it was over."
UNITS = ["fo", "a", "no ", "do, ", "0, 1 ", "( ) ", "lalalo", "1234567", "не ", "⠇"]


def chunks(text, size):
    return [text[i : i + size] for i in range(0, len(text), size)]


async def play(text, size, **knobs):
    model = ScriptedModel([chunks(text, size), [AFTER]])
    guard = Guard(model, **knobs)
    said = "".join([piece async for piece in guard.stream("go")])
    return said, model, guard.report


@pytest.mark.parametrize("size", [1, 3, 4, 7])
@pytest.mark.parametrize("unit", UNITS)
async def test_at_most_24_characters_of_a_tiny_loop_are_seen(unit, size):
    for shift in range(16):  # looks are taken at fixed offsets
        intro = INTRO[shift:]
        said, _, report = await play(intro + unit * 400, size)
        assert report.rollbacks == 1
        shown = said.removeprefix(intro).removesuffix(AFTER)
        assert len(shown.rstrip()) <= 24


async def test_a_client_that_has_nothing_of_the_loop_gets_nothing_of_it():
    said, _, _ = await play(INTRO + "fo" * 400, 5000)
    assert said == INTRO + AFTER


@pytest.mark.parametrize("size", [1, 4, 5000])
async def test_the_model_sees_the_history_up_to_the_onset_and_the_token(size):
    _, model, _ = await play(INTRO + "fo" * 400, size, divergence=PUBLISHED_DIVERGENCE)
    assert model.calls[1].messages[-1] == {
        "role": "assistant",
        "content": INTRO + PUBLISHED_DIVERGENCE,
    }


async def test_the_published_token_cuts_every_loop_at_its_onset():
    unit = "He lifted the first board and looked at the water below him for a while. "
    intro = INTRO.replace("begins ", "begins:\n")
    said, model, _ = await play(intro + unit * 20, 5000, divergence_token="<go on>")
    assert said == intro + AFTER
    assert model.calls[1].messages[-1]["content"] == intro + "<go on>"


async def test_what_a_client_has_of_an_earlier_loop_never_comes_back_in_the_history():
    tail = " The second part of the answer is quite different. "
    model = ScriptedModel([chunks(INTRO + "fo" * 400, 4), chunks(tail + "da" * 400, 4), [AFTER]])
    guard = Guard(model, divergence=PUBLISHED_DIVERGENCE)
    said = "".join([piece async for piece in guard.stream("go")])
    assert "fofo" in said
    history = model.calls[2].messages[-1]["content"]
    assert history == INTRO + tail + PUBLISHED_DIVERGENCE


@pytest.mark.parametrize("detector", ["entropy", "both"])
@pytest.mark.parametrize("unit", ["fo", "do ", "no, ", "xyxz", "ab ba "])
async def test_the_entropy_rule_slices_where_the_repetition_begins(detector, unit):
    intro = INTRO.replace("begins ", "begins here, no earlier:\n")
    text = intro + unit * 200
    _, model, report = await play(text, 3, detector=detector, divergence=PUBLISHED_DIVERGENCE)
    onset = RepeatDetector().feed(text).onset
    assert abs(onset - len(intro)) <= 1
    assert "bits" in report.cuts[0].reason
    assert (report.cuts[0].onset, report.cuts[0].period) == (onset, len(unit))
    assert model.calls[1].messages[-1]["content"] == text[:onset] + PUBLISHED_DIVERGENCE


@given(st.text("abcde ", max_size=40), st.text("abc ", min_size=1, max_size=12))
def test_a_run_at_the_end_is_found_with_its_onset_and_period(intro, unit):
    text = intro + unit * 9 + unit[: len(unit) // 2]
    onset, period = find_trailing_run(text, len(text))
    assert text[onset : len(text) - period] == text[onset + period :]
    assert onset == 0 or text[onset - 1] != text[onset - 1 + period]
    assert period <= len(unit)
    assert onset <= len(intro)


def test_prose_ends_in_no_run():
    assert find_trailing_run(INTRO, len(INTRO)) is None
    assert find_trailing_run("", 0) is None
    stall = EntropyDetector(min_bits=9).feed(INTRO)
    assert (stall.onset, stall.period) == (0, 0)


def test_warm_up_and_span_are_settings_of_the_entropy_rule(monkeypatch):
    monkeypatch.setenv("MILLGATE_GUARD__ENTROPY__WARM_UP", "40")
    monkeypatch.setenv("MILLGATE_GUARD__ENTROPY__SPAN", "4")
    policy = GuardPolicy.from_environment().replace({"detector": "entropy"})
    detector = choose_detector(policy)()
    assert (detector.span, detector.warm_up) == (4, 40)
    assert [stall.position for stall in map(detector.feed, "a" * 60) if stall] == [40]
