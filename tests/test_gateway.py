"""The face: what adding leaves behind for the first question."""

import pytest

from headgate.gateway import Headgate


def rows(count):
    return [{"id": f"r{n}", "text": f"Row {n} tells of the harbor."} for n in range(count)]


@pytest.mark.parametrize(("count", "indexed"), [(3, False), (2_500, True)])
def test_a_long_add_is_indexed_by_the_time_it_returns_a_short_one_by_the_next_question(
    tmp_path, count, indexed
):
    with Headgate.open(tmp_path / "kb") as gate:
        gate.add(rows(count))
        assert any((tmp_path / "kb" / "index").rglob("*.json")) is indexed
        assert gate.parts.indexes.snapshot(gate.tenant, "main").count == count


def test_an_add_stands_over_a_damaged_index_and_rebuilds_it(tmp_path):
    with Headgate.open(tmp_path / "kb") as gate:
        gate.add(rows(1_500))
    with Headgate.open(tmp_path / "kb") as gate:
        folder = next((tmp_path / "kb" / "index").rglob("*.json")).parent
        for file in folder.iterdir():
            file.write_bytes(b"damaged")
        gate.add([{"id": f"s{n}", "text": "More."} for n in range(1_500)])
        assert gate.parts.indexes.snapshot(gate.tenant, "main").count == 3_000
