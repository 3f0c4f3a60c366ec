"""Guard end to end on a scripted model: cut, roll back, resume, hold back, give up, close."""

import asyncio
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millgate.errors import (
    ConfigError,
    InputError,
    LoopError,
    PartialCallError,
    UpstreamError,
)
from millgate.guard import (
    CONTENT,
    EVENT,
    PUBLISHED_DIVERGENCE,
    REASONING,
    TOOL,
    TRANSITIONS,
    EntropyDetector,
    Guard,
    Piece,
    RepeatDetector,
    State,
    StreamMachine,
)
from millgate.guard.policy import GuardPolicy
from millgate.guard.resume import ANSWER_NOW, TURNS
from millgate.testing import ScriptedModel
from millgate.testing.fakes import Pause

INTRO = "The river rose in spring, and the keeper of the gate went out before dawn.\n"
UNIT = "He lifted the first board and looked at the water below him for a while. "
AFTER = "Then he went home and slept. The end."
ASK = [{"role": "user", "content": "Tell me about the keeper."}]


def tokens(text, size=4):
    return [text[i : i + size] for i in range(0, len(text), size)]


LOOP = tokens(INTRO + UNIT * 40)


async def run(guard, messages=ASK, **options):
    return [piece async for piece in guard.stream(messages, **options)]


async def collect(guard, received):
    async for piece in guard.stream(ASK):
        received.append(piece)  # what came before an error must be kept


async def test_a_clean_answer_passes_piece_by_piece_and_unchanged():
    model = ScriptedModel([tokens(INTRO + AFTER)])
    guard = Guard(model)
    assert await run(guard) == tokens(INTRO + AFTER)
    assert guard.report.state is State.DONE
    assert guard.report.rollbacks == guard.report.cut_chars == 0
    assert model.calls[0].sampling is None
    assert model.open == 0


async def test_a_loop_is_cut_and_the_answer_goes_on_in_the_same_stream():
    model = ScriptedModel([LOOP, tokens(AFTER)])
    guard = Guard(model)
    text = "".join(await run(guard))
    assert text.startswith(INTRO + UNIT)
    assert text.endswith(AFTER)
    assert text.count(UNIT) <= 2
    assert model.open == 0
    assert model.yielded < len(LOOP) / 2 + len(AFTER)
    report = guard.report
    assert (report.state, report.rollbacks, report.calls) == (State.DONE, 1, 2)
    (cut,) = report.cuts
    assert (cut.onset, cut.period, cut.channel) == (len(INTRO), len(UNIT), CONTENT)
    assert report.cut_chars == cut.cut_chars > 0
    assert report.wasted_tokens > 0
    assert report.resent_tokens > 0
    assert report.as_dict()["state"] == "done"


async def test_the_history_sent_upstream_is_exactly_what_the_client_received():
    model = ScriptedModel([LOOP, [Pause(0), *tokens(AFTER)]])
    guard = Guard(model)
    received = [piece async for piece in guard.stream(ASK) if len(model.calls) == 1]
    messages = model.calls[1].messages
    assert [m["role"] for m in messages] == ["user", "assistant", "user"]
    assert messages[1]["content"] == "".join(received)
    assert messages[2]["content"] == TURNS[0]


async def test_sampling_changes_from_the_first_retry_on_and_escalates():
    model = ScriptedModel([LOOP, LOOP, LOOP, tokens(AFTER)])
    await run(Guard(model))
    temperatures = [call.sampling["temperature"] for call in model.calls[1:]]
    assert temperatures == sorted(temperatures)
    assert temperatures[0] >= 0.8
    assert "presence_penalty" in model.calls[-1].sampling


async def test_a_model_without_sampling_is_recognized_by_its_signature():
    model = ScriptedModel([LOOP, tokens(AFTER)])

    async def generate(messages):
        return model(messages)

    guard = Guard(generate)
    assert "".join(await run(guard)).endswith(AFTER)
    assert [call.sampling for call in model.calls] == [None, None]


async def test_a_string_is_injected_as_published_and_never_shown():
    echo = tokens(PUBLISHED_DIVERGENCE + " " + AFTER, 3)
    model = ScriptedModel([LOOP, echo])
    guard = Guard(model, divergence=PUBLISHED_DIVERGENCE)
    text = "".join(await run(guard))
    last = model.calls[1].messages[-1]
    assert last["role"] == "assistant"
    assert last["content"].endswith(PUBLISHED_DIVERGENCE)
    assert "divergence" not in text
    assert text.endswith(AFTER)


async def test_the_plain_words_never_show_even_when_the_model_says_them_back():
    model = ScriptedModel([LOOP, tokens(TURNS[0] + AFTER, 5)])
    text = "".join(await run(Guard(model)))
    assert TURNS[0] not in text
    assert text.endswith(AFTER)


async def test_three_rollbacks_then_the_fourth_stall_raises_with_the_clean_text():
    model = ScriptedModel([LOOP])
    guard = Guard(model)
    received = []
    with pytest.raises(LoopError) as caught:
        await collect(guard, received)
    assert len(model.calls) == 4
    assert caught.value.text == "".join(received)
    assert guard.report.state is State.FAILED
    assert guard.report.rollbacks == 3
    assert model.open == 0


async def test_no_rollbacks_at_all_can_be_asked_for():
    model = ScriptedModel([LOOP])
    with pytest.raises(LoopError):
        await run(Guard(model, max_rollbacks=0))
    assert len(model.calls) == 1


async def test_a_loop_that_comes_back_after_the_cut_shows_no_further_copy():
    model = ScriptedModel([LOOP, tokens(UNIT * 30), tokens(AFTER)])
    text = "".join(await run(Guard(model, resume="prefill")))
    assert text.count(UNIT) <= 2
    assert text.endswith(AFTER)


async def test_one_more_copy_at_the_start_of_the_next_call_is_left_out_without_another_rollback():
    model = ScriptedModel([LOOP, tokens(UNIT + AFTER)])
    guard = Guard(model)
    text = "".join(await run(guard))
    assert text.count(UNIT) <= 2
    assert text.endswith(AFTER)
    assert guard.report.rollbacks == 1
    assert guard.report.cut_chars > guard.report.cuts[0].cut_chars


async def test_one_more_copy_later_in_the_next_call_is_left_out_too():
    model = ScriptedModel([LOOP, tokens("Yes, and so it was. " + UNIT + AFTER)])
    guard = Guard(model)
    text = "".join(await run(guard))
    assert text.count(UNIT) <= 2
    assert "Yes, and so it was. " in text
    assert text.endswith(AFTER)
    assert guard.report.rollbacks == 1


async def test_one_more_copy_that_runs_on_from_the_cut_is_left_out_too():
    model = ScriptedModel([LOOP])
    with pytest.raises(LoopError) as caught:
        await run(Guard(model, max_rollbacks=0))
    rest = (INTRO + UNIT * 3)[len(caught.value.text) :]
    model = ScriptedModel([LOOP, tokens(rest + AFTER)])
    guard = Guard(model, resume="prefill")
    text = "".join(await run(guard))
    assert text.count(UNIT) <= 2
    assert text.endswith(AFTER)
    assert guard.report.rollbacks == 1


async def test_two_more_copies_are_a_loop_again():
    model = ScriptedModel([LOOP, tokens(UNIT * 2 + AFTER), tokens(AFTER)])
    guard = Guard(model)
    assert "".join(await run(guard)).count(UNIT) <= 2
    assert guard.report.rollbacks == 2


async def test_a_model_that_loops_at_once_recovers():
    model = ScriptedModel([tokens("I am sorry, I cannot go on like this. " * 60), tokens(AFTER)])
    text = "".join(await run(Guard(model)))
    assert text.count("I am sorry") <= 3
    assert text.endswith(AFTER)


@pytest.mark.parametrize("size", [1, 4, 100, 10**6])
async def test_chunk_sizes_from_one_to_everything_give_a_client_text_without_the_loop(size):
    model = ScriptedModel([["", *tokens(INTRO + UNIT * 200, size), ""], tokens(AFTER, size)])
    text = "".join(await run(Guard(model)))
    assert text.startswith(INTRO + UNIT)
    assert text.count(UNIT) <= 2
    assert text.endswith(AFTER)


async def test_a_natural_repeat_is_held_and_then_let_go():
    text = INTRO + UNIT * 2 + UNIT[:30] + "no, and then it was enough for him. " + AFTER
    pieces = await run(guard := Guard(ScriptedModel([tokens(text)])))
    assert "".join(pieces) == text
    assert guard.report.held_chars > 0
    assert guard.report.rollbacks == 0


async def test_without_hold_back_the_tail_is_seen_and_still_cut():
    model = ScriptedModel([LOOP, tokens(AFTER)])
    guard = Guard(model, hold_back=False)
    text = "".join(await run(guard))
    assert guard.report.rollbacks == 1
    assert text.count(UNIT) < 5
    assert model.calls[1].messages[1]["content"] == text[: -len(" " + AFTER)]


async def test_more_than_max_hold_chars_is_let_through():
    unit = "".join(f"word{i} of a long unit, " for i in range(30))
    text = unit * 2 + unit[: len(unit) // 2] + "the end."
    pieces = await run(guard := Guard(ScriptedModel([tokens(text)]), max_hold_chars=50))
    assert "".join(pieces) == text
    assert guard.report.held_chars <= 60


async def test_text_held_for_too_long_goes_out_and_the_client_is_kept_awake():
    beats = []
    half = INTRO + UNIT * 2 + UNIT[:20]
    model = ScriptedModel([[*tokens(half), Pause(0.5), *tokens(AFTER)]])
    guard = Guard(model, max_hold_s=0.02, keep_alive_s=0.01, keep_alive=lambda: beats.append(1))
    seen = ""
    async for piece in guard.stream(ASK):
        if seen + piece == half:
            assert len(beats) >= 1
        seen += piece
    assert seen == half + AFTER
    assert beats


async def test_an_async_keep_alive_is_awaited():
    beats = []

    async def beat():
        beats.append(1)

    model = ScriptedModel([[*tokens(INTRO + UNIT * 2 + UNIT[:20]), Pause(0.3), "x"]])
    await run(Guard(model, keep_alive_s=0.01, keep_alive=beat))
    assert beats


async def test_the_cut_ends_at_a_sentence_if_one_is_near():
    unit = "It was cold. Nobody was there. " + UNIT + "The water was high. "
    model = ScriptedModel([tokens(INTRO + unit * 9), tokens(AFTER)])
    await run(Guard(model))
    assert model.calls[1].messages[1]["content"].endswith(". ")


async def test_an_error_in_the_stream_comes_out_as_it_is_and_closes_it():
    model = ScriptedModel([[*tokens(INTRO), ValueError("boom")]])
    guard = Guard(model)
    received = []
    with pytest.raises(ValueError, match="boom"):
        await collect(guard, received)
    assert "".join(received) == INTRO
    assert guard.report.state is State.FAILED
    assert model.open == 0


async def test_held_text_is_delivered_when_the_stream_breaks():
    text = INTRO + UNIT * 2 + UNIT[:30]
    received = []
    with pytest.raises(OSError, match="gone"):
        await collect(Guard(ScriptedModel([[*tokens(text), OSError("gone")]])), received)
    assert "".join(received) == text


async def test_our_own_errors_pass_as_they_are():
    with pytest.raises(InputError, match="as it is"):
        await run(Guard(ScriptedModel([["a", InputError("as it is")]])))


async def test_a_model_that_never_yields_is_given_up():
    model = ScriptedModel([[Pause(60)]])
    guard = Guard(model, idle_s=0.02)
    with pytest.raises(UpstreamError, match=r"nothing for 0\.02 s"):
        await run(guard)
    assert model.open == 0
    assert guard.report.state is State.FAILED


async def test_a_client_that_goes_away_closes_the_upstream():
    model = ScriptedModel([itertools.repeat("word ")])
    guard = Guard(model, detector=RepeatDetector, max_rollbacks=0)
    stream = guard.stream(ASK)
    await anext(stream)
    assert model.open == 1
    await stream.aclose()
    assert model.open == 0
    assert guard.report.state is State.CLOSED


async def test_a_client_that_goes_away_while_text_is_held_closes_the_upstream():
    model = ScriptedModel([[*tokens(INTRO + UNIT * 2 + UNIT[:20]), Pause(60)]])
    held = asyncio.Event()
    guard = Guard(model, keep_alive_s=0.01, keep_alive=held.set)

    async def client():
        async with guard.stream(ASK) as stream:
            async for _ in stream:
                pass

    task = asyncio.ensure_future(client())
    await held.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert model.open == 0
    assert guard.report.state is State.CLOSED


async def test_switched_off_everything_passes():
    model = ScriptedModel([LOOP])
    guard = Guard(model)
    assert await run(guard, enabled=False) == LOOP
    assert guard.report.state is State.DONE
    assert await run(Guard(ScriptedModel([LOOP]), enabled=False)) == LOOP


async def test_the_reasoning_channel_is_watched_apart():
    thought = [Piece(REASONING, t) for t in tokens(UNIT * 40)]
    model = ScriptedModel([thought, [Piece(REASONING, "Short thought."), *tokens(AFTER)]])
    guard = Guard(model)
    pieces = await run(guard)
    assert "".join(p for p in pieces if p.channel == CONTENT) == AFTER
    assert "".join(p for p in pieces if p.channel == REASONING).count(UNIT) <= 2
    assert guard.report.cuts[0].channel == REASONING
    assert [m["role"] for m in model.calls[1].messages] == ["user"]
    assert ANSWER_NOW in model.calls[1].messages[0]["content"]
    unwatched = Guard(ScriptedModel([thought]), reasoning=False)
    assert len(await run(unwatched)) == len(thought)


async def test_interleaved_channels_do_not_disturb_each_other():
    script = []
    for a, b in zip(tokens(INTRO + AFTER), tokens(AFTER + INTRO), strict=True):
        script += [a, Piece(REASONING, b)]
    pieces = await run(Guard(ScriptedModel([script])))
    assert pieces == script


def call(text, index=0):
    return [Piece(TOOL, t, call=index) for t in tokens(text)]


LOOPING = '{"query": "' + "the same words again and " * 700


def feed(machine, pieces):
    """What comes out of each piece, in the order in which they go in."""
    machine.start()
    return [machine.feed(piece) for piece in pieces]


@pytest.mark.parametrize("structured", [False, True])
def test_a_tool_call_or_structured_answer_goes_out_piece_by_piece(structured):
    script = tokens('{"path": "a"}') if structured else [*tokens("So: "), *call('{"path": "a"}')]
    machine = StreamMachine((), structured=structured)
    assert feed(machine, script) == [[piece] for piece in script]


async def test_asked_for_whole_a_tool_call_waits_until_it_is_complete():
    first, second = call('{"path": "a"}'), call('{"path": "b"}', 1)
    machine = StreamMachine((), policy=GuardPolicy(tool_calls="whole"))
    out = feed(machine, [*first, *second])
    assert out == [*([] for _ in first), first, *([] for _ in second[1:])]
    assert machine.end() == second


async def test_a_looping_tool_call_that_is_held_is_asked_for_again_and_never_spliced():
    model = ScriptedModel([call(LOOPING), call('{"query": "short"}')])
    guard = Guard(model, tool_calls="whole")
    pieces = await run(guard)
    assert "".join(pieces) == '{"query": "short"}'
    assert list(model.calls[1].messages) == ASK
    assert model.calls[1].sampling
    assert guard.report.rollbacks == 1


async def test_a_looping_tool_call_that_comes_in_one_piece_is_asked_for_again_unseen():
    model = ScriptedModel([[Piece(TOOL, LOOPING)], call('{"query": "short"}')])
    assert "".join(await run(Guard(model))) == '{"query": "short"}'


async def test_complete_calls_stand_when_a_later_one_loops_before_it_is_out():
    bad = Piece(TOOL, LOOPING, call=1)
    model = ScriptedModel([[*call('{"path": "a"}'), bad]])
    guard = Guard(model)
    assert "".join(await run(guard)) == '{"path": "a"}'
    assert (guard.report.state, guard.report.ended) == (State.DONE, "tool_calls")
    assert len(model.calls) == 1


@pytest.mark.parametrize("structured", [False, True])
async def test_a_loop_in_what_is_partly_out_ends_the_stream_without_a_splice(structured):
    script = tokens(LOOPING) if structured else call(LOOPING)
    guard = Guard(ScriptedModel([script]))
    got = []

    async def read():
        async for piece in guard.stream(ASK, structured=structured):
            got.append(piece)  # noqa: PERF401  (what came before the error counts)

    with pytest.raises(PartialCallError, match="after a part of it was sent"):
        await read()
    assert LOOPING.startswith("".join(got))
    assert guard.report.state is State.FAILED


async def test_structured_output_that_is_held_is_asked_for_again():
    bad = tokens('{"items": [' + '"the same item again", ' * 800)
    model = ScriptedModel([bad, tokens('{"items": []}')])
    guard = Guard(model, tool_calls="whole")
    assert "".join(await run(guard, structured=True)) == '{"items": []}'
    assert list(model.calls[1].messages) == ASK


@pytest.mark.parametrize("earlier_loops", [0, 1])
def test_a_call_that_loops_once_more_when_asked_again_is_believed_and_passed_on(earlier_loops):
    policy = GuardPolicy(tool_calls="stream" if earlier_loops else "whole")
    machine = StreamMachine(tuple(ASK), policy=policy, earlier_loops=earlier_loops)
    machine.start()
    for _ in range(1 - earlier_loops):
        assert machine.feed(Piece(TOOL, LOOPING)) == []
        assert machine.stalled
        machine.resume()
    out = [*machine.feed(Piece(TOOL, LOOPING)), *machine.feed(Piece(TOOL, LOOPING))]
    assert "".join([*out, *machine.end()]) == LOOPING * 2
    assert "loops each time" in machine.report.passed_on


def test_a_stream_that_is_watched_no_more_passes_with_what_waited():
    machine = StreamMachine((), policy=GuardPolicy(tool_calls="whole"))
    held = feed(machine, call('{"path": "a"'))
    assert not any(held)
    assert "".join(machine.stop_watching("too large")) == '{"path": "a"'
    assert "".join(machine.feed(Piece(TOOL, LOOPING))) == LOOPING
    assert machine.report.passed_on == "too large"
    assert machine.end() == []


async def test_events_keep_their_place_behind_held_text():
    end = Piece(EVENT, raw={"finish": "stop"})
    script = [Piece(EVENT, raw={"role": "assistant"}), *tokens(INTRO + UNIT * 2 + UNIT[:30]), end]
    pieces = await run(Guard(ScriptedModel([script])))
    assert pieces[-1].raw == {"finish": "stop"}
    assert pieces[0].raw == {"role": "assistant"}


async def test_the_published_detector_can_be_the_judge():
    model = ScriptedModel([tokens(INTRO + "fo" * 200), tokens(AFTER)])
    guard = Guard(model, detector=EntropyDetector(max_drop=9))
    assert "".join(await run(guard)).endswith(AFTER)
    assert "absolute" in guard.report.cuts[0].reason


def counting():
    return tokens("".join(f"{n}. The keeper lifted the board again.\n" for n in range(1, 80)))


async def test_counting_is_warned_of_and_cut_only_when_asked():
    guard = Guard(ScriptedModel([counting()]))
    assert await run(guard) == counting()
    assert len(guard.report.warnings) == 1
    strict = Guard(ScriptedModel([counting(), tokens(AFTER)]), counting="cut")
    assert "".join(await run(strict)).endswith(AFTER)
    assert strict.report.rollbacks == 1
    quiet = Guard(ScriptedModel([counting()]), counting="off")
    await run(quiet)
    assert quiet.report.warnings == []


async def test_what_was_cut_and_what_was_not_generated_are_apart():
    guard = Guard(ScriptedModel([LOOP, tokens(AFTER)]))
    await run(guard, max_tokens=2000)
    report = guard.report
    assert 1000 < report.unused_tokens < 2000
    assert 0 < report.wasted_tokens < 500


async def test_the_budget_of_tokens_ends_the_rollbacks():
    with pytest.raises(LoopError, match="max_wasted_tokens"):
        await run(Guard(ScriptedModel([LOOP]), max_wasted_tokens=10))


async def test_an_answer_too_long_to_resend_is_given_up_at_its_stall():
    with pytest.raises(LoopError, match="max_history_chars"):
        await run(Guard(ScriptedModel([LOOP]), max_history_chars=100))


@pytest.mark.parametrize("text", ["\x00" * 50, "a\ud83d", "\udc00b", "é" * 10, "👩‍👩‍👧 " * 3])
async def test_odd_characters_pass_unharmed(text):
    assert "".join(await run(Guard(ScriptedModel([list(text)])))) == text


def test_a_plain_iterator_is_guarded_the_same_way():
    scripts = iter([LOOP, tokens(AFTER)])
    closed = []

    def generate(messages, *, sampling=None):
        try:
            yield from next(scripts)
        finally:
            closed.append(sampling)

    guard = Guard(generate)
    text = "".join(guard.iterate("Tell me."))
    assert text.startswith(INTRO + UNIT)
    assert text.endswith(AFTER)
    assert text.count(UNIT) <= 2
    assert closed[0] is None
    assert closed[1]["temperature"] == 0.8
    assert guard.report.state is State.DONE


def test_a_plain_iterator_is_closed_when_the_client_leaves_or_it_breaks():
    closed = []

    def generate(messages):
        try:
            yield from tokens(INTRO)
            raise ValueError("boom")
        finally:
            closed.append(True)

    guard = Guard(generate)
    stream = guard.iterate("hi")
    next(stream)
    stream.close()
    assert closed == [True]
    assert guard.report.state is State.CLOSED
    with pytest.raises(ValueError, match="boom"):
        list(guard.iterate("hi"))
    assert len(closed) == 2


@pytest.mark.parametrize("wrong", [b"bytes", 5, ["text"]])
async def test_what_is_no_text_is_refused_and_not_written_out(wrong):
    for_stream = Guard(ScriptedModel([["a ", wrong]]))
    with pytest.raises(InputError, match=f"yields {type(wrong).__name__}, not str"):
        await run(for_stream)
    plain = Guard(lambda messages: ["a ", wrong])
    with pytest.raises(InputError, match=f"yields {type(wrong).__name__}, not str"):
        list(plain.iterate("hi"))
    assert for_stream.report.state is plain.report.state is State.FAILED


async def test_none_is_no_text():
    assert "".join(await run(Guard(ScriptedModel([["a ", None, "b"]])))) == "a b"
    assert "".join(Guard(lambda messages: ["a ", None, "b"]).iterate("hi")) == "a b"


@pytest.mark.parametrize("wrong", ["gpt-5", None])
def test_a_guard_needs_a_function(wrong):
    with pytest.raises(ConfigError, match="not a function"):
        Guard(wrong)


@pytest.mark.parametrize("wrong", [5, None])
def test_messages_are_a_list_or_a_text(wrong):
    with pytest.raises(InputError, match="not a list of messages"):
        Guard(ScriptedModel([["a"]])).stream(wrong)


def test_a_generate_that_streams_nothing_is_named():
    with pytest.raises(ConfigError, match="generate gave int, not an iterator"):
        list(Guard(lambda messages: 5).iterate("hi"))


def test_an_answer_in_a_list_needs_no_closing_and_an_open_connection_is_closed():
    guard = Guard(lambda messages: tokens(INTRO))
    assert "".join(guard.iterate("hi")) == INTRO
    closed = []

    class Connection:
        def __iter__(self):
            return iter(tokens(INTRO))

        def close(self):
            closed.append(True)

    connection = Connection()  # held here, so that only `close` closes it
    assert "".join(Guard(lambda messages: connection).iterate("hi")) == INTRO
    assert closed == [True]


async def test_a_plain_iterator_in_an_async_stream_is_a_clear_error():
    with pytest.raises(ConfigError, match="iterate"):
        await run(Guard(lambda messages: iter(["a"])))


async def test_bad_set_ups_are_refused():
    model = ScriptedModel([["a"]])
    with pytest.raises(ConfigError):
        Guard(model, max_rollbacks=-1)
    with pytest.raises(ConfigError):
        Guard(model, unknown_knob=1)
    with pytest.raises(ConfigError):
        Guard(model, detector=3)
    with pytest.raises(InputError):
        await run(Guard(model), ["not a message"])


def test_the_table_of_states_has_no_way_out_of_an_end():
    ends = {State.DONE, State.FAILED, State.CLOSED}
    assert not ends & {state for state, _ in TRANSITIONS}
    assert ends <= set(TRANSITIONS.values())
    assert {state for state, _ in TRANSITIONS} == set(State) - ends


scripts = st.lists(
    st.lists(
        st.tuples(st.sampled_from(["a word ", UNIT, INTRO, "no. ", "\n"]), st.integers(1, 12)),
        max_size=5,
    ).map(lambda parts: "".join(text * count for text, count in parts)),
    min_size=1,
    max_size=4,
)


@given(scripts, st.integers(1, 200))
def test_whatever_the_model_does_the_client_never_sees_a_third_copy_of_a_long_unit(answers, size):
    machine = StreamMachine(tuple(ASK))
    text, error = play(machine, answers, size)
    assert UNIT * 3 not in text
    assert text == (error.text if error else machine.text)
    assert machine.report.state is (State.FAILED if error else State.DONE)


def play(machine, answers, size):
    """Drive a machine by hand: what the client has in the end, and the error that ended it."""
    call, text = machine.start(), ""
    for answer in itertools.chain(answers, itertools.repeat("")):
        if text and len(call.messages) > 1:
            tiny = [cut.onset for cut in machine.report.cuts if 0 < cut.period < 8]
            history = call.messages[1]["content"]
            assert history == text if not tiny else history.startswith(text[: min(tiny)])
        for token in tokens(answer, size):
            text += "".join(machine.feed(token))
            if machine.stalled:
                break
        if not machine.stalled:
            return text + "".join(machine.end()), None
        try:
            call = machine.resume()
        except LoopError as error:
            return text, error
    raise AssertionError("the scripts never end")
