"""Settings: which source wins, and how a mistake is named."""

import pytest

from headgate.errors import ConfigError
from headgate.settings import inspect, load


@pytest.fixture(autouse=True)
def _an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_defaults_stand_when_nothing_is_set():
    settings = load(environ={})
    assert (settings.tenant, settings.gate.entropy_weight) == ("default", 0.3)


def test_arguments_beat_the_environment_which_beats_the_file(tmp_path):
    (tmp_path / "headgate.toml").write_text(
        'tenant = "file"\n[gate]\nentropy_weight = 0.1\nmin_ratio = 0.5\n'
    )
    environ = {"HEADGATE_TENANT": "env", "HEADGATE_GATE__ENTROPY_WEIGHT": "0.2"}
    settings = load(environ=environ, arguments={"gate.entropy_weight": 0.9})
    assert settings.tenant == "env"
    assert (settings.gate.entropy_weight, settings.gate.min_ratio) == (0.9, 0.5)


def test_a_named_file_is_used_and_a_missing_one_is_an_error(tmp_path):
    (tmp_path / "other.toml").write_text('tenant = "other"')
    assert load(environ={"HEADGATE_CONFIG": "other.toml"}).tenant == "other"
    with pytest.raises(ConfigError, match=r"cannot read gone\.toml"):
        load("gone.toml", environ={})


def test_lists_are_written_as_json():
    settings = load(environ={"HEADGATE_DECIDE__HYBRID": '["audit"]'})
    assert settings.decide.hybrid == {"audit"}


@pytest.mark.parametrize(
    ("environ", "parts"),
    [
        ({"HEADGATE_GATE__ENTROPY_WEIGHT": "3"}, ["gate.entropy_weight", "'3'", "equal to 1"]),
        ({"HEADGATE_GATE__ENTROPY_WEIHGT": "1"}, ["not a setting", "did you mean gate.entropy_w"]),
        ({"HEADGATE_GATES__X": "1"}, ["gates is not a setting", "environment"]),
        ({"HEADGATE_LIMITS__K": "many"}, ["limits.k", "'many'"]),
        ({"HEADGATE_GATE": "1", "HEADGATE_GATE__MIN_RATIO": "1"}, ["gate"]),
    ],
)
def test_a_mistake_names_the_key_the_value_and_what_is_allowed(environ, parts):
    with pytest.raises(ConfigError) as caught:
        load(environ=environ)
    assert all(part in str(caught.value) for part in parts)


@pytest.mark.parametrize("text", ["tenant = ", "\udcff", "[gate]\nnope = 1"])
def test_a_broken_file_is_named(tmp_path, text):
    (tmp_path / "headgate.toml").write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(ConfigError, match=r"headgate\.toml"):
        load(environ={})


def test_inspect_tells_where_each_value_came_from(tmp_path):
    (tmp_path / "headgate.toml").write_text("[gate]\nmin_ratio = 0.5")
    found = {s.name: s for s in inspect(environ={"HEADGATE_TENANT": "t"})}
    assert found["tenant"].origin == "environment"
    assert found["gate.min_ratio"].origin == "headgate.toml"
    assert found["gate.order"].origin == "default"


def test_every_setting_says_what_it_does():
    assert [s.name for s in inspect(environ={}) if not s.doc] == []
