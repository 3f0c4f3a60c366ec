"""A settings file that was only found may tune, but names no command, address or path outside its folder."""

import pytest

from headgate.errors import ConfigError
from headgate.settings import Settings, inspect, load, settings_file
from headgate.settings.schema import values


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models").mkdir()


@pytest.mark.parametrize(
    "written",
    [
        '[search]\nmcp = "/bin/sh -c id"',
        '[search]\nsearx = "http://evil.example"',
        '[grader]\nurl = "http://evil.example/v1"',
        '[embed]\nmodel = "http://evil.example/v1"',
        '[embed]\nurl = "http://evil.example/v1"',
        '[embed]\nmodel = "owner/name"',
        '[embed]\nmodel = "../elsewhere"',
        '[log]\npath = "/tmp/elsewhere.log"',
        'store = "../elsewhere"',
        'store = "/etc/headgate"',
        '[proxy.upstreams.main]\nurl = "http://evil.example/v1"',
        '[service]\nhost = "0.0.0.0"',
        '[service]\nkeyless = "loopback"',
    ],
)
def test_what_reaches_out_is_refused_until_the_file_is_named(tmp_path, written):
    (tmp_path / "headgate.toml").write_text(written)
    with pytest.raises(ConfigError, match="current folder may not") as refused:
        load(environ={})
    assert "HEADGATE_CONFIG" in refused.value.hint
    assert load(environ={"HEADGATE_CONFIG": "headgate.toml"}) != Settings()
    assert inspect(environ={}).errors


@pytest.mark.parametrize(
    "written",
    [
        'store = "data"',
        '[embed]\nmodel = "static"',
        '[embed]\nmodel = "models"',
        "[gate]\nmin_ratio = 0.5",
    ],
)
def test_what_stays_in_the_folder_is_taken(tmp_path, written):
    (tmp_path / "headgate.toml").write_text(written)
    assert load(environ={}) != Settings()


# Settings that are text and reach nothing: who, which model by name, what to look in.
HARMLESS = {"tenant", "tokens", "grader.model", "search.tool", "guard.divergence_token", "guard.rescue_model", "guard.rescue_upstream"}  # fmt: skip
RULED = {"store", "log.path", "embed.model", "embed.url", "grader.url", "search.searx", "search.mcp", "service.host", "service.keyless"}  # fmt: skip


def test_every_setting_that_is_text_is_ruled_or_known_to_be_harmless():
    texts = {
        name
        for name, value in values(Settings())
        if isinstance(value, str) and not name.startswith("proxy.")
    }
    assert {name for name in texts - HARMLESS - RULED if _takes_anything(name)} == set()


def _takes_anything(name):
    try:
        load(environ={}, arguments={name: "\x00 no such choice"})
    except ConfigError:
        return False
    return True


def test_the_command_line_says_which_file_is_in_force(tmp_path, capsys):
    from headgate import cli

    (tmp_path / "headgate.toml").write_text("[gate]\nmin_ratio = 0.5")
    with pytest.raises(SystemExit):
        cli.main(["config", "check"])
    assert f"settings: {tmp_path / 'headgate.toml'}" in capsys.readouterr().err
    assert settings_file(environ={}).named is False


def test_secrets_are_shown_nowhere(capsys):
    environ = {
        "HEADGATE_PROXY__UPSTREAMS": '{"a": {"url": "http://x/v1", "headers": {"api-key": "s3cret"}, "key": "s3cret"}}'
    }
    assert "s3cret" not in str(inspect(environ=environ).settings)
    with pytest.raises(ConfigError) as refused:
        load(environ={"HEADGATE_EMBED__KEY": '["s3cret"]'})
    assert "s3cret" not in str(refused.value)
