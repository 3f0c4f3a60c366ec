"""Rebuilding the index on the command line."""

import json

import pytest
from click.testing import CliRunner

from millgate import Millgate
from millgate.cli.store import reindex
from millgate.errors import StoreError


def test_an_index_is_made_anew(tmp_path):
    with Millgate.open(tmp_path / "kb") as gate:
        gate.add([{"id": "a", "text": "harbor contract"}, {"id": "b", "text": "turbine"}])
    done = CliRunner().invoke(reindex, ["--store", str(tmp_path / "kb"), "--json"])
    assert json.loads(done.stdout) == {"collection": "main", "chunks": 2, "conversation": False}
    assert list((tmp_path / "kb" / "index").glob("*/manifest.json"))


def test_an_index_that_cannot_be_deleted_is_an_error_and_no_traceback(tmp_path):
    with Millgate.open(tmp_path / "kb") as gate:
        gate.add([{"id": "a", "text": "harbor contract"}])
        gate.context("harbor")
    (manifest,) = (tmp_path / "kb" / "index").glob("*/manifest.json")
    manifest.unlink()
    (manifest / "busy").mkdir(parents=True)  # as a file on a disk that can only be read
    with (
        Millgate.open(tmp_path / "kb") as gate,
        pytest.raises(StoreError, match="the index of collection 'main' cannot be deleted"),
    ):
        gate.reindex()
