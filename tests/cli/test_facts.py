"""The commands of memory: they parse, call and print, and say what was wrong."""

import json

import pytest


def remembered(run, *args) -> str:
    return json.loads(run("facts", "remember", *args, "--json")[1])["fact"]["id"]


def test_a_fact_is_remembered_recalled_and_judged(run):
    id = remembered(run, "Deploys go to Frankfurt", "--tag", "ops", "--category", "infra")
    assert run("facts", "remember", "deploys go to Frankfurt.")[1] == f"{id}  known already\n"
    code, out, _ = run("facts", "recall", "where do deploys go?")
    assert (code, out.split("  ")[1:]) == (0, [id, "Deploys go to Frankfurt\n"])
    assert run("facts", "feedback", id, "--helpful")[1] == f"{id}  trust 0.50 -> 0.55\n"
    told = json.loads(run("facts", "feedback", id, "--unhelpful", "--note", "old", "--json")[1])
    assert told == {"id": id, "old": 0.55, "new": 0.45}
    shown = run("facts", "show", id)[1]
    assert "0.50 -> 0.55  helpful" in shown
    assert "0.55 -> 0.45  unhelpful: old" in shown
    assert "recalled 1" in shown


def test_facts_are_listed_changed_and_forgotten(run):
    assert "there is no store" in run("facts", "list")[2]
    id = remembered(run, "Alice lives in Paris", "--trust", "0.9")
    assert "Alice lives in Paris" in run("facts", "list", "--min-trust", "0.8")[1]
    assert json.loads(run("facts", "list", "--category", "none", "--json")[1]) == []
    changed = json.loads(
        run("facts", "update", id, "--content", "Alice lives in Rome", "--json")[1]
    )
    assert (changed["content"], changed["trust"]) == ("Alice lives in Rome", 0.9)
    assert run("facts", "forget", id, "nope")[0] == 2
    assert run("facts", "forget", id)[1] == "1 forgotten\n"
    assert json.loads(run("facts", "list", "--json")[1]) == []


def test_facts_merge(run):
    remembered(run, "Backups run nightly at the Frankfurt site")
    other = remembered(run, "The backups run nightly at the Frankfurt site", "--trust", "0.4")
    out = run("facts", "merge")[1]
    assert f"would take in {other}  The backups run nightly" in out
    assert "1 could be merged" in out
    assert len(json.loads(run("facts", "list", "--json")[1])) == 2
    assert f"took in {other}" in run("facts", "merge", "--yes")[1]
    assert json.loads(run("facts", "merge", "--json")[1]) == []
    (kept,) = json.loads(run("facts", "list", "--json")[1])
    assert kept["wordings"] == ["The backups run nightly at the Frankfurt site"]
    assert "also worded: The backups run" in run("facts", "show", kept["id"])[1]
    assert len(json.loads(run("facts", "list", "--json")[1])) == 1


def test_turns_are_kept_and_answered_from(run, tmp_path):
    lines = [
        {"role": "user", "content": "Ann moved to Lisbon."},
        {"role": "assistant", "content": "Nice."},
    ]
    (tmp_path / "talk.jsonl").write_text("\n".join(map(json.dumps, lines)))
    assert (
        run("facts", "remember", "--session", "s", "--turns", "talk.jsonl")[1]
        == "2 of 2 turns are new\n"
    )
    kept = json.loads(
        run("facts", "remember", "--session", "s", "--turns", "talk.jsonl", "--json")[1]
    )
    assert kept["new"] == 0
    assert "Lisbon" in run("context", "where is Ann?", "--collection", "turns")[1]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["facts", "remember"], "nothing to remember"),
        (["facts", "remember", "  "], "the fact is empty"),
        (["facts", "remember", "x" * 100_000], "at most 10,000"),
        (["facts", "remember", "x", "--trust", "1.5"], "within 0..1"),
        (["facts", "remember", "--session", "s"], "a session and a file"),
        (["facts", "remember", "--session", "s", "--turns", "absent"], "cannot read absent"),
        (
            ["facts", "remember", "--session", "s", "--turns", "bad.jsonl"],
            "bad.jsonl:2 is not JSON",
        ),
        (["facts", "recall", "x", "--min-trust", "7"], "within 0..1"),
        (["facts", "feedback", "nope", "--helpful"], "no fact has the id 'nope'"),
        (["facts", "feedback", "nope"], "say whether it helped"),
        (["facts", "show", "nope"], "no fact has the id"),
    ],
)
def test_what_is_wrong_is_said(run, tmp_path, args, said):
    (tmp_path / "bad.jsonl").write_text("\n{no")
    run("facts", "remember", "A store is here.")
    code, _, err = run(*args)
    assert code == 2
    assert said in err
    assert "Traceback" not in err


def test_turns_need_both_a_session_and_a_file(run, tmp_path):
    (tmp_path / "talk.jsonl").write_text('{"role": "user", "content": "Hi."}\n\n')
    for half in (["--session", "s"], ["--turns", "talk.jsonl"]):
        code, _, err = run("facts", "remember", "a fact", *half)
        assert code == 2
        assert "turns need a session and a file" in err


def test_what_is_empty_is_said_and_what_has_no_tags_shows_a_dash(run):
    id = remembered(run, "deploys go there")
    assert run("facts", "recall", "zyxw")[1] == "(nothing is remembered that fits)\n"
    assert run("facts", "list", "--category", "none")[1] == "(nothing is remembered)\n"
    shown = run("facts", "show", id)[1]
    assert "tags: -" in shown
    assert "names: -" in shown
    run("facts", "update", id, "--tag", "ops", "--tag", "eu")
    assert "tags: ops, eu" in run("facts", "show", id)[1]
    run("facts", "update", id, "--trust", "0.7")
    assert "tags: ops, eu" in run("facts", "show", id)[1]


def test_a_fact_without_an_opponent_is_just_remembered(run):
    assert run("facts", "remember", "Backups run nightly")[1].endswith("  remembered\n")
