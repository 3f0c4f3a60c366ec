"""The guard's policy: by model, by environment, as in the settings; and the detector that it chooses."""

import pytest

from millgate.errors import ConfigError
from millgate.guard import EntropyDetector, Guard, GuardPolicy, RepeatDetector, StreamMachine
from millgate.guard.entropy import EitherDetector, choose_detector
from millgate.settings import load
from millgate.testing import ScriptedModel

ENVIRON = {
    "MILLGATE_GUARD__DETECTOR": "both",
    "MILLGATE_GUARD__ENTROPY__WINDOW": "32",
    "MILLGATE_GUARD__ENTROPY__MIN_BITS": "1.2",
    "MILLGATE_GUARD__DIVERGENCE_TOKEN": "<other way>",
    "MILLGATE_GUARD__MODELS": '{"small-*": {"max_rollbacks": 1, "entropy": {"max_drop": 0.5}}}',
}
PROSE = "Of the seven gates on the river only the third was kept by hand in those years. "


def test_the_guard_reads_the_environment_as_the_settings_do(monkeypatch):
    for variable, value in ENVIRON.items():
        monkeypatch.setenv(variable, value)
    policy = Guard(ScriptedModel([[]])).policy
    assert policy == load(environ=ENVIRON).guard
    assert (policy.detector, policy.entropy.window, policy.entropy.max_drop) == ("both", 32, 0.3)


def test_arguments_beat_the_model_which_beats_the_environment(monkeypatch):
    monkeypatch.setenv("MILLGATE_GUARD__MODELS", ENVIRON["MILLGATE_GUARD__MODELS"])
    monkeypatch.setenv("MILLGATE_GUARD__ENTROPY__WINDOW", "32")
    model = ScriptedModel([[]])
    small = Guard(model, model="small-1").policy
    assert (small.max_rollbacks, small.entropy.max_drop, small.entropy.window) == (1, 0.5, 32)
    assert Guard(model, model="large").policy.max_rollbacks == 3
    assert Guard(model, model="small-1", max_rollbacks=2).policy.max_rollbacks == 2
    assert Guard(model, policy=GuardPolicy()).policy == GuardPolicy()


@pytest.mark.parametrize(
    ("variable", "value", "part"),
    [
        ("MILLGATE_GUARD__DETECTOR", "luck", "detector is 'luck'"),
        ("MILLGATE_GUARD__ENTROPY__WINDOW", "1", "entropy.window"),
        ("MILLGATE_GUARD__ENTROPHY", "1", "MILLGATE_GUARD__ENTROPHY is not a setting"),
        ("MILLGATE_GUARD__MAX_HOLD_S", "1", "MILLGATE_GUARD__MAX_HOLD_S is not a setting"),
        ("MILLGATE_GUARD__MODELS", '{"m": {"detector": "luck"}}', "m.detector"),
        ("MILLGATE_GUARD__MODELS", '{"m": {"models": {}}}', "models of its own"),
    ],
)
def test_a_variable_that_cannot_be_used_is_named(monkeypatch, variable, value, part):
    monkeypatch.setenv(variable, value)
    with pytest.raises(ConfigError, match=part):
        Guard(ScriptedModel([[]]))


def test_the_policy_names_the_detector_and_its_thresholds():
    assert choose_detector(GuardPolicy()) is RepeatDetector
    detector = choose_detector(GuardPolicy(detector="entropy", entropy={"window": 32}))()
    assert isinstance(detector, EntropyDetector)
    assert (detector.window, detector.min_bits, detector.max_drop) == (32, 1.5, 0.3)
    assert isinstance(choose_detector(GuardPolicy(detector="both"))(), EitherDetector)


@pytest.mark.parametrize(
    ("detector", "reason"), [("entropy", "bits"), ("both", "bits"), ("repeat", "copies of 2")]
)
def test_each_detector_stalls_on_the_published_example(detector, reason):
    machine = StreamMachine((), policy=GuardPolicy(detector=detector))
    machine.start()
    for piece in [PROSE, *["fo"] * 200]:
        machine.feed(piece)
        if machine.stalled:
            break
    assert machine.stalled
    assert reason in machine.report.cuts[0].reason
    if detector != "repeat":
        assert machine.report.cuts[0].position <= len(PROSE) + 32


def test_both_find_what_only_repetition_shows_and_watch_on_after_a_rollback():
    machine = StreamMachine((), policy=GuardPolicy(detector="both", entropy={"max_drop": 3.0}))
    machine.start()
    for _ in range(2):
        while not machine.stalled:
            machine.feed("therefore, ")
        machine.resume()
    assert machine.report.rollbacks == 2
