"""`millgate hermes`: the plugin folder is written, said where, and taken away."""

import json


def test_it_writes_the_plugin_folder_and_says_what_comes_next(run, tmp_path):
    code, out, err = run("hermes", "install", "--home", str(tmp_path))
    assert code == 0
    assert str(tmp_path / "plugins" / "millgate") in out
    assert "hermes config set memory.provider millgate" in out
    assert "hermes-agent is not installed in this Python" in err
    assert "is there already" in run("hermes", "install", "--home", str(tmp_path))[1]


def test_the_home_may_come_from_the_environment(run, tmp_path, monkeypatch):
    monkeypatch.setenv("HERMES_HOME", str(tmp_path / "profile"))
    _, out, _ = run("hermes", "install", "--json")
    written = json.loads(out)
    assert written == {
        "path": str(tmp_path / "profile" / "plugins" / "millgate"),
        "changed": True,
        "hermes_agent_found": False,
    }
    _, out, _ = run("hermes", "uninstall", "--json")
    assert json.loads(out) == {"path": written["path"], "changed": True}
    assert "is not there" in run("hermes", "uninstall")[1]


def test_a_folder_that_is_not_ours_is_an_error_with_a_hint(run, tmp_path):
    folder = tmp_path / "plugins" / "millgate"
    folder.mkdir(parents=True)
    (folder / "plugin.yaml").write_text("name: theirs\n")
    code, _, err = run("hermes", "install", "--home", str(tmp_path))
    assert code == 2
    assert "is not ours" in err
    assert "--home" in err
