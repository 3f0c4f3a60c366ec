"""The project of a folder: the nearest repository or project file, not the last folder's name."""

import pytest
from tests.hostile import count_calls

from millgate.gateway import Millgate
from millgate.knowledge.project import MARKERS, MOST_PARENTS, project_of
from millgate.types import Edge


@pytest.mark.parametrize("marker", MARKERS)
def test_the_nearest_folder_with_a_marker_names_the_project(tmp_path, marker):
    deep = tmp_path / "kestrel" / "src" / "billing"
    deep.mkdir(parents=True)
    (tmp_path / "kestrel" / marker).touch()
    assert project_of(str(deep)) == "kestrel"
    assert project_of(str(tmp_path / "kestrel")) == "kestrel"
    assert project_of(str(deep / "not" / "yet" / "there")) == "kestrel"
    (deep / "pyproject.toml").touch()
    assert project_of(str(deep)) == "billing"


@pytest.mark.parametrize(
    ("cwd", "name"),
    [
        ("", ""),
        ("/", ""),
        ("/nowhere/at/all", "all"),
        ("C:\\code\\ledger", "ledger"),
        ("ledger", "ledger"),
        ("/a\0b", "a\0b"),
        ("/" + "x" * 5000, "x" * 5000),
    ],
)
def test_what_is_not_here_is_named_by_its_last_folder(cwd, name):
    assert project_of(cwd) == name


def test_paths_start_at_the_project_too(tmp_path):
    deep = tmp_path / "kestrel" / "src"
    deep.mkdir(parents=True)
    (tmp_path / "kestrel" / ".git").mkdir()
    with Millgate.open(":memory:") as gate:
        gate.graph.link([Edge("kestrel", "depends_on", "redis"), Edge("src", "uses", "tabs")])
        gate.add([{"id": "a", "text": "Which services must run is said in the runbook."}])
        made = gate.context("which services must run?", cwd=str(deep))
        found = [c.chunk.text for c in made.trace.candidates if c.chunk.source == "graph"]
        assert found == ["kestrel -[depends_on]-> redis"]


def test_asking_again_names_the_project(tmp_path):
    deep = tmp_path / "kestrel" / "src"
    deep.mkdir(parents=True)
    (tmp_path / "kestrel" / "go.mod").touch()
    seen = "The cache is slow because it is cold."
    with Millgate.open(":memory:") as gate:
        gate.add(
            [{"id": "seen", "text": seen}, {"id": "new", "text": "Kestrel warms up at night."}]
        )
        made = gate.context("why is the cache slow", window=[seen], cwd=str(deep))
        assert "new" in {c.chunk.id for c in made.trace.candidates}
        other = gate.context("why is the cache slow", window=[seen], cwd=str(tmp_path / "osprey"))
        assert "new" not in {c.chunk.id for c in other.trace.candidates}


def test_each_look_for_a_marker_costs_the_same_in_a_long_path():
    looks = (MOST_PARENTS + 1) * len(MARKERS)
    assert count_calls(lambda: project_of("/a" * 2_000)) < 20 * looks
