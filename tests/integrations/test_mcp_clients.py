"""A client's configuration gets one entry, loses it again, and is left alone when it cannot be read."""

import json
import os
import stat
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from tests.hostile import grows_faster

from millgate.cli import app
from millgate.errors import InputError
from millgate.integrations.mcp_clients import CLIENTS, Entry, Place, find_place, load_json

ENTRY = Entry("millgate", "/opt/bin/millgate", ("mcp", "--store", '/tmp/ä😀\x7f b\\"c'))
VALUE = {"command": ENTRY.command, "args": list(ENTRY.arguments)}

JSON_FILES = [
    '{"mcpServers": {}}',
    '{"mcpServers": {\n}}',
    '{\n  "mcpServers": {\n  }\n}\n',
    '{\r\n\t"theme": "dark",\r\n\t"mcpServers": {\r\n\t\t"other": {"command": "x"}\r\n\t}\r\n}\r\n',
    '// mine\n{\n  // servers\n  "mcpServers": { /* one, two */\n    "other": {"command": "//x"}, // last\n  },\n}\n',
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


def place(folder, text, suffix="json"):
    """A configuration with some text in it."""
    path = folder / f"config.{suffix}"
    path.write_bytes(text.encode())
    return Place("A client", path, "mcpServers" if suffix == "json" else "mcp_servers")


def edit(folder, text, suffix="json"):
    """A configuration with our entry in it, and after it was taken out again."""
    one = place(folder, text, suffix)
    assert one.install(ENTRY)
    added = one.path.read_bytes().decode()
    assert one.uninstall(ENTRY.name)
    return added, one.path.read_bytes().decode()


@pytest.mark.parametrize("text", JSON_FILES)
def test_removing_from_json_restores_every_byte(tmp_path, text):
    added, left = edit(tmp_path, text)
    before, after = load_json(text), load_json(added)
    assert after["mcpServers"].pop("millgate") == VALUE
    assert after == before
    assert left == text


@pytest.mark.parametrize("text", TOML_FILES)
def test_removing_from_toml_restores_every_byte(tmp_path, text):
    added, left = edit(tmp_path, text, "toml")
    assert tomllib.loads(added.replace("\r\n", "\n"))["mcp_servers"]["millgate"] == VALUE
    assert added.startswith(text)
    assert left == text


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(
    st.dictionaries(st.text(), VALUES),
    st.dictionaries(st.text(), VALUES),
    st.sampled_from([None, 0, 2, "\t"]),
    st.booleans(),
)
def test_any_json_file_comes_back_as_it_was(tmp_path_factory, rest, servers, indent, ascii):
    servers.pop("millgate", None)
    data = rest | {"mcpServers": servers}
    text = json.dumps(data, indent=indent, ensure_ascii=ascii)
    added, left = edit(tmp_path_factory.getbasetemp(), text)
    assert json.loads(added)["mcpServers"]["millgate"] == VALUE
    assert left == text


@pytest.mark.parametrize(
    "text", ["{}", "{ }\n", '\ufeff{"a": 1}', '{\n  "a": [1, {"mcpServers": {}}]\n}']
)
def test_a_file_without_servers_keeps_an_empty_table_of_them(tmp_path, text):
    _, left = edit(tmp_path, text)
    assert load_json(left) == load_json(text) | {"mcpServers": {}}


def test_an_entry_that_others_moved_is_taken_out_alone(tmp_path):
    data = {"mcpServers": {"a": {}, "millgate": VALUE, "b": {}}, "x": 1}
    one = place(tmp_path, json.dumps(data, indent=2, ensure_ascii=False))
    one.uninstall("millgate")
    assert json.loads(one.path.read_text()) == {"mcpServers": {"a": {}, "b": {}}, "x": 1}
    last = place(tmp_path, json.dumps({"mcpServers": {"a": {}, "millgate": VALUE}}))
    last.uninstall("millgate")
    assert json.loads(last.path.read_text()) == {"mcpServers": {"a": {}}}


def test_a_toml_table_with_tables_inside_and_after_it_is_taken_out_alone(tmp_path):
    one = place(tmp_path, "a = 1\n", "toml")
    one.install(ENTRY)
    with one.path.open("a") as file:
        file.write('[mcp_servers.millgate.env]\nA = "b"\n\n# mine\n[other]\nc = 2\n')
    one.uninstall("millgate")
    kept = one.path.read_text()
    assert tomllib.loads(kept) == {"a": 1, "other": {"c": 2}}
    assert "# mine\n[other]" in kept


@pytest.mark.parametrize(
    "text", ["", "nonsense", "[1]", '{"a": }', '{"a": 1', "{'a': 1}", ",}", '{"a": "\n"}', '{"mcpServers": 3}', '// {', '{"a": "//}']
)  # fmt: skip
def test_json_that_cannot_be_edited_is_left_alone(tmp_path, text):
    one = place(tmp_path, text)
    with pytest.raises(InputError, match="is left as it is") as refused:
        one.install(ENTRY)
    assert "--print" in refused.value.hint
    assert one.path.read_text() == text


@pytest.mark.parametrize("text", ["a = ", "[a]\n[a]\n", "mcp_servers = {}", "mcp_servers = 3"])
def test_toml_that_cannot_be_edited_is_left_alone(tmp_path, text):
    one = place(tmp_path, text, "toml")
    with pytest.raises(InputError, match="is left as it is"):
        one.install(ENTRY)
    assert one.path.read_text() == text


def test_an_entry_that_cannot_be_taken_out_is_left_alone(tmp_path):
    text = '[mcp_servers]\nmillgate = { command = "x" }\n'
    one = place(tmp_path, text, "toml")
    with pytest.raises(InputError, match="cannot be taken out safely"):
        one.uninstall("millgate")
    assert one.path.read_text() == text


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
def test_what_is_printed_is_what_a_new_file_holds(home, client, scope):
    where = ("--client", client, "--scope", scope)
    path = find_place(client, scope).path
    printed = run("mcp", "install", *where, "--print")
    assert not path.exists()
    run("mcp", "install", *where)
    assert path.read_text() == printed.stdout
    assert "mcp" in path.read_text()
    assert "already" in run("mcp", "install", *where).output
    run("mcp", "uninstall", *where)
    assert "millgate" not in path.read_text()
    assert "is not in" in run("mcp", "uninstall", *where).output


def test_the_entry_names_program_and_store_by_their_whole_path(home):
    run("mcp", "install", "--client", "cursor", "--collection", "notes")
    entry = json.loads((home / ".cursor" / "mcp.json").read_text())["mcpServers"]["millgate"]
    assert Path(entry["command"]).is_absolute()
    place = ["--store", str(home / "kb"), "--collection", "notes"]
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


def test_opencodes_other_file_is_used_if_it_is_the_one_that_is_there(home):
    file = home / ".config" / "opencode" / "opencode.jsonc"
    file.parent.mkdir(parents=True)
    file.write_text('{"mcp": {}}')
    run("mcp", "install", "--client", "opencode")
    assert json.loads(file.read_text())["mcp"]["millgate"]["type"] == "local"
    run("mcp", "uninstall", "--client", "opencode")
    assert file.read_text() == '{"mcp": {}}'


def test_nobody_else_can_read_the_copy_while_it_is_written(tmp_path, monkeypatch):
    file = tmp_path / "mcp.json"
    file.write_text('{"key": "sk-secret"}')
    file.chmod(0o644)
    modes = []
    monkeypatch.setattr(os, "fsync", lambda number: modes.append(stat.S_IMODE(os.fstat(number).st_mode)))  # fmt: skip
    assert Place("A client", file).install(Entry("millgate", "millgate"))
    assert modes == [0o600]
    assert stat.S_IMODE(file.stat().st_mode) == 0o644


def test_a_file_that_cannot_be_parsed_is_left_alone_and_said(home):
    path = home / ".claude.json"
    path.write_bytes(b'{"mcpServers": {"a" 1}}')
    for command in ("install", "uninstall"):
        with pytest.raises(InputError, match="is left as it is: it is not valid JSON"):
            app.main(["mcp", command, "--client", "claude"], standalone_mode=False)
    path.write_bytes(b"\xff\xfe{}")
    with pytest.raises(InputError, match="is left as it is"):
        app.main(["mcp", "install", "--client", "claude"], standalone_mode=False)
    assert path.read_bytes() == b"\xff\xfe{}"


def test_a_link_stays_a_link_and_rights_stay(tmp_path):
    real = tmp_path / "dotfiles.json"
    real.write_text('{"mcpServers": {}}')
    real.chmod(0o600)
    link = tmp_path / "mcp.json"
    link.symlink_to(real)
    place = Place("A client", link)
    assert place.install(Entry("millgate", "millgate", ("mcp",)))
    assert link.is_symlink()
    assert stat.S_IMODE(real.stat().st_mode) == 0o600
    assert place.uninstall("millgate")
    assert real.read_text() == '{"mcpServers": {}}'
    assert sorted(p.name for p in tmp_path.iterdir()) == ["dotfiles.json", "mcp.json"]


def test_another_server_of_that_name_is_not_overwritten(tmp_path):
    place = Place("A client", tmp_path / "mcp.json")
    place.install(Entry("millgate", "one"))
    with pytest.raises(InputError, match="another server named millgate"):
        place.install(Entry("millgate", "two"))
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
            find_place(client, "project").install(Entry("millgate", "millgate"))


@pytest.mark.parametrize(
    ("start", "unit"), [("{}", ",/*\t"), ('{"a": 1} /* ', "* /"), ('{"a": "', '\\"')]
)
def test_what_is_never_closed_is_refused_in_linear_time(start, unit):
    def refuse(text):
        with pytest.raises(ValueError, match="line"):
            load_json(text)

    assert not grows_faster(refuse, lambda size: start + unit * size)
