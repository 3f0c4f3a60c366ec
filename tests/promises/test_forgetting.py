"""What left the windows of sessions is kept as long as traces, and no longer: of every session and every tenant."""

import pytest

from millgate import Millgate
from millgate.sessions.compaction.window import read_window

DAY = 86_400.0


def keep(gate, session, text):
    lost = read_window([{"role": "user", "content": text}]).messages
    return gate.lost_messages.keep(lost, session)


@pytest.fixture
def at(tmp_path):
    """Open the store at a day."""
    return lambda day: Millgate.open(tmp_path / "kb", clock=lambda: 1e9 + day * DAY)


def test_kept_conversations_go_with_their_age_however_many_there_are(at):
    with at(0) as gate:
        for n in range(130):
            keep(
                gate.for_tenant(f"t{n % 3}"), f"session-{n:03}", f"The port of service {n} is {n}."
            )
        gate.add([{"id": "note", "text": "Notes stay."}], collection="session notes")
        gate.add([{"id": "own", "text": "A collection of the user's."}], collection="session:own")
    with at(29) as gate:
        gate.traces()  # waits until the store was looked through
        assert sum(len(gate.for_tenant(f"t{n}").collections()) for n in range(3)) == 130
    with at(31) as gate:
        gate.traces()
        assert [dict(gate.for_tenant(f"t{n}").collections()) for n in range(3)] == [{}, {}, {}]
        assert set(gate.collections()) == {"session notes", "session:own"}


def test_of_a_session_that_goes_on_only_what_is_old_goes(at):
    with at(0) as gate:
        keep(gate, "monday", "The port is 7443.")
    with at(20) as gate:
        assert keep(gate, "monday", "The port is 7443.") == 0, "it is kept already"
        assert keep(gate, "monday", "The roof is red.") == 1
    with at(31) as gate:
        gate.traces()
        texts = [chunk.text for chunk in gate.store.scan(gate.tenant, "session:monday")]
        assert texts == ["The roof is red."]
