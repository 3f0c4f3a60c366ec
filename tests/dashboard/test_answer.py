"""A guarded answer in parts, and the curves along it."""

import re

import pytest

from millgate.guard.channels import CONTENT
from millgate.service.dashboard.requests import MAX_CHARS, AnswerPart, answer_parts, draw_curves
from millgate.service.observe.call_trace import GAP
from millgate.sessions.xray.bars import WIDTH
from millgate.types import Plan, Request, Step, Strategy, Tier, Trace
from millgate.types.notes import Stage

PLAN = Plan(True, Tier.STUFF, Strategy.STUFF, 0)


def call(*steps, id="t", session="s"):
    return Trace(id, Request("q", session=session), PLAN, steps)


def cut(text, channel=CONTENT):
    return Step(Stage.CUT, 0.0, text=text, facts={"channel": channel})


def test_what_the_client_has_and_what_was_cut_stand_in_order():
    model = Step(Stage.MODEL, 0.0, text=f"one{GAP}two{GAP}")
    parts = answer_parts(call(model, cut("loop"), cut("thought", "reasoning"), cut("again")))
    assert [(part.text, part.cut is not None) for part in parts] == [("one", False), ("loop", True), ("two", False), ("again", True)]  # fmt: skip


def test_without_a_call_or_its_text_there_is_nothing_to_show():
    assert answer_parts(call(cut("loop"))) == []
    assert answer_parts(call(Step(Stage.MODEL, 0.0), cut("loop"))) == []


def test_a_cut_is_a_box_where_it_stands_in_the_stream():
    step = cut("y" * 100)
    curves = draw_curves([AnswerPart("ab" * 150), AnswerPart("y" * 100, step)])
    assert curves.chars == 400
    assert curves.cuts == [(WIDTH * 0.75, WIDTH * 0.25)]
    entropy, repetition = (re.findall(r"[ML]([\d.]+) ", shape.path) for shape in curves.plot.shapes)
    assert len(entropy) == len(repetition) == 100
    assert float(entropy[-1]) == WIDTH * 99.5 / 100


def test_a_long_stream_is_measured_to_its_limit_and_boxes_end_there():
    parts = [AnswerPart("ab" * (MAX_CHARS // 2 - 50)), AnswerPart("y" * 1000, cut("")), AnswerPart("z", cut(""))]  # fmt: skip
    curves = draw_curves(parts)
    assert curves.chars == MAX_CHARS
    ((at, width),) = curves.cuts
    assert at + width == pytest.approx(WIDTH)
    assert width == pytest.approx(WIDTH * 100 / MAX_CHARS)
