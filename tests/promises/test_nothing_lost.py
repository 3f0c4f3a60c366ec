"""Nothing that was acknowledged is lost, and nobody sees what is another's: on SQLite and on PostgreSQL."""

import os
import signal
import subprocess
import sys

import pytest
from tests.waiting import MOST_S, until

from millgate import Millgate
from millgate.errors import NotFound
from millgate.types import Chunk, Document, Edge

WRITER = """
import sys
from millgate import Millgate
gate = Millgate.open(sys.argv[1])
for n in range(1_000):
    gate.add([{"id": f"row-{n}", "text": f"Harbor {n} has {n} cranes."}])
    gate.add_turns("monday", [f"Harbor {n} is closed."])
    print(n, flush=True)
"""


@pytest.fixture(params=["sqlite", "postgres"])
def place(request, tmp_path):
    """The name of a store without a row."""
    if request.param == "sqlite":
        return str(tmp_path / "kb")
    return f"{request.getfixturevalue('postgres_url')}?cache={tmp_path / 'cache'}"


def run_python(code, *words, folder):
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, words)],
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def test_what_was_acknowledged_is_there_after_a_kill(place, tmp_path):
    writer = run_python(WRITER, place, folder=tmp_path)
    for _ in range(20):
        last = int(writer.stdout.readline())
    os.kill(writer.pid, signal.SIGKILL)
    last = max(map(int, writer.communicate(timeout=MOST_S)[0].split()), default=last)
    with Millgate.open(place) as gate:
        assert [gate.document(f"row-{n}")[0].text for n in range(last + 1)] == [
            f"Harbor {n} has {n} cranes." for n in range(last + 1)
        ]
        assert gate.collections()["turns"].documents >= last + 1
        assert f"row-{last}" in [c.id for c in gate.context(f"cranes of harbor {last}").chunks]


def test_a_script_that_closes_nothing_leaves_its_last_trace_and_its_index(place, tmp_path):
    code = """
import sys
from millgate import Millgate
gate = Millgate.open(sys.argv[1])
gate.add([{"id": "policy", "text": "Refunds are paid within 14 days."}])
print(gate.context("when are refunds paid?").trace.id)
"""
    said, problems = run_python(code, place, folder=tmp_path).communicate(timeout=MOST_S)
    assert problems == ""
    with Millgate.open(place) as gate:
        assert [row.id for row in gate.traces()] == [said.strip()]
        assert any(path.is_file() for path in (gate.folder / "index").rglob("*"))


def test_one_tenant_sees_nothing_of_another(place):
    with Millgate.open(place) as gate:
        theirs, ours = gate.for_tenant("birch"), gate.for_tenant("aspen")
        theirs.add([{"id": "secret", "text": "The birch vault opens with 4711."}])
        theirs.add_turns("monday", ["The birch vault is in the cellar."])
        theirs.graph.link([Edge("birch vault", "is_in", "cellar")])
        fact = theirs.remember("The birch vault opens with 4711.").fact
        trace = theirs.context("how does the birch vault open?").trace.id
        until(theirs.traces)
        theirs.keys.create(["read"])

        found = ours.context("how does the birch vault open?", collection=("main", "turns"))
        assert (found.text, found.chunks) == ("", ())
        assert dict(ours.collections()) == {}
        assert ours.recall("birch vault") == []
        assert ours.graph.edges("birch vault") == []
        assert ours.keys.list_keys() == []
        assert trace not in [row.id for row in ours.traces()]
        for look in (
            lambda: ours.document("secret"),
            lambda: ours.trace(trace),
            lambda: ours.why(trace, "secret"),
            lambda: ours.feedback(fact.id, helpful=True),
        ):
            with pytest.raises(NotFound):
                look()
        assert ours.remove(documents=["secret"]) == 0
        assert ours.remove(everything=True) == 0
        assert theirs.document("secret")[0].text == "The birch vault opens with 4711."


def test_admitting_a_slice_changes_its_turns_and_removes_nothing(place):
    with Millgate.open(place) as gate:
        chunks = [
            Chunk(f"talk#{n}", f"Part {n} of a long turn.", source="turn", position=n,
                  metadata={"parent": f"talk#{n - 1}" if n else ""})
            for n in range(31)
        ]  # fmt: skip
        gate.store.put(
            gate.tenant, [Document("talk", "turns", "A talk", "d1", "turn", chunks=tuple(chunks))]
        )
        signed = gate.graph.cut_slice("talk#0", admit=True)
        held = gate.document("talk", collection="turns")
        admitted = {chunk.id for chunk in held if chunk.admission == signed.token}
        assert len(held) == 31
        assert admitted == {turn.id for turn in signed.turns} != set()
        assert gate.store.digests(gate.tenant, "turns") == {"talk": "d1"}
        assert gate.graph.verify(signed)


def test_a_turn_of_any_length_is_kept_and_does_not_refuse_its_session(place):
    long = "The crane log says more. " * 50_000 + "The last crane is yellow."
    said = ["Hello.", {"role": "user", "content": long}, "Goodbye."]
    with Millgate.open(place) as gate:
        assert gate.add_turns("monday", said).new == 3
        assert gate.add_turns("monday", [*said, "Again."]).new == 1
        texts = [chunk.text for chunk in gate.store.scan(gate.tenant, "turns")]
        assert "".join(texts).count("The crane log says more.") == 50_000
        assert any(text.endswith("The last crane is yellow.") for text in texts)


def test_tables_that_share_ids_say_so_when_one_overwrites_the_other(tmp_path, place):
    for name, what in (("cranes", "crane"), ("ships", "ship")):
        (tmp_path / f"{name}.csv").write_text(f"id,text\n1,A yellow {what}.\n2,A red {what}.\n")
    with Millgate.open(place) as gate:
        assert gate.add_files(tmp_path / "cranes.csv").skipped == ()
        again = gate.add_files(tmp_path / "cranes.csv")
        assert (again.skipped, again.unchanged) == ((), 2)
        over = gate.add_files(tmp_path / "ships.csv")
        assert [skip.what for skip in over.skipped] == ["1", "2"]
        assert "cranes.csv has too" in over.skipped[0].reason
        assert "a collection each" in over.skipped[0].reason
