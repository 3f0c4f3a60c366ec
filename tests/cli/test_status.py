"""`millgate status`, `ls` and `show`, and what is said about names that are not there."""

import json
from shlex import quote

import pytest

from millgate import Millgate


@pytest.fixture
def filled(run, tmp_path):
    """A store "kb" with two collections, a fact and a trace."""
    long = "\n\n".join(f"# Part {n}\n\n" + f"Refunds of kind {n} are paid. " * 60 for n in range(4))
    with Millgate.open("kb") as gate:
        gate.add([{"id": "guide", "text": long}, {"id": "note", "text": "Parcels leave at noon."}])
        gate.add([{"id": "guest", "text": "Guests have a key."}], collection="house")
        fact = gate.remember("The office is in Basel.").fact.id
        trace = gate.context("when do parcels leave?").trace.id
    return fact, trace


def test_status_says_what_is_there_and_how_far_the_index_is(run, filled):
    code, out, _ = run("status", "--store", "kb")
    assert code == 0
    assert "default  main" in out
    assert "up to date" in out
    assert "made at the first question" in out
    assert "default: 1 fact, 0 edges, 1 trace" in out
    assert "for a person" not in out


def test_status_speaks_json(run, filled):
    with Millgate.open("kb") as gate:
        gate.add([{"id": "late", "text": "A late row."}])
    found = json.loads(run("status", "--store", "kb", "--json")[1])
    (tenant,) = found["tenants"]
    house, main = tenant["collections"]
    assert (house["name"], house["documents"], house["index_lag"]) == ("house", 1, None)
    assert (main["name"], main["documents"], main["index_lag"]) == ("main", 3, 1)
    assert found["database_bytes"] > 0 < found["index_bytes"]


def test_ls_lists_collections_and_documents(run, filled):
    assert (
        json.loads(run("store", "list", "--store", "kb", "--json")[1])[0]["collection"] == "house"
    )
    rows = json.loads(run("store", "list", "main", "--store", "kb", "--json", "--match", "g*")[1])
    assert [row["document"] for row in rows] == ["guide"]
    assert rows[0]["chunks"] > 1
    _, out, err = run("store", "list", "main", "--store", "kb", "--limit", "1")
    assert "guide" in out
    assert "and 1 more" in err


@pytest.mark.parametrize(
    ("id", "kind"), [("guide", "document"), ("gui", "document"), ("guide#1", "chunk"), ("not", "document")]
)  # fmt: skip
def test_show_finds_documents_and_chunks_by_the_beginning_of_their_id(run, filled, id, kind):
    found = json.loads(run("store", "show", id, "--store", "kb", "--json")[1])
    assert found["kind"] == kind
    assert found["id"].startswith(id)
    assert found["value"][0]["text"]


def test_show_finds_facts_and_traces_by_the_beginning_of_their_id(run, filled):
    fact, trace = filled
    assert "The office is in Basel." in run("store", "show", fact[:12], "--store", "kb")[1]
    assert "when do parcels leave?" in run("store", "show", trace[:8], "--store", "kb")[1]
    assert "when do parcels leave?" in run("store", "show", "last", "--store", "kb")[1]


def test_show_lists_what_an_ambiguous_beginning_stands_for(run, filled):
    code, _, err = run("store", "show", "gu", "--store", "kb")
    assert code == 2
    assert "document guide in main" in err
    assert "document guest in house" in err


def test_a_short_trace_id_will_do(run, filled):
    trace = filled[1]
    assert run("why", trace[:6], "--store", "kb", "--json")[1].count(trace)
    assert run("why", trace[:6], "note", "--store", "kb")[0] == 0
    assert run("replay", "last", "budget=50", "--store", "kb")[0] == 0


def test_a_store_without_requests_says_so(run, tmp_path):
    with Millgate.open("kb") as gate:
        gate.add([{"id": "a", "text": "Parcels leave at noon."}])
    code, out, err = run("why", "--store", "kb")
    assert (code, out) == (2, "")
    assert "no request was made yet" in err
    code, _, err = run("why", "--store", "other/kb")
    assert "millgate wrap --store" in err


def test_an_ambiguous_trace_id_lists_the_matches(run, tmp_path):
    with Millgate.open("kb") as gate:
        gate.add([{"id": "a", "text": "Parcels leave at noon."}])
        traces = [gate.context("parcels?").trace for _ in range(2)]
        for n, trace in enumerate(traces):
            object.__setattr__(trace, "id", f"abcd{n}")
            gate.save_trace(trace)
    code, _, err = run("why", "abcd", "--store", "kb")
    assert code == 2
    assert "abcd0" in err
    assert "abcd1" in err
    assert run("why", "abcd1", "--store", "kb")[0] == 0


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["context", "x", "--store", "kbb"], "did you mean 'kb'?"),
        (["status", "--store", "kbb"], "there is no store in kbb"),
        (["context", "x", "--store", "kb", "--collection", "mian"], "did you mean 'main'?"),
        (["store", "list", "hose", "--store", "kb"], "did you mean 'house'?"),
        (["context", "x", "--store", "kb", "--tenant", "defualt"], "did you mean 'default'?"),
        (["status", "--store", "kb", "--tenant", "defualt"], "did you mean 'default'?"),
        (["store", "show", "nothing-at-all", "--store", "kb"], "nothing has the id"),
        (["why", "ffff", "--store", "kb"], "there is no trace 'ffff'"),
        (["why", "guest", "--store", "kb"], "it is a chunk: millgate why last guest"),
        (["why", "last", "gudie", "--store", "kb"], "there is no chunk 'gudie'"),
    ],
)
def test_a_slip_is_an_error_that_says_what_is_there(run, filled, args, said):
    code, out, err = run(*args)
    assert (code, out) == (2, "")
    assert said in err


def test_the_store_of_a_folder_above_is_named(run, tmp_path, monkeypatch):
    Millgate.open(".millgate").close()
    below = tmp_path / "files" / "my notes"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    code, _, err = run("context", "anything")
    assert code == 2
    assert f"a folder above has one: --store {quote(str(tmp_path / '.millgate'))}" in err
    assert "a folder above" not in run("context", "anything", "--store", "other")[2]


def test_an_empty_store_says_that_it_is_empty(run):
    Millgate.open("kb").close()
    code, _, err = run("context", "anything", "--store", "kb")
    assert code == 2
    assert "is empty" in err
    assert "millgate add FOLDER" in err


def test_facts_alone_are_enough_to_ask_for_context(run):
    run("facts", "remember", "The office is in Basel.", "--store", "kb")
    code, out, _ = run("context", "where is the office?", "--store", "kb")
    assert code == 0
    assert "Basel" in out


def test_asking_makes_no_store(run, tmp_path):
    for args in (
        ["context", "x"],
        ["why"],
        ["facts"],
        ["reviews", "list"],
        ["status"],
        ["store", "list"],
    ):
        assert run(*args)[0] == 2
    assert list(tmp_path.iterdir()) == []


def test_explain_names_the_number_that_decided_and_what_is_cited(run, tmp_path):
    long_id = "a/very/long/path/to/a/file/that/is/longer/than/a/column.md"
    with Millgate.open("kb") as gate:
        gate.add([
            {"id": long_id, "text": "Parcels leave the house at noon."},
            {"id": "copy", "text": "Parcels for guests leave at ten."},
        ])  # fmt: skip
    (tmp_path / "window.txt").write_text("Parcels for guests leave at ten.")
    _, out, _ = run("context", "when do parcels leave?", "--store", "kb", "--explain", "--window", "window.txt")  # fmt: skip
    assert f"[1] cites {long_id}" in out
    assert f"[1]    {long_id}" in out
    assert "already in the window (overlap 1)" in out


def test_every_command_that_opens_a_store_takes_the_same_options():
    from millgate import cli

    for name in cli.COMMANDS:
        command = cli.app.get_command(None, name)
        for path, one in _leaves(name, command):
            options = {option for param in one.params for option in param.opts}
            group = path.split()[0]
            assert "--json" in options or group in NO_JSON or path in NO_JSON, path
            assert "--store" in options or group in NO_STORE or path in NO_STORE, path


NO_JSON = {"store export", "expand", "config completion", "mcp", "wrap"}
# a copy names both of its stores as arguments
NO_STORE = {
    "demo",
    "guard",
    "xray",
    "eval",
    "strategy",
    "config",
    "mcp",
    "wrap",
    "store copy",
    "hermes",
    "fold messages",
    "expand",
}


def _leaves(path, command):
    commands = getattr(command, "commands", None)
    if commands is None:
        yield path, command
    for name, one in (commands or {}).items():
        yield from _leaves(f"{path} {name}", one)


def test_status_says_how_many_questions_wait_for_a_person(run, filled):
    with Millgate.open("kb") as gate:
        gate.reviews.ask("Where is the key?", collection="main", grades={}, reason="nothing fits")
    assert "1 trace, 1 question for a person" in run("status", "--store", "kb")[1]


def test_show_prints_a_document_with_its_chunks_and_a_chunk_with_its_document(run, filled):
    with Millgate.open("kb") as gate:
        gate.add([{"id": "tagged", "text": "A tagged page.", "metadata": {"team": "ops"}}])
    out = run("store", "show", "tagged", "--store", "kb")[1]
    assert out.startswith("document tagged in collection main, 1 chunk\n")
    assert "'team': 'ops'" in out
    assert "A tagged page." in out
    out = run("store", "show", "guide", "--store", "kb")[1]
    assert " chunks\n\n-- guide" in out
    assert "document 'guide'" not in out
    out = run("store", "show", "guide#1", "--store", "kb")[1]
    assert out.startswith("chunk guide#1 in collection main\n\n-- guide#1  ")
    assert "document 'guide'" in out
