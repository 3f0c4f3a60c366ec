"""Story: what is told when stages work and when they fail."""

import itertools

import pytest

from headgate.errors import UpstreamError
from headgate.pipeline.recorder import Story
from headgate.types import Candidate, Chunk, Sifted

A, B = (Candidate(Chunk(id, f"text {id}"), score) for id, score in (("a", 0.9), ("b", 0.4)))


@pytest.fixture
def story():
    ticks = itertools.count()
    return Story(lambda: float(next(ticks)))


def fail(error):
    raise error


def test_a_stage_is_timed_and_counted(story):
    dropped = B.noted("gate", "drop", "no room")
    story.sift("gate", (A, B), lambda: Sifted(kept=(A,), dropped=(dropped,)))
    (step,) = story.steps
    assert (step.stage, step.seconds, step.came, step.kept, step.dropped) == ("gate", 1.0, 2, 1, 1)
    assert story.candidates == (A, dropped)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (UpstreamError("it is down", hint="wait"), "it is down (wait)"),
        (ValueError("odd"), "ValueError: odd"),
        (OSError("gone"), "OSError: gone"),
    ],
)
def test_a_stage_that_fails_leaves_what_came_and_says_so(story, error, said):
    sifted = story.sift("penalize", (A, B), lambda: fail(error))
    assert sifted.kept == (A, B)
    assert story.steps[0].degraded == said


def test_a_bug_is_not_softened(story):
    with pytest.raises(KeyboardInterrupt):
        story.sift("gate", (), lambda: fail(KeyboardInterrupt()))


def test_work_that_sifts_nothing_is_only_told_when_it_fails(story):
    assert story.soften("index", lambda: 1, instead=0) == 1
    assert story.steps == ()
    assert story.soften("index", lambda: fail(OSError("gone")), instead=0) == 0
    assert story.steps[0].degraded == "OSError: gone"


class Answer:
    def __init__(self, sifted):
        self.sifted = sifted


async def test_a_stage_that_waits_is_softened_too(story):
    async def broken():
        raise UpstreamError("it is down")

    async def fine():
        return Answer(Sifted(kept=(A,)))

    instead = Answer(Sifted(kept=(A, B)))
    assert await story.asift("grade", (A, B), broken, instead=instead) is instead
    assert (await story.asift("grade", (A, B), fine, instead=instead)).sifted.kept == (A,)
    assert [step.degraded for step in story.steps] == ["it is down", ""]


def test_numbers_are_marked_on_the_last_step_of_a_stage(story):
    story.sift("expand", (), Sifted)
    story.mark("expand", {"queries": 3})
    story.degrade("search", "off")
    assert story.steps[0].facts == {"queries": 3}
    assert story.steps[1].degraded == "off"
