"""Who opened a connection."""

import os
import socket
import stat

import pytest

from millgate.wrap import peer


@pytest.fixture
def connection():
    """Both ends of a connection, as their addresses."""
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.create_connection(listener.getsockname()) as client,
    ):
        yield listener.getsockname()[:2], client.getsockname()[:2]


async def test_a_connection_of_ours_is_known_as_ours(connection):
    assert await peer.can_tell()
    assert await peer.is_owner(*connection)


async def test_a_connection_that_nobody_has_is_nobodys(connection):
    ours, (host, port) = connection
    assert not await peer.is_owner(ours, (host, port - 1))


async def test_a_connection_of_another_user_is_not_ours(connection, monkeypatch):
    monkeypatch.setattr(peer, "_find_uid", lambda ours, theirs: os.getuid() + 1)
    assert not await peer.is_owner(*connection)


@pytest.mark.parametrize(("listed", "owned"), [("n{theirs}->{ours}", True), ("n{ours}->{theirs}", False), ("", False)])  # fmt: skip
async def test_without_a_table_lsof_is_asked(connection, tmp_path, monkeypatch, listed, owned):
    ours, theirs = (f"{host}:{port}" for host, port in connection)
    program = tmp_path / "lsof"
    program.write_text(f"#!/bin/sh\necho '{listed.format(ours=ours, theirs=theirs)}'\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(peer, "_TABLES", (tmp_path / "none",))
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert await peer.is_owner(*connection) is owned
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    assert not await peer.can_tell()
