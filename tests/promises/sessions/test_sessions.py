"""Sessions: what is added to requests or taken from them is the same in every request of a conversation.

Each agent plays a session of many turns through each feature that changes requests.
"""

import json
from copy import deepcopy
from itertools import cycle, pairwise, zip_longest

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from tests.promises.sessions import playbook as promise
from tests.promises.sessions.agents import AGENTS, MARK, RULE, ClaudeCode, text
from tests.promises.sessions.conftest import FEATURES, RESTARTED, SESSIONS
from tests.promises.sessions.playbook import Playbook, added, blocks_of, extends

every_agent = pytest.mark.parametrize("agent", AGENTS)
every_session = pytest.mark.parametrize(("agent", "feature"), SESSIONS)


@every_session
def test_each_request_extends_the_last_one_where_the_agents_own_does(played, agent, feature):
    played(agent, feature) << promise.every_prefix_holds


@pytest.mark.parametrize(("agent", "feature"), RESTARTED)
def test_each_request_extends_the_last_one_though_the_gateway_is_restarted(played, agent, feature):
    played(agent, feature, restarts=True) << promise.every_prefix_holds


@pytest.mark.parametrize(("agent", "feature"), [one for one in SESSIONS if one[1] != "remember"])
def test_the_feature_is_at_work_in_these_sessions(played, agent, feature):
    changed = [
        sent
        for sent in played(agent, feature).main
        if blocks_of(sent.went) != blocks_of(sent.request.fields)
    ]
    assert len(changed) >= 3


@pytest.mark.parametrize("feature", ["store", "remember"])
@every_agent
def test_what_the_agent_wrote_goes_on_as_it_wrote_it(played, agent, feature):
    played(agent, feature) << promise.nothing_is_lost_of_what_the_client_wrote


@every_agent
def test_no_question_is_looked_up_twice(played, agent):
    played(agent, "store") << promise.nothing_is_looked_up_twice


@pytest.mark.parametrize("agent", ["claude", "gemini"])
def test_no_question_is_looked_up_twice_after_a_restart(played, agent):
    played(agent, "store", restarts=True) << promise.nothing_is_looked_up_twice


@every_agent
def test_the_second_compaction_is_noticed_as_the_first(played, agent):
    played(agent, "remember") << promise.every_compaction_is_noted_once


@every_agent
def test_compactions_are_noticed_after_a_restart_too(played, agent):
    played(agent, "remember", restarts=True) << promise.every_compaction_is_noted_once


@every_agent
def test_a_rule_stands_once_in_every_request_whatever_was_compacted(played, agent):
    played(agent, "remember") << promise.the_rule_stands_once


@every_agent
def test_a_rule_stands_once_after_restarts_too(played, agent):
    played(agent, "remember", restarts=True) << promise.the_rule_stands_once


@pytest.mark.parametrize("agent", ["claude", "gemini"])
def test_two_workers_of_one_gateway_share_the_newest_view_of_a_conversation(gateway_with, agent):
    one = gateway_with(**FEATURES["remember"])
    two = gateway_with(over=one, **FEATURES["remember"])
    books = cycle(map(Playbook, (one, two)))
    both = Playbook(one)
    for request in AGENTS[agent]().session_of_many_turns():
        book = next(books) >> request
        both.sent.append(book.last)
    both << promise.every_compaction_is_noted_once << promise.the_rule_stands_once


@pytest.mark.parametrize("agent", ["opencode", "hermes", "gemini", "pi"])
def test_what_is_asked_beside_a_conversation_gets_nothing_added(played, agent):
    book = played(agent, "remember")
    for sent in book.sent:
        if sent.request.kind == "side":
            assert not added(sent)


def test_a_resumed_session_is_folded_as_before_though_there_is_no_store(
    gateway_with, tmp_path, monkeypatch
):
    monkeypatch.setenv("HOME", str(tmp_path))  # where a user's state is kept
    book, claude = Playbook(gateway_with(keeps=False, fold=True)), ClaudeCode("resumed")
    (
        book
        >> claude.ask("How does the import read its pages?", (0, 1, 0))
        >> claude.ask("And then?", (1,))
    )
    book.gateway.restart()
    book >> claude.ask("Where were we?", (0, 2)) << promise.every_prefix_holds
    assert "fold" in book.last.notes


@pytest.mark.parametrize("agent", ["claude", "opencode", "pi"])
def test_a_window_that_is_compacted_amid_a_turn_is_folded_the_same_in_every_request(gateway_with, agent):  # fmt: skip
    book, one = Playbook(gateway_with(fold=True)), AGENTS[agent]("amid")
    book >> one.ask("How does the import read its pages?", (0, 1, 0)) >> one.compact()
    book >> one.read((1, 2, 1, 2, 3)) << promise.every_prefix_holds
    assert "fold" in book.last.notes


@pytest.mark.parametrize("agent", ["claude", "codex", "gemini", "hermes"])
def test_the_notes_of_a_circle_stay_where_they_are(gateway_with, agent):
    book = Playbook(gateway_with())
    one = AGENTS[agent]("circle")
    (
        book
        >> one.ask("How does the import read its pages?", (1,) * 6)
        >> one.ask("Go on then, what did you find?")
    )
    assert any("circles" in sent.notes for sent in book.sent)
    book << promise.every_prefix_holds


@pytest.mark.parametrize("agent", ["claude", "gemini"])
def test_two_sessions_at_once_each_keep_their_own(gateway_with, agent):
    book = Playbook(gateway_with(**FEATURES["remember"]))
    pairs = zip_longest(
        *(
            AGENTS[agent](name, f"{name}: be careful.").session_of_many_turns()
            for name in ("a", "b")
        )
    )
    for pair in pairs:
        book >> filter(None, pair)
    book << promise.every_compaction_is_noted_once << promise.the_rule_stands_once


@pytest.mark.parametrize("agent", ["claude", "opencode", "codex"])
def test_a_subagent_of_the_same_session_gets_nothing_of_the_agents_and_takes_nothing_from_it(
    gateway_with, agent
):
    book = Playbook(gateway_with(**FEATURES["remember"]))
    main, sub = (
        AGENTS[agent]("team"),
        AGENTS[agent]("team", "You search files and tell what you found."),
    )
    book >> main.ask(f"{RULE} How does the import read its pages?", (0, 1, 2))
    book >> sub.ask("Find where the cursor of the import is kept.", (3,))
    assert RULE not in str(book.last.went)
    book >> main.compact() >> main.ask("Which module of the import is slow?", (4,))
    book << promise.every_prefix_holds << promise.every_compaction_is_noted_once


# What the API treats as equal


def conversation():
    one = ClaudeCode("equal")
    return [*one.ask(f"{RULE} How does the import read its pages?", (0, 1)), *one.ask("Where is the cursor of the import kept?", (0,))]  # fmt: skip


@st.composite
def spellings(draw):
    """The requests of a conversation, each in a spelling of its own that means the same to the API."""
    return [request.replace(fields=respell(draw, request.fields)) for request in conversation()]


TOOL = {"name": "Write", "input_schema": {"type": "object"}}


def respell_plain(fields):
    """Without a mark."""
    return json.loads(json.dumps(fields), object_hook=lambda found: {k: v for k, v in found.items() if k != "cache_control"})  # fmt: skip


def respell(draw, fields):
    fields = deepcopy(fields)
    for message in fields["messages"]:
        content = message["content"]
        blocks = [text(content)] if isinstance(content, str) else content
        blocks = [{k: v for k, v in block.items() if k != "cache_control"} for block in blocks]
        blocks = [block | MARK if draw(st.integers(0, 5)) == 0 else block for block in blocks]
        blocks = [
            dict(sorted(b.items(), reverse=True)) if draw(st.booleans()) else b for b in blocks
        ]
        is_text = [list(block) == ["type", "text"] for block in blocks] == [True]
        message["content"] = blocks[0]["text"] if is_text and draw(st.booleans()) else blocks
    return dict(sorted(fields.items(), reverse=draw(st.booleans())))


@pytest.mark.parametrize("kinds", [("tools",), ("marks",), ("tools", "marks")])
def test_a_repair_changes_nothing_but_marks_and_the_order_of_tools(gateway_with, kinds):
    """A bridge on the way drops the marks of every second request and turns the tools round."""
    book, requests = Playbook(gateway_with(repair=kinds)), conversation()
    for n, request in enumerate(requests):
        fields = respell_plain(request.fields) if n % 2 else request.fields
        fields = {**fields, "tools": sorted((*fields["tools"], TOOL), key=str, reverse=bool(n % 2))}
        book >> request.replace(fields=fields)
    for sent in book.sent:
        assert sorted(blocks_of(sent.went)) == sorted(blocks_of(sent.request.fields))
    if "tools" in kinds:
        for earlier, later in pairwise(book.sent):
            assert extends(blocks_of(later.went), blocks_of(earlier.went))


@pytest.mark.parametrize("feature", ["store", "fold"])
def test_requests_that_are_equal_to_the_api_go_on_as_equal_ones(gateway_with, feature):
    gateway = gateway_with(**FEATURES[feature])
    plain = Playbook(gateway) >> conversation()

    @settings(max_examples=3, phases=[Phase.generate], suppress_health_check=[*HealthCheck])
    @given(spellings())
    def check(requests):
        book = Playbook(gateway) >> requests
        for one, other in zip(plain.sent, book.sent, strict=True):
            assert blocks_of(one.request.fields) == blocks_of(other.request.fields)
            assert blocks_of(one.went) == blocks_of(other.went)

    check()
