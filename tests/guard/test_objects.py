"""The guard around streams of objects."""

from dataclasses import dataclass, replace

import pytest
from tests.integrations.samples import AFTER, INTRO, UNIT, looping, tokens

from millgate.errors import InputError, LoopError
from millgate.guard import TOOL, Piece, State
from millgate.guard.objects import GuardedObjects


@dataclass(frozen=True)
class Delta:
    text: str = ""
    call: int = 0
    note: str = ""


def read(delta):
    if delta.call:
        return Piece(TOOL, delta.text, call=delta.call)
    return delta.text or None


def guarded(*answers, **knobs):
    """A guarded stream over scripted answers, and the continuations that it was asked with."""
    asked, closed = [], []

    def generate(continuation):
        asked.append(continuation)
        return stream(answers[min(len(asked), len(answers)) - 1])

    def stream(deltas):
        try:
            yield from deltas
        finally:
            closed.append(True)

    def write(delta, text):
        return replace(delta, text=text)

    return GuardedObjects(generate, read=read, write=write, **knobs), asked, closed


def as_async(guard):
    generate = guard._generate

    async def opened(continuation):
        for each in generate(continuation):
            yield each

    guard._generate = opened
    return guard


def test_a_clean_stream_comes_out_as_the_same_objects():
    deltas = [
        Delta(note="begin"),
        *(Delta(text) for text in tokens(INTRO + AFTER)),
        Delta(note="end"),
    ]
    guard, asked, closed = guarded(deltas)
    out = list(guard.iterate())
    assert [id(each) for each in out] == [id(each) for each in deltas]
    assert asked == [[]]
    assert closed == [True]


def test_a_loop_is_cut_and_the_model_goes_on_behind_what_was_said():
    guard, asked, closed = guarded(map(Delta, looping()), map(Delta, tokens(AFTER)))
    text = "".join(each.text for each in guard.iterate())
    assert text.startswith(INTRO + UNIT)
    assert text.endswith(AFTER)
    assert text.count(UNIT) <= 2
    assert [message["role"] for message in asked[1]] == ["assistant", "user"]
    assert text.startswith(asked[1][0]["content"])
    assert guard.report.state is State.DONE
    assert guard.report.rollbacks == 1
    assert closed == [True, True]


async def test_an_async_stream_is_guarded_alike():
    guard, asked, _ = guarded(list(map(Delta, looping())), list(map(Delta, tokens(AFTER))))
    text = "".join([each.text async for each in as_async(guard).stream()])
    assert text.endswith(AFTER)
    assert len(asked) == 2


def test_if_a_cut_falls_inside_an_object_a_copy_has_the_text_that_stays():
    whole = Delta(INTRO + UNIT * 40, note="whole")
    guard, _, _ = guarded([whole], [Delta(AFTER)])
    first, *_ = guard.iterate()
    assert first.note == "whole"
    assert first.text.startswith(INTRO)
    assert len(first.text) < len(whole.text)


def test_a_tool_call_that_loops_never_reaches_the_client():
    looped = [Delta('{"q": "' + "ab ab " * 4000, call=1)]
    done = [Delta('{"q": "a"}', call=1)]
    guard, asked, _ = guarded(looped, done)
    assert list(guard.iterate()) == done
    assert len(asked) == 2


def test_a_model_that_keeps_looping_raises_with_the_clean_text():
    guard, asked, closed = guarded(*[list(map(Delta, looping()))] * 4, max_rollbacks=2)
    with pytest.raises(LoopError) as raised:
        list(guard.iterate())
    assert raised.value.text.startswith(INTRO)
    assert len(asked) == len(closed) == 3


def test_a_generate_that_takes_sampling_is_given_it_after_a_cut():
    seen = []

    def generate(continuation, *, sampling=None):
        seen.append(sampling)
        return map(Delta, looping() if not continuation else tokens(AFTER))

    guard = GuardedObjects(generate, read=read, write=lambda delta, text: replace(delta, text=text))
    list(guard.iterate())
    assert seen[0] is None
    assert seen[1]["temperature"] > 0


def test_an_error_of_a_framework_comes_out_as_it_is():
    def generate(continuation):
        yield Delta("a ")
        raise ValueError("boom")

    guard = GuardedObjects(generate, read=read, write=lambda delta, text: replace(delta, text=text))
    with pytest.raises(ValueError, match="boom"):
        list(guard.iterate())
    assert guard.report.state is State.FAILED


def test_what_is_read_is_text():
    guard = GuardedObjects(
        lambda continuation: [b"bytes"], read=bytes, write=lambda each, text: each
    )
    with pytest.raises(InputError, match="yields bytes, not str"):
        list(guard.iterate())
