"""Rebuilding the index on the command line."""

import json

from click.testing import CliRunner

from headgate import Headgate
from headgate.cli.store_upkeep import reindex


def test_an_index_is_made_anew(tmp_path):
    with Headgate.open(tmp_path / "kb") as gate:
        gate.add([{"id": "a", "text": "harbor contract"}, {"id": "b", "text": "turbine"}])
    done = CliRunner().invoke(reindex, ["--store", str(tmp_path / "kb"), "--json"])
    assert json.loads(done.stdout) == {"collection": "main", "chunks": 2, "conversation": False}
    assert list((tmp_path / "kb" / "index").glob("*/manifest.json"))
