"""What one store exports another imports, and both answer alike."""

import pytest

from millgate.errors import InputError
from millgate.gateway import Millgate
from millgate.operations.transfer import export_lines, import_lines
from millgate.stores.sqlite.store import SqliteStore
from millgate.stores.temporary import TemporaryStore
from millgate.types import Edge


def test_an_export_imports_whole(tmp_path):
    with Millgate.open(tmp_path / "one", review={"on_refusal": True}) as gate:
        gate.add([{"id": f"p{n}", "text": f"Refund {n}.", "metadata": {"n": n}} for n in range(30)])
        gate.add([{"id": "q", "text": "word " * 3000, "collection": "other", "title": "Q"}])
        gate.remember("Ada maintains the ferry.")
        gate.store.link("default", [Edge("a", "is_a", "b", 0.5)])
        gate.context("who painted the ceiling?")
        gate.for_tenant("u").add([{"id": "theirs", "text": "Of another tenant."}])
    first, store = SqliteStore(tmp_path / "one"), SqliteStore(tmp_path / "two")
    lines = list(export_lines(first))
    counts = import_lines(store, lines)
    assert (counts["document"], counts["edge"], counts["fact"]) == (32, 1, 1)
    for tenant, collection in (("default", "main"), ("default", "other"), ("u", "main")):
        assert list(store.scan(tenant, collection)) == list(first.scan(tenant, collection))
        assert store.digests(tenant, collection) == first.digests(tenant, collection)
        assert store.kinds(tenant, collection) == first.kinds(tenant, collection)
    assert store.facts("default") == first.facts("default")
    assert store.reviews("default") == first.reviews("default")
    assert store.edges_touching("default", ["a"]) == first.edges_touching("default", ["a"])
    assert list(export_lines(store)) == lines
    first.close()
    store.close()


def test_one_tenant_can_be_exported_and_imported_under_another_name(tmp_path):
    with Millgate.open(tmp_path) as gate:
        gate.add([{"id": "mine", "text": "Mine."}])
        gate.for_tenant("u").add([{"id": "theirs", "text": "Theirs."}])
    store, first = TemporaryStore(), SqliteStore(tmp_path)
    import_lines(store, export_lines(first, tenant="u"), tenant="v")
    first.close()
    assert [chunk.id for chunk in store.scan("v", "main")] == ["theirs"]
    assert store.collections("u") == {}


@pytest.mark.parametrize("line", ["5", '{"kind": "document"}', '{"kind": "x", "tenant": "t", "value": {}}'])  # fmt: skip
def test_a_bad_line_is_named(line):
    with pytest.raises(InputError, match="line 1 cannot be imported"):
        import_lines(TemporaryStore(), [line])


def test_a_line_that_is_not_json_is_named_by_its_number_and_column():
    with pytest.raises(InputError, match="line 3 is not JSON: unexpected end of data at column 12"):
        import_lines(TemporaryStore(), ["\n", "\n", '{"kind": 1\n', "\n"])


@pytest.mark.parametrize("trust", ["99", "-1", "1.01"])
def test_a_fact_that_is_trusted_beyond_the_scale_is_not_imported(tmp_path, trust):
    with Millgate.open(tmp_path / "one") as gate:
        gate.remember("Ada maintains the ferry.", trust=0.7)
    store = SqliteStore(tmp_path / "one")
    (line,) = [line for line in export_lines(store) if '"kind":"fact"' in str(line)]
    store.close()
    with pytest.raises(InputError, match=r"line 1 cannot be imported: trust is"):
        import_lines(TemporaryStore(), [str(line).replace('"trust":0.7', f'"trust":{trust}')])
