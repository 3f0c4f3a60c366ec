"""What is a compaction, and what only looks like one."""

import pytest
from bench.fixtures.compactions import FORMS
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sessions.compaction.sessions import INSTRUCTIONS, compact, session

from millgate.sessions.compaction.notice import begins_with_summary, find_results, notice
from millgate.sessions.compaction.window import read_window

LONG = session()


def windows(before, after, instructions=INSTRUCTIONS, others=None):
    return read_window(before, [instructions]), read_window(after, [others or instructions])


@pytest.mark.parametrize("form", sorted(FORMS))
def test_a_compaction_in_each_agents_form_is_noticed(form):
    found = notice(*windows(LONG, compact(LONG, form)))
    assert found
    assert found.way == "summary"
    assert "load_page_3" in "".join(part.text for m in found.lost for part in m.parts)


@pytest.mark.parametrize("form", sorted(set(FORMS) - {"unannounced"}))
def test_a_new_conversation_that_begins_with_a_summary_is_noticed(form):
    before, after = windows(LONG, compact(LONG, form))
    assert begins_with_summary(after)
    assert notice(before, after, is_same_session=False)


def test_a_session_of_another_project_that_begins_with_its_own_summary_is_not_taken_for_this_one():
    other = session(topic="web", rule="Always write tests.")
    summary = "I looked at frontEndRouter and at web/views.tsx, and at styleSheetLoader."
    before, after = windows(LONG, compact(other, "claude", summary))
    assert notice(before, after, is_same_session=False) is None


def test_a_window_that_grows_is_not_compacted():
    more = [*LONG, {"role": "assistant", "content": "Done."}, {"role": "user", "content": "Thanks"}]
    assert notice(*windows(LONG, more)) is None


@pytest.mark.parametrize("keep", [1, 9, 31, 55])
def test_a_turn_that_was_taken_back_or_edited_is_not_a_compaction(keep):
    assert notice(*windows(LONG, LONG[:keep])) is None
    edited = {
        "role": "user",
        "content": "No. Read src/app/module_2.py again, and then load_page_1.",
    }
    assert notice(*windows(LONG, [*LONG[:keep], edited])) is None


def test_the_first_message_with_other_words_is_not_a_compaction():
    first = {"role": "user", "content": LONG[0]["content"] + " Be quick."}
    assert notice(*windows(LONG, [first])) is None
    assert notice(*windows(LONG, [first, *LONG[1:3]])) is None


def test_a_subagent_is_not_a_compaction():
    task = {
        "role": "user",
        "content": "Look at " + ", ".join(f"src/app/module_{n}.py" for n in range(9)),
    }
    others = (
        "You are an agent that searches. You report what you find, and change nothing at all. " * 4
    )
    assert notice(*windows(LONG, [task], others=others)) is None
    # what asks for a summary is none
    asked = {
        "role": "user",
        "content": "Create a detailed summary of the conversation: src/app/module_3.py",
    }
    assert notice(*windows(LONG, [asked])) is None


def test_a_new_session_is_not_a_compaction():
    other = session(topic="web")
    assert notice(*windows(LONG, other[:3])) is None
    _before, after = windows(LONG, other[:3])
    assert not begins_with_summary(after)


def test_results_that_the_client_cleared_are_noticed():
    cleared = [
        {**m, "content": "[cleared]"} if m["role"] == "tool" and at < 40 else m
        for at, m in enumerate(LONG)
    ]
    found = notice(*windows(LONG, cleared))
    assert found
    assert found.way == "cleared"
    assert all(part.kind == "result" for m in found.lost for part in m.parts)


def test_messages_that_were_trimmed_without_a_word_are_noticed():
    found = notice(*windows(LONG, [*LONG[31:], {"role": "user", "content": "Go on."}]))
    assert found
    assert found.way == "trimmed"
    assert [m.at for m in found.lost] == list(range(31))


def test_a_window_that_the_provider_compacted_is_noticed():
    block = {
        "role": "assistant",
        "content": [{"type": "compaction", "content": "We read modules."}],
    }
    failed = {"role": "assistant", "content": [{"type": "compaction", "content": None}]}
    asked = {"role": "user", "content": "Go on."}
    assert notice(*windows(LONG, [*LONG, failed, asked])) is None
    for after in (
        [*LONG, block, asked],
        [block, asked],
    ):  # clients may send what the model does not see
        found = notice(*windows(LONG, after))
        assert found
        assert found.lost == read_window(LONG).messages
        assert found.summary == "We read modules."
    again = read_window([*LONG, block, asked], [INSTRUCTIONS])
    assert notice(again, read_window([*LONG, block, asked, *LONG[1:3]], [INSTRUCTIONS])) is None
    item = {"type": "compaction", "encrypted_content": "gAAAA"}
    found = notice(*windows(LONG, [item, {"role": "user", "content": "Go on."}]))
    assert found
    assert found.way == "summary"
    assert found.summary == ""


def test_an_item_of_the_responses_api_leaves_the_persons_own_messages():
    item = {"type": "compaction", "encrypted_content": "gAAAA"}
    found = notice(*windows(LONG, [LONG[0], item, {"role": "user", "content": "Go on."}]))
    assert found
    assert [message.at for message in found.lost] == list(range(1, len(LONG)))


def test_a_summary_that_hermes_appends_to_a_message_that_stays_is_noticed():
    stays = {
        "role": "user",
        "content": "[PRIOR CONTEXT — for reference only; not a new message]\n" + "Go on. " * 400
        + "\n\n[END OF PRIOR CONTEXT — COMPACTION SUMMARY BELOW]\n\nWe read src/app/module_1.py.",
    }  # fmt: skip
    found = notice(*windows(LONG, [*LONG[:3], stays, *LONG[-4:]]))
    assert found
    assert found.way == "summary"
    assert read_window([stays]).messages[0].said == ""


def test_a_small_window_that_loses_its_half_to_a_summary_is_compacted():
    small = session(2)
    assert read_window(small).chars < 2_000
    assert notice(*windows(small, compact(small, "claude", "We read src/app/module_1.py.")))
    assert notice(*windows(small, [*small[:1], {"role": "user", "content": "No, stop."}])) is None


def test_results_are_counted_from_the_oldest_and_without_tools_that_are_excluded():
    window = read_window(LONG)
    assert [m.at for m in find_results(window)][:3] == [2, 4, 6]
    assert find_results(window)[0].parts[0].tool == "read_file"
    assert find_results(window, ["read_file"]) == []


def test_the_request_for_a_summary_is_no_part_of_what_left():
    asked = {
        "role": "user",
        "content": "Create a summary of our conversation. Never call a tool now.",
    }
    found = notice(*windows([*LONG, asked], compact(LONG)))
    assert found
    assert all("Never call" not in message.said for message in found.lost)


def test_small_changes_of_messages_are_none():
    reminded = [{**LONG[0], "content": LONG[0]["content"] + " (Wednesday)"}, *LONG[1:]]
    assert notice(*windows(LONG, reminded)) is None


@settings(max_examples=25)
@given(st.integers(0, 60), st.integers(0, 60), st.booleans())
def test_no_part_of_a_window_alone_is_taken_for_a_summary_of_it(start, end, again):
    """Messages that stood there already bring no summary, in whatever selection."""
    chosen = LONG[start:end] + (LONG[:3] if again else [])
    found = notice(*windows(LONG, chosen or LONG[:1]))
    assert found is None or found.way == "trimmed"
