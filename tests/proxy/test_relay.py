"""The relay alone: no split of the upstream's bytes, and no short cut, changes what the client gets."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.proxy.upstream import (
    DONE,
    LOOP,
    PROSE,
    UNIT,
    call_item,
    chunk,
    completion_stream,
    event,
    message_item,
    reasoning_item,
    response_stream,
    said,
    told,
)

from millgate.errors import UpstreamError
from millgate.guard.dialects import (  # fmt: skip
    ChatDialect,
    CompletionsDialect,
    MessagesDialect,
    ResponsesDialect,
)
from millgate.guard.machine import StreamMachine
from millgate.guard.policy import GuardPolicy
from millgate.guard.resume import CLOSING
from millgate.service.edge.byte_budget import ORDINARY, ByteBudget, Share
from millgate.service.proxy.relay import Relay
from millgate.service.proxy.sse import KEEP_ALIVE
from millgate.types.policy import ProxyPolicy

TEXT, REPEAT = "".join(PROSE), (*[UNIT] * 2, UNIT[:40], "but never above the gate. ")
CALL = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}  # fmt: skip
TOOL = {"type": "tool_use", "id": "tool_1", "name": "f", "input": {}}
CLEAN = {
    "chat": (ChatDialect, [*said(*PROSE, *REPEAT, "ü世🌊", usage=(1, 2))[:-2], chunk({"tool_calls": [CALL]}), chunk({}, finish="tool_calls"), DONE]),
    "completions": (CompletionsDialect, completion_stream(*PROSE, *REPEAT, "ü世🌊")),
    "messages": (MessagesDialect, [*told(*PROSE, *REPEAT, "ü世🌊")[:-2],
                 event("content_block_start", index=1, content_block=TOOL),
                 event("content_block_delta", index=1, delta={"type": "input_json_delta", "partial_json": '{"a": 1}'}),
                 event("content_block_stop", index=1), *told()[-2:]]),
    "responses": (ResponsesDialect, response_stream(reasoning_item("Hm, " + UNIT * 2), message_item(TEXT + "".join(REPEAT) + "ü世🌊"), call_item('{"a": 1}'))),
}  # fmt: skip
LOOPS = {
    "chat": (ChatDialect, [said(*LOOP), said("All is ", "well.", id="b", usage=(7, 9))]),
    "completions": (CompletionsDialect, [completion_stream(*LOOP), completion_stream("All is ", "well.", id="b")]),
    "messages": (MessagesDialect, [told(*LOOP), told("All is ", "well.", id="b")]),
    "responses": (ResponsesDialect, [response_stream(texts=LOOP), response_stream(texts=("All is ", "well."), id="b")]),
}  # fmt: skip


class Parts:
    """A response that gives these parts."""

    status, headers = 200, ()

    def __init__(self, parts):
        self.parts, self.closed = iter(parts), False

    async def read(self, tick_s=None):
        return next(self.parts, b"")

    async def close(self):
        self.closed = True


async def relayed(dialect, calls, *, machine=StreamMachine, policy=ProxyPolicy(), share=None):  # noqa: B008
    """What the client gets of these calls, each a list of parts."""
    responses, out = [Parts(parts) for parts in calls], []

    async def call_again(call):
        return responses.pop(0)

    async def write(data):
        out.append(data)

    machine = machine(({"role": "user", "content": "Hi"},))
    relay = Relay(dialect, machine, {}, policy=policy, call_again=call_again, write=write, share=share)  # fmt: skip
    await relay.run(responses.pop(0))
    return b"".join(out), machine.report


def split(data, cuts):
    ends = sorted({min(cut, len(data)) for cut in cuts} | {len(data)})
    return [data[a:b] for a, b in zip([0, *ends], ends, strict=False) if a < b]


@pytest.mark.slow
@pytest.mark.parametrize("api", CLEAN)
async def test_a_split_at_any_position_changes_nothing(api):
    kind, script = CLEAN[api]
    data = b"".join(script)
    for at in range(1, len(data), 7):
        got, report = await relayed(kind(), [[data[:at], data[at:]]])
        assert got == data
        assert report.rollbacks == 0


@pytest.mark.parametrize("api", CLEAN)
@given(data=st.data())
async def test_any_splits_give_the_bytes_that_came(api, data):
    kind, script = CLEAN[api]
    stream = b"".join(script)
    cuts = data.draw(st.lists(st.integers(1, len(stream)), max_size=30))
    got, _ = await relayed(kind(), [split(stream, cuts)])
    assert got == stream


@pytest.mark.parametrize("line", ["\r\n", "\r"])
@pytest.mark.parametrize("api", CLEAN)
async def test_the_last_byte_arrives_wherever_the_line_end_is_split(api, line):
    kind, script = CLEAN[api]
    data = b"".join(script).replace(b"\n", line.encode()) + b": bye" + line.encode()
    for at in range(len(data) - 40, len(data)):
        got, _ = await relayed(kind(), [[data[:at], data[at:]]])
        assert got == data


async def test_an_upstream_that_breaks_off_after_its_last_event_is_no_error():
    class Broken(Parts):
        async def read(self, tick_s=None):
            if data := await super().read(tick_s):
                return data
            raise UpstreamError("closed")

    data, out = b"".join(said(*PROSE)), []

    async def write(part):
        out.append(part)

    machine = StreamMachine(({"role": "user", "content": "Hi"},))
    relay = Relay(ChatDialect(), machine, {}, policy=ProxyPolicy(), call_again=None, write=write)
    await relay.run(Broken([data]))
    assert b"".join(out) == data
    assert machine.done


@pytest.mark.parametrize("api", LOOPS)
@given(data=st.data())
async def test_any_splits_cut_a_loop_alike(api, data):
    kind, calls = LOOPS[api]
    streams = [b"".join(call) for call in calls]
    cuts = [data.draw(st.lists(st.integers(1, len(s)), max_size=12)) for s in streams]
    parts = [split(s, c) for s, c in zip(streams, cuts, strict=True)]
    whole, report = await relayed(kind(), [[s] for s in streams])
    got, _ = await relayed(kind(), parts)
    assert got == whole
    assert report.rollbacks == 1
    times = 5 if api == "responses" else 1  # whose last events say all of it again
    assert whole.count(UNIT.encode()) <= 2 * times


@pytest.mark.parametrize("api", LOOPS)
async def test_a_stall_closes_the_response_before_the_next_call(api):
    kind, calls = LOOPS[api]
    first, second = Parts([b"".join(calls[0])]), Parts([b"".join(calls[1])])
    closed = []

    async def call_again(call):
        closed.append(first.closed)
        return second

    async def write(data):
        pass

    machine = StreamMachine(({"role": "user", "content": "Hi"},))
    relay = Relay(kind(), machine, {}, policy=ProxyPolicy(), call_again=call_again, write=write)
    assert await relay.run(first) is second
    assert closed == [True]


@pytest.mark.parametrize("api", LOOPS)
async def test_a_model_that_only_loops_ends_with_closing_words_and_the_regular_end(api):
    kind, calls = LOOPS[api]
    dialect = kind()
    out = (await relayed(dialect, [[b"".join(calls[0])]] * 4))[0]
    assert out.count(CLOSING.encode()) == (
        1 if api != "responses" else 5
    )  # its last events repeat the text
    ends = {"chat": b'"finish_reason":"stop"', "completions": b'"finish_reason":"stop"',
            "messages": b'"stop_reason":"end_turn"', "responses": b'"type":"response.completed"'}  # fmt: skip
    assert out.count(ends[api]) == 1
    assert out.endswith(b"data: [DONE]\n\n") is bool(dialect.done)
    assert b'"error":{' not in out


async def test_a_client_that_waits_gets_a_comment_for_each_time_of_the_policy_and_none_before():
    now, out = [0.0], []

    class Clock:
        def time(self):
            return now[0]

    class Slow(Parts):
        """The time that passes stands between the parts."""

        async def read(self, tick_s=None):
            part = await super().read(tick_s)
            if isinstance(part, float):
                now[0] += part
                return None
            return part

    async def write(data):
        out.append(data)

    data = b"".join(said(*PROSE, *[UNIT] * 2, UNIT[:40]))
    held = data.rindex(UNIT[:40].encode())
    held = data.index(b"\n\n", held) + 2
    ticks = [9.89, 0.02, 9.89, 0.02]
    machine = StreamMachine(({"role": "user", "content": "Hi"},), clock=lambda: 0.0)
    relay = Relay(ChatDialect(), machine, {}, policy=ProxyPolicy(), call_again=None, write=write)
    relay._loop, relay._written = Clock(), 0.0
    sent = []

    class Counted(Slow):
        async def read(self, tick_s=None):
            sent.append(out.count(KEEP_ALIVE))
            return await super().read(tick_s)

    await relay.run(Counted([data[:held], *ticks, data[held:]]))
    assert sent[:6] == [0, 0, 0, 1, 1, 2]


@pytest.mark.parametrize("api", CLEAN)
async def test_the_last_event_ends_the_answer_although_the_upstream_stays_open(api):
    kind, script = CLEAN[api]

    class Open(Parts):
        async def read(self, tick_s=None):
            data = await super().read(tick_s)
            assert data or tick_s, "the end was waited for after the last event"
            return data or None

    out = []

    async def write(data):
        out.append(data)

    machine = StreamMachine(({"role": "user", "content": "Hi"},))
    relay = Relay(kind(), machine, {}, policy=ProxyPolicy(), call_again=None, write=write)
    await relay.run(Open([b"".join(script)]))
    assert b"".join(out) == b"".join(script)


def waiting_calls(each, events):
    """Events of a tool call that does not end, each with so many pieces of it."""
    for n in range(events):
        calls = [{"index": 0, "function": {"name": "f", "arguments": f"{n} "}}] * each
        yield chunk({"tool_calls": calls})


class WholeMachine(StreamMachine):
    """A machine that holds each tool call until it is complete."""

    def __init__(self, messages):
        super().__init__(messages, policy=GuardPolicy(tool_calls="whole"))


@pytest.mark.parametrize("each", [1, 5])
async def test_what_waits_is_counted_as_the_memory_it_takes_and_given_back(each):
    share = CountingShare(ByteBudget())
    script = [*waiting_calls(each, 1_500), chunk({}, finish="tool_calls"), DONE]
    tracemalloc.start()
    got, _ = await relayed(ChatDialect(), [script], machine=WholeMachine, share=share)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert got.replace(KEEP_ALIVE, b"") == b"".join(script)  # a slow machine may wait for long
    assert share.held == 0
    assert share.most > 1_500 * 600 * each
    assert peak < 3 * share.most


class CountingShare(Share):
    """A share that remembers how much it held at most."""

    most = 0

    def try_hold(self, size):
        held = super().try_hold(size)
        self.most = max(self.most, self.held)
        return held


async def test_a_tool_call_that_streams_holds_nothing():
    share = CountingShare(ByteBudget())
    script = [*waiting_calls(1, 1_500), chunk({}, finish="tool_calls"), DONE]
    got, _ = await relayed(ChatDialect(), [script], share=share)
    assert got == b"".join(script)
    assert share.most == 0


FULL = {
    "its own limit": (ProxyPolicy(max_held_bytes=100_000), ByteBudget),
    "the budget of all": (ProxyPolicy(), lambda: ByteBudget(1)),
}


@pytest.mark.parametrize(("policy", "budget"), FULL.values(), ids=FULL)
async def test_what_cannot_be_held_passes_unwatched_and_the_report_says_so(policy, budget):
    full = budget()
    with full.share() as other, full.share() as share:
        assert other.try_hold(ORDINARY + 1)  # a large one that is alone may hold anything
        script = [*waiting_calls(1, 2_000), chunk({}, finish="tool_calls"), DONE]
        got, report = await relayed(
            ChatDialect(), [script], machine=WholeMachine, policy=policy, share=share
        )
    assert got == b"".join(script)
    assert (
        report.passed_on
        == "what waits exceeds proxy.max_held_bytes, or service.memory_bytes is used up"
    )
    assert full.held == 0


@pytest.mark.parametrize("api", CLEAN)
async def test_an_event_too_large_to_be_held_passes_as_it_comes_and_so_does_the_rest(api):
    kind, script = CLEAN[api]
    large = b": " + b"x" * 2_000 + b"\n\n"
    data = b"".join([*script[:3], large, *script[3:]])
    policy = ProxyPolicy(max_event_bytes=1_500)
    with ByteBudget().share() as share:
        got, report = await relayed(kind(), [split(data, range(0, len(data), 100))], policy=policy, share=share)  # fmt: skip
        assert share.held == 0
    assert got == data
    assert report.passed_on == "an event is too large to be held"
    assert report.state == "done"


async def test_what_waits_in_a_loop_is_given_back_when_it_is_cut():
    kind, calls = LOOPS["chat"]
    with ByteBudget().share() as share:
        _, report = await relayed(kind(), calls, share=share)
        assert share.held == 0
    assert report.rollbacks == 1
