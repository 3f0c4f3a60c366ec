"""What is remembered of a conversation changes nothing but the time it takes."""

import copy
import threading

import pytest
from bench.fixtures.sessions import APIS, MadeCall, Turn, looping_session, render
from hypothesis import given
from hypothesis import strategies as st

from millgate.guard.ladder import MESSAGE_SIZE, MIN_MESSAGES, ClimbCache, climb
from millgate.guard.policy import CirclesPolicy
from millgate.guard.tools import CircleFinder

POLICY = CirclesPolicy()
GO = Turn(human="go")


def loop(copies, result="no such file"):
    return [Turn(calls=(MadeCall("read", {"path": "a"}, result),))] * copies


def work(turns, name="a"):
    calls = ((MadeCall("read", {"path": f"{name}{n}"}, f"text {n}"),) for n in range(turns))
    return [GO, *(Turn(calls=call) for call in calls)]


@pytest.fixture
def reads(monkeypatch):
    """Counts the messages that are read."""
    read, real = [], CircleFinder.feed

    def count(finder, at, message, **more):
        read.append(message)
        return real(finder, at, message, **more)

    monkeypatch.setattr(CircleFinder, "feed", count)
    return read


def test_only_what_is_new_is_read(reads):
    cache, messages = ClimbCache(), render(work(40), "chat")
    cache.climb(messages[:-2], POLICY, size=100)
    del reads[:]
    cache.climb(copy.deepcopy(messages), POLICY, size=100)
    assert reads == messages[-2:]
    del reads[:]
    cache.climb(copy.deepcopy(messages), POLICY, size=100)
    assert reads == []
    assert len(cache) == 1


@given(
    st.integers(0, 20),
    st.sampled_from(APIS),
    st.lists(st.tuples(st.integers(1, 6), st.integers(0, 60)), min_size=1, max_size=12),
)
def test_the_climb_is_the_same_as_without_it(seed, api, asked):
    """Requests of several conversations, each cut at any message, in any order."""
    cache = ClimbCache(entries=3)
    for period, end in asked:
        session, _ = looping_session(seed, period=period, copies=6)
        messages = render([*work(9), *session[1:]], api, seed=seed)[:end]
        assert cache.climb(messages, POLICY, size=1) == climb(messages, POLICY)


def test_a_history_that_was_rewritten_is_read_anew():
    cache = ClimbCache()
    told = render([*work(10), *loop(6)], "chat")
    assert cache.climb(told, POLICY, size=1).marks
    changed = copy.deepcopy(told)
    changed[-3]["content"] = "found it"
    assert not cache.climb(changed, POLICY, size=1).ended
    assert cache.climb(changed, POLICY, size=1) == climb(changed, POLICY)
    assert cache.climb(told, POLICY, size=1) == climb(told, POLICY)


def test_each_policy_climbs_by_itself():
    cache, messages = ClimbCache(), render([*work(10), *loop(4)], "chat")
    assert cache.climb(messages, POLICY, size=1).marks
    assert not cache.climb(messages, CirclesPolicy(rungs={"end": 9}), size=1).marks
    assert not cache.climb(messages, CirclesPolicy(rungs={}), size=1).marks
    assert cache.climb(messages, POLICY, size=1) == climb(messages, POLICY)


def test_it_forgets_the_oldest_beyond_its_limits():
    heads = MESSAGE_SIZE * len(render(work(20), "chat"))
    whole = 10 * heads
    cache = ClimbCache(entries=3, max_size=whole)
    for n in range(5):
        cache.climb(render(work(20, name=f"{n}-"), "chat"), POLICY, size=100)
    assert (len(cache), cache.size) == (3, 3 * (100 + heads))
    cache.climb(render(work(20, name="too large"), "chat"), POLICY, size=whole // 4 - heads + 1)
    assert (len(cache), cache.size) == (3, 3 * (100 + heads))
    cache = ClimbCache(entries=9, max_size=whole)
    for n in range(9):
        cache.climb(render(work(20, name=f"{n}-"), "chat"), POLICY, size=whole // 4 - heads)
    assert (len(cache), cache.size) == (4, whole)


def test_many_short_messages_weigh_more_than_their_text():
    cache = ClimbCache(max_size=4 * MESSAGE_SIZE * 100)
    for count, held in ((101, 0), (100, 1)):
        cache.climb([{"role": "user", "content": ""}] * count, POLICY, size=0)
        assert len(cache) == held


def test_short_conversations_are_not_held():
    cache = ClimbCache()
    cache.climb(render(work(20), "chat")[: MIN_MESSAGES - 1], POLICY, size=1)
    assert len(cache) == 0


def test_messages_too_deep_to_compare_are_read_anew():
    deep = {"role": "user", "content": "go"}
    nested = deep
    for _ in range(5000):
        nested["more"] = {}
        nested = nested["more"]
    messages = [deep, *render(work(20), "chat")]
    cache = ClimbCache()
    cache.climb(messages, POLICY, size=1)
    deep = {"role": "user", "content": "go"}
    nested = deep
    for _ in range(5000):
        nested["more"] = {}
        nested = nested["more"]
    assert cache.climb([deep, *messages[1:]], POLICY, size=1) == climb(messages, POLICY)


def test_threads_that_share_it_get_the_same():
    cache = ClimbCache(entries=2)
    messages = render([*work(10), *loop(9)], "chat")
    expected = [climb(messages[:end], POLICY) for end in range(len(messages))]
    wrong = []

    def ask():
        for _ in range(5):
            for end, told in enumerate(expected):
                if cache.climb(copy.deepcopy(messages[:end]), POLICY, size=1) != told:
                    wrong.append(end)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
