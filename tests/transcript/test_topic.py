"""Topic: a message is read with what it continues."""

from millgate.transcript.topic import Topic, read_with_topic

QUESTION = "How does the coffee machine X2 brew?"


def say(text):
    return {"role": "user", "content": text}


def test_a_follow_up_is_looked_up_with_the_question_before_it():
    messages = [say(QUESTION), {"role": "assistant", "content": "With pressure."}, say("thanks")]
    assert read_with_topic("and its filter part?", messages) == f"{QUESTION}\nand its filter part?"


def test_the_question_itself_may_stand_at_the_end_of_the_window():
    messages = [say(QUESTION), say("and its filter part?")]
    assert read_with_topic("and its filter part?", messages) == f"{QUESTION}\nand its filter part?"


def test_without_messages_a_query_is_what_it_says():
    for window in (None, "a text", [], ["a text"], {"global_sha256": "x"}):
        assert read_with_topic("and its filter part?", window) == "and its filter part?"


def test_a_question_of_its_own_is_not_joined():
    assert read_with_topic("Where is the office of Ann?", [say(QUESTION)]) == "Where is the office of Ann?"  # fmt: skip


def test_a_reply_gets_only_what_the_question_before_it_missed():
    topic = Topic()
    assert topic.read(QUESTION) == QUESTION
    assert topic.read("continue") == ""
    topic.was_missed = True
    assert topic.read("continue") == QUESTION
    assert topic.read("thanks!") == ""
