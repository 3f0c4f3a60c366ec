"""The recorder: what a trace holds when stages work and when they fail."""

import itertools
import logging

import pytest

from headgate.errors import ConfigError, UpstreamError
from headgate.notes import Fate, NoteCode, Stage
from headgate.pipeline.recorder import TraceRecorder
from headgate.testing import strict
from headgate.types import Candidate, Chunk, Sifted

A, B = (Candidate(Chunk(id, f"text {id}"), score) for id, score in (("a", 0.9), ("b", 0.4)))


@pytest.fixture
def recorder():
    ticks = itertools.count()
    return TraceRecorder(lambda: float(next(ticks)))


def fail(error):
    raise error


def test_a_stage_is_timed_and_counted(recorder):
    dropped = B.with_note(Stage.GATE, Fate.DROP, NoteCode.NO_ROOM, tokens=9)
    recorder.run(Stage.GATE, (A, B), lambda: Sifted(kept=(A,), dropped=(dropped,)))
    (step,) = recorder.steps
    assert (step.stage, step.seconds, step.received, step.kept, step.dropped) == (
        "gate",
        1.0,
        2,
        1,
        1,
    )
    assert recorder.candidates == (A, dropped)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (UpstreamError("it is down", hint="wait"), "it is down (wait)"),
        (TimeoutError("too late"), "TimeoutError: too late"),
        (OSError("gone"), "OSError: gone"),
    ],
)
def test_a_stage_that_fails_leaves_what_came_and_says_so(recorder, error, said):
    sifted = recorder.run(Stage.PENALIZE, (A, B), lambda: fail(error))
    assert sifted.kept == (A, B)
    assert (recorder.steps[0].degraded, recorder.steps[0].bug) == (said, False)


def test_a_bug_is_survived_marked_and_logged_with_its_traceback(recorder, caplog):
    with strict(False), caplog.at_level(logging.ERROR, "headgate"):
        sifted = recorder.run(Stage.PENALIZE, (A, B), lambda: fail(KeyError("odd")))
    assert sifted.kept == (A, B)
    assert (recorder.steps[0].degraded, recorder.steps[0].bug) == ("KeyError: 'odd'", True)
    (line,) = caplog.records
    assert (line.name, line.levelname) == ("headgate", "ERROR")
    assert "penalize" in line.getMessage()
    assert isinstance(line.exc_info[1], KeyError)
    assert line.exc_info[2] is not None


def test_strict_mode_raises_a_bug(recorder):
    with pytest.raises(KeyError):
        recorder.run(Stage.GATE, (A,), lambda: fail(KeyError("odd")))


def test_strict_mode_ends_with_its_block(recorder):
    with strict(False):
        with strict(), pytest.raises(KeyError):
            recorder.run(Stage.GATE, (A,), lambda: fail(KeyError("odd")))
        assert recorder.run(Stage.GATE, (A,), lambda: fail(KeyError("odd"))).kept == (A,)


def test_a_stage_can_be_interrupted(recorder):
    with strict(False), pytest.raises(KeyboardInterrupt):
        recorder.run(Stage.GATE, (), lambda: fail(KeyboardInterrupt()))


def test_work_that_sifts_nothing_is_recorded_when_it_fails_or_is_timed(recorder):
    assert recorder.attempt(Stage.INDEX, lambda: 1, instead=0) == 1
    assert recorder.steps == ()
    assert recorder.attempt(Stage.INDEX, lambda: fail(OSError("gone")), instead=0) == 0
    assert recorder.steps[0].degraded == "OSError: gone"
    assert recorder.attempt(Stage.EDGES, lambda: 1, instead=0, timed=True) == 1
    assert (recorder.steps[1].stage, recorder.steps[1].degraded) == ("edges", "")


def test_a_fatal_error_is_raised(recorder):
    with pytest.raises(ConfigError):
        recorder.attempt(
            Stage.INDEX, lambda: fail(ConfigError("wrong")), instead=0, fatal=(ConfigError,)
        )


class Answer:
    def __init__(self, sifted):
        self.sifted = sifted


async def test_a_stage_that_waits_may_fail_too(recorder):
    async def broken():
        raise UpstreamError("it is down")

    async def fine():
        return Answer(Sifted(kept=(A,)))

    instead = Answer(Sifted(kept=(A, B)))
    assert await recorder.arun(Stage.GRADE, (A, B), broken, instead=instead) is instead
    graded = await recorder.arun(Stage.GRADE, (A, B), fine, instead=instead)
    assert graded.sifted.kept == (A,)
    assert [step.degraded for step in recorder.steps] == ["it is down", ""]


def test_facts_are_put_on_the_last_step_of_a_stage(recorder):
    recorder.run(Stage.EXPAND, (), Sifted)
    recorder.annotate(Stage.EXPAND, {"queries": 3})
    recorder.degrade(Stage.SEARCH, "off")
    assert recorder.steps[0].facts == {"queries": 3}
    assert recorder.steps[1].degraded == "off"
