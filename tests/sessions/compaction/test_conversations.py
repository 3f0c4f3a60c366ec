"""Conversations that are seen as messages: which goes on from which, what is owed, and for how long."""

from tests.sessions.compaction.sessions import compact, session

from millgate.gateway import Millgate
from millgate.sessions.conversation import CONVERSATIONS, Conversations, Owner
from millgate.types import Request

RULE = "Never touch db/migrations, ask me before you change it."
SUMMARY = "We read src/app/module_3.py and module_4.py. load_page_4 is slow."
ASKED = {"role": "user", "content": "Go on."}


def texts_of(items):
    return [item.text for item in items]


def test_a_conversation_that_grows_owes_nothing():
    known = Conversations()
    assert known.observe("s", session()).found is None
    assert known.observe("s", [*session(), ASKED]).owed is None


def test_a_compaction_is_owed_until_it_is_put_back():
    known = Conversations()
    known.observe("s", session())
    after = compact(session(), "claude", SUMMARY)
    first = known.observe("s", after)
    assert first.found.way == "summary"
    assert RULE in texts_of(first.owed.account.owed)
    later = known.observe("s", [*after, ASKED])
    assert later.found is None
    assert later.owed is first.owed
    later.owed = None
    assert known.observe("s", [*after, ASKED, ASKED]).owed is None


def test_two_agents_in_one_session_do_not_get_what_the_other_lost():
    known = Conversations()
    one, other = session(topic="api"), session(topic="web", rule="Always use tabs in src/web.")
    known.observe("s", one)
    known.observe("s", other)
    assert known.observe("s", [*one, ASKED]).owed is None
    found = known.observe("s", compact(other, "hermes", "src/web/module_3.py is slow."))
    assert all("/api/" not in item.text for item in found.owed.account.items)
    assert known.observe("s", [*one, ASKED, ASKED]).owed is None
    assert known.observe("t", [*one, ASKED, ASKED]).owed is None


def test_instructions_are_carried_from_compaction_to_compaction_until_the_window_says_them():
    known = Conversations()
    known.observe("s", session())
    after = compact(session(), "claude", SUMMARY)
    known.observe("s", after)
    for n in range(3):
        grown = [*after, *session(topic=f"t{n}", rule="")[1:]]
        known.observe("s", grown)
        after = compact(grown, "claude", f"src/t{n}/module_3.py is slow.")
        assert texts_of(known.observe("s", after).owed.account.owed).count(RULE) == 1
    grown = [*after, *session(topic="t9", rule="")[1:]]
    known.observe("s", grown)
    seen = known.observe("s", compact(grown, "claude", f"src/t9/module_3.py. {RULE}"))
    assert RULE not in texts_of(seen.owed.account.owed)


def test_what_a_block_of_ours_says_is_not_owed_again():
    known = Conversations()
    with Millgate.open(":memory:") as gate:
        known.observe("s", session())
        after = compact(session(), "claude", SUMMARY)
        seen = known.observe("s", after)
        block = gate.lost_messages.put_back(seen, Request("", budget=1000))
    assert RULE in block
    grown = [*after, *session(topic="web", rule="")[1:]]
    known.observe("s", grown)
    kept = [{"role": "user", "content": block}]
    seen = known.observe("s", [*compact(grown, "claude", "src/web/module_3.py is slow."), *kept])
    assert seen.found
    assert RULE not in texts_of(seen.owed.account.owed)


def test_half_a_character_in_a_message_stops_nothing():
    known, half = Conversations(), {"role": "user", "content": "Look at \ud83d, please."}
    known.observe("s", [half, *session()])
    assert known.observe("s", [half, *compact(session(), "claude", SUMMARY)]).found


def test_a_session_gets_nothing_of_what_another_lost_though_it_begins_with_its_summary():
    known = Conversations()
    known.observe("one", session())
    assert known.observe("other", compact(session(), "claude", SUMMARY)).owed is None


def test_a_thousand_compactions_and_many_agents_stay_bounded():
    known = Conversations()
    for n in range(1_000):
        messages = session(8, topic=f"t{n % 20}", rule=f"Never use library number {n}.")
        known.observe("s", messages)
        seen = known.observe("s", compact(messages, "claude", f"src/t{n % 20}/module_{n % 8}.py"))
    assert 0 < len(seen.carried) <= 100
    assert len(known.of_session(Owner("s"), "s")) <= CONVERSATIONS
