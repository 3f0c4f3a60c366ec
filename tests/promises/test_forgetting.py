"""What left the windows of sessions is kept as long as traces, and no longer: of every session and every tenant."""

import pytest

from millgate import Millgate
from millgate.sessions.compaction.window import read_window

DAY = 86_400.0


def keep(hg, session, text):
    lost = read_window([{"role": "user", "content": text}]).messages
    return hg.lost_messages.keep(lost, session)


@pytest.fixture
def at(tmp_path):
    """Open the store at a day."""
    return lambda day: Millgate.open(tmp_path / "kb", clock=lambda: 1e9 + day * DAY)


def test_kept_conversations_go_with_their_age_however_many_there_are(at):
    with at(0) as hg:
        for n in range(130):
            keep(hg.for_tenant(f"t{n % 3}"), f"session-{n:03}", f"The port of service {n} is {n}.")
        hg.add([{"id": "note", "text": "Notes stay."}], collection="session notes")
        hg.add([{"id": "own", "text": "A collection of the user's."}], collection="session:own")
    with at(29) as hg:
        hg.traces()  # waits until the store was looked through
        assert sum(len(hg.for_tenant(f"t{n}").collections()) for n in range(3)) == 130
    with at(31) as hg:
        hg.traces()
        assert [dict(hg.for_tenant(f"t{n}").collections()) for n in range(3)] == [{}, {}, {}]
        assert set(hg.collections()) == {"session notes", "session:own"}


def test_of_a_session_that_goes_on_only_what_is_old_goes(at):
    with at(0) as hg:
        keep(hg, "monday", "The port is 7443.")
    with at(20) as hg:
        assert keep(hg, "monday", "The port is 7443.") == 0, "it is kept already"
        assert keep(hg, "monday", "The roof is red.") == 1
    with at(31) as hg:
        hg.traces()
        texts = [chunk.text for chunk in hg.store.scan(hg.tenant, "session:monday")]
        assert texts == ["The roof is red."]
