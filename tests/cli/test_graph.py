"""The commands of the graph: edges in, paths out, slices signed and verified."""

import json

import pytest


@pytest.fixture
def talk(run, tmp_path):
    lines = [
        {
            "id": "t1",
            "role": "user",
            "content": "Plan the move",
            "phase": "planning",
            "salience": 0.5,
        },
        {"id": "t2", "role": "assistant", "content": "Done so far", "phase": "synthesis"},
        {"id": "t3", "role": "user", "content": "A bug", "phase": "debugging"},
    ]
    (tmp_path / "talk.jsonl").write_text("\n".join(map(json.dumps, lines)))
    run("facts", "remember", "--session", "s", "--turns", "talk.jsonl")


def test_edges_are_loaded_and_followed(run, tmp_path):
    (tmp_path / "e.csv").write_text("api,depends_on,cache\ncache,uses,disk\nbad line\n")
    code, out, err = run("graph", "load", "e.csv")
    assert (code, out) == (0, "2 edges linked, 1 line skipped\n")
    assert "e.csv:3: no predicate" in err
    assert run("graph", "show", "api")[1] == (
        "0.60  api -[depends_on]-> cache\n0.70  api -[depends_on]-> cache -[uses]-> disk\n"
    )
    assert json.loads(run("graph", "show", "disk", "--direction", "out", "--json")[1]) == []
    assert "no path begins" in run("graph", "show", "nobody")[1]
    one = json.loads(run("graph", "show", "api", "--hops", "1", "--json")[1])
    assert one == [{"path": "api -[depends_on]-> cache", "score": 0.6}]


def test_stored_documents_tell_their_edges(run, tmp_path):
    from millgate import Millgate

    with Millgate.open(tmp_path / ".millgate") as gate:
        gate.add([{"id": "guide.md", "text": "# Setup\n\nSee [more](more.md)."}])
    assert json.loads(run("graph", "load", "--collection", "main", "--json")[1])["linked"] == 2
    assert "guide.md -[links_to]-> more.md" in run("graph", "show", "more.md")[1]


def test_a_slice_is_signed_and_verified(run, talk, tmp_path):
    assert "slice " in run("graph", "slice", "t1")[1]
    made = run("graph", "slice", "t1", "--json")[1]
    (tmp_path / "s.json").write_text(made)
    assert run("graph", "verify", "s.json")[:2] == (0, "admissible\n")
    assert [turn["id"] for turn in json.loads(made)["turns"]] == ["t1", "t2", "t3"]

    forged = json.loads(made) | {"anchor": "t2"}
    (tmp_path / "f.json").write_text(json.dumps(forged))
    code, out, _ = run("graph", "verify", "f.json", "--json")
    assert (code, json.loads(out)["admissible"]) == (1, False)


def test_old_slices_verify_until_the_former_secret_expires(run, talk, tmp_path):
    (tmp_path / "s.json").write_text(run("graph", "slice", "t1", "--json")[1])
    assert "7 days" in run("graph", "rotate", "--days", "7")[1]
    assert run("graph", "verify", "s.json")[0] == 0
    (tmp_path / "n.json").write_text(run("graph", "slice", "t1", "--json")[1])
    run("graph", "rotate", "--days", "0", "--json")
    assert run("graph", "verify", "n.json")[0] == 1
    assert run("graph", "verify", "s.json")[0] == 0  # it was given seven days


def test_admitted_turns_carry_the_token_through_the_pipeline(run, talk):
    token = json.loads(run("graph", "slice", "t1", "--admit", "--json")[1])["token"]
    made = json.loads(run("context", "what about the move?", "--collection", "turns", "--json")[1])
    assert made["admissibility_token"] == token


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["graph", "load"], "nothing to load"),
        (["graph", "load", "absent.csv"], "cannot be read"),
        (["graph", "load", "latin.csv"], "not UTF-8"),
        (["graph", "load", "x.txt"], "not an edge file"),
        (["graph", "slice", "nope"], "no turn has the id 'nope'"),
        (["graph", "verify", "absent.json"], "cannot read"),
        (["graph", "verify", "latin.csv"], "is not JSON"),
        (["graph", "verify", "list.json"], "a slice is a JSON object"),
    ],
)
def test_what_is_wrong_is_said(run, tmp_path, args, said):
    (tmp_path / "latin.csv").write_bytes(b"a,uses,caf\xe9")
    (tmp_path / "list.json").write_text("[]")
    run("facts", "remember", "A store is here.")
    code, _, err = run(*args)
    assert code == 2
    assert said in err
    assert "Traceback" not in err
