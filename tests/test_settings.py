"""Settings: which source wins, and how a mistake is named."""

import logging
import re
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner
from pydantic import ValidationError

from millgate.cli import app
from millgate.errors import ConfigError
from millgate.gateway import Millgate
from millgate.pipeline.stages.gate import GatePolicy
from millgate.pipeline.stages.retrieve import RetrievePolicy
from millgate.settings import Settings, inspect, load
from millgate.types.policy import Policy


@pytest.fixture(autouse=True)
def _an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_defaults_stand_when_nothing_is_set():
    settings = load(environ={})
    assert (settings.tenant, settings.gate.min_ratio) == ("default", 0.08)


def kinds(policy):
    """The values of a policy with their types: 6000 and 6000.0 are equal, and print differently."""
    return {
        name: kinds(value) if isinstance(value, Policy) else (type(value), value)
        for name, value in policy
    }


def test_defaults_are_what_their_checks_would_make_of_them():
    # `default` makes no checks, so that starting takes no time for them
    assert kinds(Settings.default()) == kinds(Settings.model_validate({}))
    for name, default in Settings.default():
        if isinstance(default, Policy):
            assert kinds(default) == kinds(type(default).model_validate({})), name


def test_what_is_set_is_checked_as_when_everything_is():
    changes = {"store": "kb", "gate.min_entropy": "0.9", "service.rate": 5}
    tree = {"store": "kb", "gate": {"min_entropy": "0.9"}, "service": {"rate": 5}}
    made = load(environ={}, arguments=changes)
    assert kinds(made) == kinds(Settings.model_validate(tree))
    assert made == Settings.model_validate(tree)


def test_arguments_beat_the_environment_which_beats_the_file(tmp_path):
    (tmp_path / "millgate.toml").write_text("[gate]\nmin_entropy = 0.1\nmin_ratio = 0.5\n")
    environ = {"MILLGATE_TENANT": "env", "MILLGATE_GATE__MIN_ENTROPY": "0.2"}
    settings = load(environ=environ, arguments={"gate.min_entropy": 0.9})
    assert settings.tenant == "env"
    assert (settings.gate.min_entropy, settings.gate.min_ratio) == (0.9, 0.5)


def test_a_named_file_is_used_and_a_missing_one_is_an_error(tmp_path):
    (tmp_path / "other.toml").write_text('tenant = "other"')
    assert load(environ={"MILLGATE_CONFIG": "other.toml"}).tenant == "other"
    with pytest.raises(ConfigError, match=r"cannot read gone\.toml"):
        load("gone.toml", environ={})


def test_lists_are_written_as_json():
    settings = load(environ={"MILLGATE_GRAPH__HIGH_SIGNAL": '["uses"]'})
    assert settings.graph.high_signal == {"uses"}


@pytest.mark.parametrize(
    ("environ", "parts"),
    [
        ({"MILLGATE_GATE__MIN_RATIO": "3"}, ["gate.min_ratio", "'3'", "equal to 1"]),
        (
            {"MILLGATE_GATE__MIN_RATOI": "1"},
            ["gate.min_ratoi is not a setting", "did you mean MILLGATE_GATE__MIN_RATIO?"],
        ),
        ({"MILLGATE_GATES__X": "1"}, ["gates is not a setting", "MILLGATE_GATES__X"]),
        ({"MILLGATE_SERVICE__PORT": "many"}, ["service.port", "'many'", "MILLGATE_SERVICE__PORT"]),
        ({"MILLGATE_STOER": "kb"}, ["MILLGATE_STOER", "did you mean MILLGATE_STORE?"]),
        ({"MILLGATE_GATE_MIN_RATIO": "0"}, ["did you mean MILLGATE_GATE__MIN_RATIO?"]),
        ({"MILLGATE_CONFG": "x.toml"}, ["did you mean MILLGATE_CONFIG?"]),
        ({"MILLGATE_GATE": "1", "MILLGATE_GATE__MIN_RATIO": "1"}, ["MILLGATE_GATE", "group"]),
        (
            {"MILLGATE_RETRIEVE__K1": "1.5"},
            ["retrieve.k1", "MILLGATE_RETRIEVE__K1", 'Millgate.open(path, **{"retrieve.k1": ...})'],
        ),
        ({"MILLGATE_SLICE__DECAY": "1"}, ["slice.decay", "argument in Python"]),
    ],
)
def test_a_mistake_names_the_key_the_value_and_what_is_allowed(environ, parts):
    with pytest.raises(ConfigError) as caught:
        load(environ=environ)
    assert all(part in str(caught.value) for part in parts)


@pytest.mark.parametrize("text", ["tenant = ", "\udcff", "[gate]\nnope = 1"])
def test_a_broken_file_is_named(tmp_path, text):
    (tmp_path / "millgate.toml").write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(ConfigError, match=r"millgate\.toml"):
        load("millgate.toml", environ={})


def test_what_kubernetes_injects_is_ignored_with_one_debug_line(caplog):
    injected = {
        "MILLGATE_SERVICE_HOST": "10.0.0.7",
        "MILLGATE_SERVICE_PORT": "8642",
        "MILLGATE_SERVICE_PORT_HTTP": "8642",
        "MILLGATE_PORT": "tcp://10.0.0.7:8642",
        "MILLGATE_PORT_8642_TCP": "tcp://10.0.0.7:8642",
        "MILLGATE_PORT_8642_TCP_PROTO": "tcp",
        "MILLGATE_PORT_8642_TCP_ADDR": "10.0.0.7",
        "MILLGATE_API_SERVICE_HOST": "10.0.0.8",
        "MILLGATE_BUILD_COMMIT_SHA": "abc",
    }
    with caplog.at_level(logging.DEBUG, logger="millgate.settings"):
        assert load(environ=injected) == Settings()
    (line,) = caplog.records
    assert all(name in line.getMessage() for name in injected)


def test_a_tuning_argument_is_taken_in_python_and_refused_in_a_file(tmp_path):
    assert Settings(retrieve=RetrievePolicy(k1=1.5)).retrieve.k1 == 1.5
    with Millgate.open(":memory:", **{"retrieve.k1": 1.5}) as gate:
        assert gate.settings.retrieve.k1 == 1.5
    assert load(environ={}, arguments={"retrieve.k1": 1.5}).retrieve.k1 == 1.5
    (tmp_path / "millgate.toml").write_text("[retrieve]\nk1 = 1.5")
    with pytest.raises(ConfigError, match=r"retrieve\.k1 \(from millgate\.toml\).*Millgate\.open"):
        load("millgate.toml", environ={})


def test_inspect_tells_where_each_value_came_from(tmp_path):
    (tmp_path / "millgate.toml").write_text("[gate]\nmin_ratio = 0.5")
    found = {s.name: s for s in inspect(environ={"MILLGATE_TENANT": "t"}).settings}
    assert found["tenant"].origin == "MILLGATE_TENANT"
    assert found["gate.min_ratio"].origin == "millgate.toml"
    assert found["gate.min_entropy"].origin == "default"


def test_inspect_shows_the_rest_beside_what_cannot_be_used(tmp_path):
    (tmp_path / "millgate.toml").write_text("nope = 1\n[gate]\nmin_ratio = 7\nmin_entropy = 0.2")
    environ = {
        "MILLGATE_STOER": "x",
        "MILLGATE_TENANT": "t",
        "MILLGATE_PROXY__UPSTREAMS__MAIN__KEY": "k",
    }
    settings, errors = inspect(environ=environ)
    found = {s.name: s.value for s in settings}
    assert (found["tenant"], found["gate.min_entropy"], found["gate.min_ratio"]) == ("t", 0.2, 0.08)
    named = ("MILLGATE_STOER", "nope", "gate.min_ratio", "proxy.upstreams.main.url")
    assert [any(name in str(error) for error in errors) for name in named] == [True] * 4
    assert len(errors) == 4


def test_every_setting_says_what_it_does():
    assert [s.name for s in inspect(environ={}).settings if not s.doc] == []


def test_there_are_at_most_95_settings():
    assert len(inspect(environ={}).settings) <= 95


def test_the_published_environment_names_are_read_and_ours_goes_before():
    environ = {
        "CONTEXT_GATEWAY_SELFREF_ENABLED": "false",
        "CONTEXT_GATEWAY_SELFREF_DUP_HAMMING": "5",
        "CONTEXT_GATEWAY_SELFREF_TRIGGER_OVERLAP": "0.7",
        "CONTEXT_GATEWAY_SELFREF_MIN_NOVEL": "3",
        "CONTEXT_GATEWAY_SELFREF_SHINGLE_SIZE": "5",
        "CONTEXT_GATEWAY_SELFREF_MINHASH_PERM": "128",
        "CONTEXT_GATEWAY_PORT": "of another program",
        "MILLGATE_EXPAND__MIN_NOVEL": "4",
    }
    settings = load(environ=environ)
    assert (settings.penalize.enabled, settings.penalize.dup_hamming) == (False, 5)
    assert (settings.expand.trigger_overlap, settings.expand.min_novel) == (0.7, 4)


def test_a_published_name_with_a_wrong_value_is_ignored_with_a_warning(caplog):
    environ = {
        "CONTEXT_GATEWAY_SELFREF_MIN_NOVEL": "many",
        "CONTEXT_GATEWAY_SELFREF_SHINGLE_SIZE": "7",
        "CONTEXT_GATEWAY_SELFREF_TRIGGER_OVERLAP": "0.7",
    }
    settings = load(environ=environ)
    assert (settings.expand.min_novel, settings.expand.trigger_overlap) == (2, 0.7)
    for name in ("MIN_NOVEL", "SHINGLE_SIZE"):
        assert f"CONTEXT_GATEWAY_SELFREF_{name}" in caplog.text


@pytest.mark.parametrize(
    ("environ", "arguments", "named"),
    [
        ({"MILLGATE_GATE__MIN_RATIO": "0.1"}, {"gate": 5}, "gate"),
        ({"MILLGATE_STORE": "kb"}, {"store": {"path": "kb"}}, "store"),
    ],
)
def test_a_value_over_a_group_and_a_group_over_a_value_are_mistakes(environ, arguments, named):
    with pytest.raises(ConfigError, match=named):
        load(environ=environ, arguments=arguments)


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        ({"retrieve": {"keeep": 2}}, "retrieve.keep"),  # and not trace.keep
        ({"retreive": {}}, "retrieve"),
        ({"gaet": {"min_ratio": 1}}, "gate"),
        ({"gate": {"floor": 0}}, "grade.floor"),
    ],
)
def test_the_name_that_was_meant_is_looked_for_in_its_own_group_first(arguments, meant):
    with pytest.raises(ConfigError) as caught:
        load(arguments=arguments, environ={})
    assert caught.value.hint == f"did you mean {meant}?"


def test_layers_that_set_parts_of_one_group_are_joined():
    found = load(environ={"MILLGATE_GATE__MIN_ENTROPY": "0.2"}, arguments={"gate": {"min_ratio": 0.5}})  # fmt: skip
    assert (found.gate.min_entropy, found.gate.min_ratio) == (0.2, 0.5)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Settings(retreive={}), "Settings takes no retreive (did you mean retrieve?)"),
        (lambda: Settings(gate={"min_ratoi": 1}), "gate.min_ratoi (did you mean min_ratio?)"),
        (lambda: Settings(gate={"min_ratio": "x"}), "gate.min_ratio is 'x': input should be"),
        (lambda: GatePolicy(min_ratoi=1), "GatePolicy takes no min_ratoi"),
        (lambda: Settings(proxy={"upstreams": {"a": {"key": "sk-1"}}}), "field required"),
    ],
)
def test_a_bad_setting_in_python_says_what_was_meant(make, said):
    with pytest.raises(ConfigError) as refused:
        make()
    assert said in str(refused.value)
    assert "sk-1" not in str(refused.value)


ROOT = Path(__file__).parent.parent
BLOCKS = [
    pytest.param(tomllib.loads(block), id=f"{page.name}:{at}")
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    for at, block in enumerate(re.findall(r"^```toml\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE))
    if not re.match(r"openai_base_url|model_provider|budget", block)  # Codex's settings, and a file of tests
]  # fmt: skip


@pytest.mark.parametrize("tree", BLOCKS)
def test_a_block_of_the_pages_is_read_as_pydantic_reads_it(tree):
    assert _written(load(arguments=tree, environ={})) == _written(Settings.model_validate(tree))


@pytest.mark.parametrize("name", Settings.model_fields)
@pytest.mark.parametrize("value", [{"no such thing": {"inptu": "cheap"}}, ["cheap"], 7, True, "x"])
def test_no_value_of_a_file_is_taken_unchecked(name, value):
    try:
        expected = _written(Settings.model_validate({name: value}))
    except ValidationError:
        with pytest.raises(ConfigError):
            load(arguments={name: value}, environ={})
    else:
        assert _written(load(arguments={name: value}, environ={})) == expected


def _written(settings):
    """Settings with the type of each value; what a set holds in one order."""
    sorts = re.compile(r"frozenset\(\{(.*?)\}\)")
    return sorts.sub(lambda found: str(sorted(found[1].split(", "))), repr(settings))


def test_config_check_refuses_a_price_with_a_misspelt_key(tmp_path):
    (tmp_path / "own.toml").write_text('[prices."gpt-5"]\ninptu = "cheap"\n')
    done = CliRunner().invoke(app, ["config", "check", "own.toml"])
    assert done.exit_code != 0
    assert "prices.gpt-5.inptu" in done.output
