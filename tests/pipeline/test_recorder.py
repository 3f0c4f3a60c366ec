"""The recorder: what a trace holds when stages work and when they fail."""

import itertools
import logging

import pytest

from millgate.errors import ConfigError, UpstreamError
from millgate.pipeline.recorder import TraceRecorder
from millgate.testing import strict
from millgate.types import Candidate, Chunk, Sifted
from millgate.types.notes import Fate, NoteCode, Stage

A, B = (Candidate(Chunk(id, f"text {id}"), score) for id, score in (("a", 0.9), ("b", 0.4)))


@pytest.fixture
def recorder():
    ticks = itertools.count()
    return TraceRecorder(lambda: float(next(ticks)))


def run(recorder, stage, received, error=None, *, sifted=None):
    """Run a stage that fails with an error, or sifts; True if it came to its end."""
    with recorder.step(stage, received) as step:
        if error is not None:
            raise error
        step.sift(sifted)
        return True
    return False


def test_a_stage_is_timed_and_counted(recorder):
    dropped = B.with_note(Stage.GATE, Fate.DROP, NoteCode.NO_ROOM, tokens=9)
    assert run(recorder, Stage.GATE, (A, B), sifted=Sifted(kept=(A,), dropped=(dropped,)))
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
    assert not run(recorder, Stage.PENALIZE, (A, B), error)
    assert recorder.candidates == (A, B)
    step = recorder.steps[0]
    assert (step.received, step.kept, step.degraded, step.bug) == (2, 2, said, False)


def test_a_bug_is_survived_marked_and_logged_with_its_traceback(recorder, caplog):
    with strict(False), caplog.at_level(logging.ERROR, "millgate"):
        assert not run(recorder, Stage.PENALIZE, (A, B), KeyError("odd"))
    assert (recorder.steps[0].degraded, recorder.steps[0].bug) == ("KeyError: 'odd'", True)
    (line,) = caplog.records
    assert (line.name, line.levelname) == ("millgate", "ERROR")
    assert "penalize" in line.getMessage()
    assert isinstance(line.exc_info[1], KeyError)
    assert line.exc_info[2] is not None


def test_strict_mode_raises_a_bug(recorder):
    with pytest.raises(KeyError):
        run(recorder, Stage.GATE, (A,), KeyError("odd"))


def test_strict_mode_ends_with_its_block(recorder):
    with strict(False):
        with strict(), pytest.raises(KeyError):
            run(recorder, Stage.GATE, (A,), KeyError("odd"))
        assert not run(recorder, Stage.GATE, (A,), KeyError("odd"))


def test_a_stage_can_be_interrupted(recorder):
    with strict(False), pytest.raises(KeyboardInterrupt):
        run(recorder, Stage.GATE, (), KeyboardInterrupt())
    with strict(False), pytest.raises(KeyboardInterrupt), recorder.attempt(Stage.INDEX):
        raise KeyboardInterrupt


def test_an_attempt_is_recorded_only_if_it_fails(recorder):
    with recorder.attempt(Stage.INDEX):
        pass
    assert recorder.steps == []
    with recorder.attempt(Stage.INDEX):
        raise OSError("gone")
    assert recorder.steps[0].degraded == "OSError: gone"


def test_a_step_that_sifts_nothing_is_recorded_too(recorder):
    with recorder.step(Stage.EDGES):
        pass
    step = recorder.steps[0]
    assert (step.stage, step.received, step.kept, step.degraded) == ("edges", 0, 0, "")


def test_a_fatal_error_is_raised(recorder):
    with pytest.raises(ConfigError), recorder.attempt(Stage.INDEX, fatal=(ConfigError,)):
        raise ConfigError("wrong")


class Answer:
    def __init__(self, sifted):
        self.sifted = sifted


def test_a_result_that_holds_what_it_sifted_is_handed_on_as_it_is(recorder):
    answer = Answer(Sifted(kept=(A,)))
    with recorder.step(Stage.GRADE, (A, B)) as step:
        assert step.sift(answer) is answer
    assert (recorder.steps[0].received, recorder.steps[0].kept) == (2, 1)


def test_facts_are_put_on_the_step(recorder):
    with recorder.step(Stage.EXPAND) as step:
        step.facts["queries"] = 3
    recorder.degrade(Stage.SEARCH, "off")
    assert recorder.steps[0].facts == {"queries": 3}
    assert recorder.steps[1].degraded == "off"
