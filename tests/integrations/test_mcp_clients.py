"""A client's configuration gets one entry, loses it again byte for byte, and is left alone when it cannot be read."""

import json
import os
import stat
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from millgate.cli import app
from millgate.errors import InputError
from millgate.integrations.mcp_clients import json_text, toml_text
from millgate.integrations.mcp_clients.clients import CLIENTS, Entry, Place, find_place
from millgate.integrations.mcp_clients.install import install, uninstall

VALUE = {"command": "/opt/bin/millgate", "args": ["mcp", "--store", '/tmp/ä😀\x7f b\\"c']}

JSON_FILES = [
    "{}",
    "{ }\n",
    "{\n}\n",
    '{"mcpServers": {}}',
    '{"mcpServers": {\n}}',
    '{\n  "mcpServers": {\n  }\n}\n',
    '{"a": 1}',
    '\ufeff{"a": [1, {"mcpServers": {}}]}',
    '{\r\n\t"theme": "dark",\r\n\t"mcpServers": {\r\n\t\t"other": {"command": "x"}\r\n\t}\r\n}\r\n',
    '// mine\n{\n  // servers\n  "mcpServers": { /* one, two */\n    "other": {"command": "x"}, // last\n  },\n}\n',
    '{"mcpServers": {"other": {"command": "x"}}, "z": "}{"}',
]
TOML_FILES = [
    "",
    "\n",
    'model = "x"',
    'model = "x"\n',
    'model = "x" # why\r\n\r\n[mcp_servers.other]\r\ncommand = "x"\r\n',
    '# only a comment\n\n\n[a]\nb = """\n[mcp_servers.not]\n"""\n',
    "[mcp_servers]\n",
    '[mcp_servers]\n[mcp_servers.other]\ncommand = "x"\n  ',
]


@pytest.mark.parametrize("text", JSON_FILES)
def test_removing_from_json_restores_every_byte(text):
    added = json_text.add(text, "mcpServers", "millgate", VALUE)
    assert json_text.find(added, "mcpServers", "millgate") == VALUE
    before, after = json_text.load(text), json_text.load(added)
    after["mcpServers"].pop("millgate")
    assert after["mcpServers"] == before.get("mcpServers", {})
    assert json_text.remove(added, "mcpServers", "millgate") == text


@pytest.mark.parametrize("text", TOML_FILES)
def test_removing_from_toml_restores_every_byte(text):
    added = toml_text.add(text, "mcp_servers", "millgate", VALUE)
    assert tomllib.loads(added.replace("\r\n", "\n"))["mcp_servers"]["millgate"] == VALUE
    assert added.startswith(text)
    assert toml_text.remove(added, "mcp_servers", "millgate") == text


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(
    st.dictionaries(st.text(), VALUES),
    st.dictionaries(st.text(), VALUES) | st.none(),
    st.sampled_from([None, 0, 2, "\t"]),
    st.booleans(),
)
def test_any_json_file_comes_back_as_it_was(rest, servers, indent, ascii):
    data = dict(rest)
    data.pop("mcpServers", None)
    if servers is not None:
        servers.pop("millgate", None)
        data["mcpServers"] = servers
    text = json.dumps(data, indent=indent, ensure_ascii=ascii)
    added = json_text.add(text, "mcpServers", "millgate", VALUE)
    assert json.loads(added)["mcpServers"]["millgate"] == VALUE
    assert json_text.remove(added, "mcpServers", "millgate") == text


def test_an_entry_that_others_moved_is_taken_out_alone():
    text = json.dumps(
        {"mcpServers": {"a": {}, "millgate": VALUE, "b": {}}, "x": 1}, indent=2, ensure_ascii=False
    )
    kept = json.loads(json_text.remove(text, "mcpServers", "millgate"))
    assert kept == {"mcpServers": {"a": {}, "b": {}}, "x": 1}
    last = json.dumps({"mcpServers": {"a": {}, "millgate": VALUE}})
    assert json.loads(json_text.remove(last, "mcpServers", "millgate")) == {"mcpServers": {"a": {}}}


def test_an_entry_with_a_comment_in_its_way_is_left_alone():
    text = '{"mcpServers": {"millgate": {} /* mine */, "b": {}}}'
    with pytest.raises(InputError, match="cannot be taken out safely"):
        json_text.remove(text, "mcpServers", "millgate")
    assert json_text.remove('{"mcpServers": 3}', "mcpServers", "millgate") == '{"mcpServers": 3}'


def test_a_toml_table_with_tables_inside_and_after_it_is_taken_out_alone():
    text = toml_text.add("a = 1\n", "mcp_servers", "millgate", VALUE)
    text += '[mcp_servers.millgate.env]\nA = "b"\n\n# mine\n[other]\nc = 2\n'
    kept = toml_text.remove(text, "mcp_servers", "millgate")
    assert tomllib.loads(kept) == {"a": 1, "other": {"c": 2}}
    assert "# mine\n[other]" in kept


@pytest.mark.parametrize(
    "text", ["", "nonsense", "[1]", '{"a": }', '{"a": 1', "{'a': 1}", ",}", '{"a": "\n"}', '{"mcpServers": 3}']
)  # fmt: skip
def test_json_that_cannot_be_edited_is_refused(text):
    with pytest.raises(InputError):
        json_text.add(text, "mcpServers", "millgate", VALUE)


@pytest.mark.parametrize("text", ["a = ", "[a]\n[a]\n", "mcp_servers = {}", "mcp_servers = 3"])
def test_toml_that_cannot_be_edited_is_refused(text):
    with pytest.raises(InputError):
        toml_text.add(text, "mcp_servers", "millgate", VALUE)


@pytest.fixture
def home(tmp_path, monkeypatch):
    for variable in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("MILLGATE_STORE", str(tmp_path / "kb"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments, code=0):
    done = CliRunner().invoke(app, list(arguments))
    assert done.exit_code == code, done.output
    return done


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("scope", ["user", "project"])
def test_a_file_that_install_made_is_gone_after_uninstall(home, client, scope):
    where = ("--client", client, "--scope", scope)
    path = find_place(client, scope).path
    printed = run("mcp", "install", *where, "--print")
    assert not path.exists()
    run("mcp", "install", *where)
    assert path.read_text() == printed.stdout
    assert "mcp" in path.read_text()
    assert "already" in run("mcp", "install", *where).output
    run("mcp", "uninstall", *where)
    assert not path.exists()
    assert "is not in" in run("mcp", "uninstall", *where).output


def test_the_entry_names_program_and_store_by_their_whole_path(home):
    run("mcp", "install", "--client", "cursor", "--collection", "notes", "--result", "both")
    entry = json.loads((home / ".cursor" / "mcp.json").read_text())["mcpServers"]["millgate"]
    assert Path(entry["command"]).is_absolute()
    place = ["--store", str(home / "kb"), "--collection", "notes", "--result", "both"]
    assert entry["args"][-7:] == ["mcp", *place]


def test_each_client_gets_the_form_it_reads(home):
    for client in CLIENTS:
        run("mcp", "install", "--client", client)
    claude = json.loads((home / ".claude.json").read_text())["mcpServers"]["millgate"]
    code = json.loads((home / ".config/Code/User/mcp.json").read_text())["servers"]["millgate"]
    codex = tomllib.loads((home / ".codex/config.toml").read_text())["mcp_servers"]["millgate"]
    gemini = json.loads((home / ".gemini/settings.json").read_text())["mcpServers"]["millgate"]
    assert claude == code == {"type": "stdio", **gemini}
    assert codex == gemini
    opencode = json.loads((home / ".config/opencode/opencode.json").read_text())["mcp"]["millgate"]
    assert opencode == {"type": "local", "command": [gemini["command"], *gemini["args"]]}


def test_opencodes_file_with_comments_is_used_if_it_is_the_one_that_is_there(home):
    file = home / ".config" / "opencode" / "opencode.jsonc"
    file.parent.mkdir(parents=True)
    file.write_text('{\n  // mine\n  "theme": "dark",\n}\n')
    run("mcp", "install", "--client", "opencode")
    assert json_text.load(file.read_text())["mcp"]["millgate"]["type"] == "local"
    run("mcp", "uninstall", "--client", "opencode")
    assert file.read_text() == '{\n  // mine\n  "theme": "dark",\n}\n'


def test_nobody_else_can_read_the_copy_while_it_is_written(tmp_path, monkeypatch):
    file = tmp_path / "mcp.json"
    file.write_text('{"key": "sk-secret"}')
    file.chmod(0o644)
    modes = []
    monkeypatch.setattr(os, "fsync", lambda number: modes.append(stat.S_IMODE(os.fstat(number).st_mode)))  # fmt: skip
    assert install(Place("A client", file), Entry("millgate", "millgate"))
    assert modes == [0o600]
    assert stat.S_IMODE(file.stat().st_mode) == 0o644


def test_a_file_that_cannot_be_parsed_is_left_alone_and_said(home):
    path = home / ".claude.json"
    path.write_bytes(b'{"mcpServers": {,}}')
    for command in ("install", "uninstall"):
        with pytest.raises(InputError, match="is left as it is: it is not valid JSON"):
            app.main(["mcp", command, "--client", "claude"], standalone_mode=False)
    path.write_bytes(b"\xff\xfe{}")
    with pytest.raises(InputError, match="is left as it is"):
        app.main(["mcp", "install", "--client", "claude"], standalone_mode=False)
    assert path.read_bytes() == b"\xff\xfe{}"


def test_a_link_stays_a_link_and_rights_stay(tmp_path):
    real = tmp_path / "dotfiles.json"
    real.write_text("{}")
    real.chmod(0o600)
    link = tmp_path / "mcp.json"
    link.symlink_to(real)
    place = Place("A client", link)
    assert install(place, Entry("millgate", "millgate", ("mcp",)))
    assert link.is_symlink()
    assert stat.S_IMODE(real.stat().st_mode) == 0o600
    assert uninstall(place, "millgate")
    assert real.read_text() == "{}"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["dotfiles.json", "mcp.json"]


def test_another_server_of_that_name_is_not_overwritten(tmp_path):
    place = Place("A client", tmp_path / "mcp.json")
    install(place, Entry("millgate", "one"))
    with pytest.raises(InputError, match="another server named millgate"):
        install(place, Entry("millgate", "two"))
    assert json.loads(place.path.read_text())["mcpServers"]["millgate"]["command"] == "one"


def test_a_name_that_is_no_plain_key_is_refused(home):
    with pytest.raises(InputError, match="cannot be used"):
        app.main(["mcp", "install", "--client", "codex", "--name", "a.b"], standalone_mode=False)


def test_a_link_out_of_the_project_is_not_followed(tmp_path, monkeypatch):
    project, outside = tmp_path / "project", tmp_path / "outside.json"
    project.mkdir()
    outside.write_text("{}")
    (project / ".mcp.json").symlink_to(outside)
    (project / ".cursor").symlink_to(tmp_path)
    monkeypatch.chdir(project)
    for client in ("claude", "cursor"):
        with pytest.raises(InputError, match="leads out of this folder"):
            find_place(client, "project")
    assert find_place("gemini", "project").path.name == "settings.json"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes in a folder")
def test_a_pipe_a_link_to_itself_and_a_huge_file_are_left_as_they_are(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    os.mkfifo(tmp_path / ".mcp.json")
    (tmp_path / "opencode.json").symlink_to(tmp_path / "opencode.json")
    (tmp_path / ".cursor").mkdir()
    with (tmp_path / ".cursor" / "mcp.json").open("wb") as file:
        file.truncate(1 << 40)
    for client in ("claude", "opencode", "cursor"):
        with pytest.raises(InputError, match="is left as it is"):
            install(find_place(client, "project"), Entry("millgate", "millgate"))
