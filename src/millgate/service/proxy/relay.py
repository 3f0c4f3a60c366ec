"""Relay: a model's stream on its way to the client, through the guard.

Events are passed on as the bytes they came in. Only what the guard cut, and what comes after a rollback, is written
anew, under the id of the first call. An event whose text waits for a verdict waits whole, so that a stream without a
loop reaches the client byte for byte. A stall severs the upstream before the next call is made. If an event is
too large to be held, the rest of the stream passes unwatched: an answer that was paid for is never thrown away. A large
event is parsed and judged in a thread.

A fault of the upstream looks to the client as it would without us, so that an agent does what it does about it: an
event that cannot be read passes as it came, a stream that ends too early ends, and one that breaks is broken. After a
bug of ours the answer passes unwatched, from the first event that has not gone out.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from millgate.calls import bugs
from millgate.errors import LoopError, MillgateError, PartialCallError, UpstreamError
from millgate.guard.channels import EVENT, Piece
from millgate.guard.dialects.dialect import Dialect, Event, Fields
from millgate.guard.dialects.usage import UsageSum, estimate_prompt, hide_usage
from millgate.guard.machine import StreamMachine
from millgate.guard.report import State
from millgate.guard.resume import Call
from millgate.service.edge.byte_budget import ByteBudget, Share
from millgate.service.proxy.http_client import HttpResponse
from millgate.service.proxy.sse import (
    KEEP_ALIVE,
    LARGE,
    Splitter,
    encode,
    encode_data,
    parse,
    payload,
)
from millgate.service.proxy.upstreams import DRAIN_S
from millgate.types.policy import ProxyPolicy

# bytes that a piece of an event takes while it waits, beside the event's own (tracemalloc)
WAITING = 600
GENERATING = State.GENERATING  # looked up once: it is asked for at every event
CallAgain = Callable[[Call], Awaitable[HttpResponse]]
Write = Callable[[bytes], Awaitable[None]]
STRANGE = "an event of a further call cannot be read"
# What reading an event of another shape than its API has may raise.
SHAPE_ERRORS = (AttributeError, IndexError, KeyError, TypeError, ValueError)


def figures_of(machine: StreamMachine) -> dict[str, int]:
    """What the usage of an answer tells of its guard."""
    return {"rollbacks": machine.report.rollbacks, "cut_chars": machine.report.cut_chars}


@dataclass(slots=True, eq=False)
class Frame:
    """The bytes of an event, and how many of its pieces have not yet gone out."""

    data: bytes
    found: Event | None
    """The event, until it has to wait: parsed, it takes many times its bytes."""
    pieces_left: int
    verbatim: bool
    is_strange: bool = False
    """Whether the dialect cannot read it."""
    size: int = 0
    """Bytes that are booked for it while it waits."""
    written: list[Event] = field(default_factory=list)
    """Of the pieces that have gone out, should the rest be cut."""


class Relay:
    """One answer, over as many calls as it takes."""

    def __init__(
        self,
        dialect: Dialect,
        machine: StreamMachine,
        fields: Fields,
        *,
        policy: ProxyPolicy,
        call_again: CallAgain,
        write: Write,
        share: Share | None = None,
        usage: UsageSum | None = None,
        hides_usage: bool = False,
    ) -> None:
        self.dialect, self.machine = dialect, machine
        self.usage = UsageSum() if usage is None else usage
        self.fault = ""
        """What the upstream did wrong, if the client got that as it came."""
        self._fields, self._policy = fields, policy
        self._hides_usage = hides_usage  # it was asked for, but not by the client
        self._call_again, self._write = call_again, write
        self._share = share or Share(ByteBudget())
        self._frame: Frame | None = None  # the one that is out in part
        self._calls = 0
        # the first call's frames that had not gone out before this event
        self._waiting = deque[Frame]()
        self._held = 0  # bytes of events that have not gone out
        self._unsplit = 0  # bytes of the event that is still coming in
        self._closing = ""  # words of ours that end an answer which kept looping
        self._unread = False  # whether bytes are passed on without being read
        self._total = 0
        self._loop = asyncio.get_running_loop()
        self._written = self._loop.time()
        guard = machine.policy
        self._tick_s = min(guard.keep_alive_s, guard.max_hold_s)

    async def run(self, response: HttpResponse) -> HttpResponse:
        """From the first response to the end of the stream: the last response, which the caller closes.

        Errors are raised once all that was clean is sent.
        """
        self.machine.start()
        while True:
            self._calls += 1
            self.dialect.restart()
            self.usage.begin()
            self._share.drop(self._held)
            self._held = 0
            self._waiting.clear()
            try:
                await self._read_call(response)
            except BaseException as error:
                await response.close()
                if isinstance(error, MillgateError):
                    await self._send(self._release_clean())
                raise
            if not self.machine.stalled:
                break
            self._count_severed()
            try:
                response = await self._call_again(self.machine.resume())
            except PartialCallError:
                raise
            except LoopError:
                self.fault, self._closing = LoopError.__name__, self.machine.closing_words
                break
        await self._send(self._finish())
        return response

    def _count_severed(self) -> None:
        prompt = estimate_prompt(self._fields)
        self.usage.sever(self.dialect.estimate_usage(prompt, self.machine.severed_tokens))

    async def _read_call(self, response: HttpResponse) -> None:
        """One call, to its end or its stall."""
        splitter, machine = Splitter(), self.machine
        while not self._is_over():
            data = await response.read(self._tick_s if self._held or machine.holding else None)
            if data:
                self._total += len(data)
                if self._total > self._policy.max_stream_bytes:
                    raise UpstreamError(
                        f"the stream is longer than max_stream_bytes {self._policy.max_stream_bytes}",
                        hint="raise proxy.max_stream_bytes",
                    )
                out = await self._take_bytes(splitter, data)
            else:
                out = [] if data is None else await self._end_call(splitter.end())
            if machine.stalled:
                await response.close()  # before anything else: each moment costs tokens
            elif machine.holding:
                out += self._let_out(machine.tick)
            await self._send(out)
        self._book_unsplit(0)
        rest = splitter.end()  # after a stall it is dropped
        if self._passes_rest():
            await self._pass_rest(response, rest)

    async def _pass_rest(self, response: HttpResponse, data: bytes | None) -> None:
        """Pass on what follows the last event, until the upstream ends or falls silent.

        The answer is complete: an upstream that breaks off now is not an error.
        """
        if data:
            await self._write(data)
        with suppress(UpstreamError):
            while self._total <= self._policy.max_stream_bytes and (
                data := await response.read(DRAIN_S)
            ):
                self._total += len(data)
                await self._write(data)

    def _passes_rest(self) -> bool:
        """Whether the first call has come to its own end, so that what follows passes as it comes."""
        is_complete = self.machine.done and not self.machine.report.ended
        return self._calls == 1 and (is_complete or self.fault == "upstream_error_event")

    def _is_over(self) -> bool:
        """Whether nothing more is wanted of the current call."""
        return self.machine.report.state is not GENERATING

    async def _send(self, out: list[bytes]) -> None:
        """Write what there is; a comment if there is nothing and the client has waited for a while."""
        if out:
            await self._write(out[0] if len(out) == 1 else b"".join(out))
            self._written = self._loop.time()
        elif self._held and not self.machine.stalled:
            now = self._loop.time()
            if now - self._written >= self.machine.policy.keep_alive_s * 0.99:
                self._written = now
                await self._write(KEEP_ALIVE)

    # Events

    async def _take_bytes(self, splitter: Splitter, data: bytes) -> list[bytes]:
        if self._unread:
            rest = splitter.end()  # of the event in which reading ended
            return [rest, data] if rest else [data]
        out = await self._take(splitter.feed(data))
        if splitter.pending == self._unsplit or self._book_unsplit(splitter.pending):
            return out
        # an event of a later call has to be written anew, which needs all of it
        if self._calls > 1:
            raise UpstreamError(f"an event of {splitter.pending:,} bytes cannot be held")
        self._unread = True
        out += self._emit(self.machine.stop_watching("an event is too large to be held"))
        return out

    def _book_unsplit(self, pending: int) -> bool:
        """Book the event that is still coming in; whether it may be held."""
        more, fits = pending - self._unsplit, pending <= self._policy.max_event_bytes
        if more <= 0:
            self._share.drop(-more)
        elif not (fits and self._share.try_hold(more)):
            return False
        self._unsplit = pending
        return True

    async def _take(self, events: list[bytes]) -> list[bytes]:
        out: list[bytes] = []
        for at, event in enumerate(events):
            while self._waiting and not self._waiting[0].pieces_left:
                self._waiting.popleft()
            try:
                out += await self._take_event(event)
            except MillgateError:
                raise
            except Exception as error:  # noqa: BLE001  a bug: see `_give_up`
                return [*out, *self._give_up(error), *events[at:]]
            if self._is_over():
                out += events[at + 1 :] if self._passes_rest() else ()
                break
        return out

    async def _take_event(self, event: bytes) -> Sequence[bytes]:
        try:
            data = payload(event)
            if not data:
                return (event,)  # a comment need not wait for anything
            if data == self.dialect.done:
                out = self._emit(self.machine.end())
                return [*out, event] if self._calls == 1 else out
            found = parse(data) if len(data) <= LARGE else await asyncio.to_thread(parse, data)
        except UpstreamError:
            return self._pass_strange(event)
        if self._hides_usage and "usage" in found:
            self.usage.note(self.dialect.usage(found))
            if not (event := hide_usage(event, found, self.dialect)):
                return ()
        return await self._feed(event, found)

    def _pass_strange(self, event: bytes) -> list[bytes]:
        """Pass an event that cannot be read on as it came. One of a later call would have to be written anew."""
        if self._calls > 1:
            raise UpstreamError(STRANGE)
        frame = Frame(event, None, 1, verbatim=True, is_strange=True)
        out = self._emit(self.machine.feed(Piece(EVENT, raw=(frame, None))))
        return out + self._hold(frame) if frame.pieces_left else out

    async def _feed(self, event: bytes, found: Event) -> list[bytes]:
        """Feed one event of the model to the guard; the bytes that may go out now."""
        try:
            if self.dialect.is_error(found):
                self.fault = "upstream_error_event"
                return [*self._release_clean(), event]
            if (
                b'"usage' in event or b"diagnos" in event
            ):  # as in few: what was spent, and why a cache broke
                self.usage.note(self.dialect.usage(found))
                self.usage.note_diagnosis(found)
            pieces = self.dialect.read(found)
        except SHAPE_ERRORS:
            return self._pass_strange(event)
        frame = Frame(event, found, len(pieces), verbatim=self._calls == 1)
        out: list[bytes] = []
        for piece in pieces:
            piece.raw = (frame, None if piece.raw is found else piece.raw)
            feed = self.machine.feed
            ready = feed(piece) if len(event) <= LARGE else await asyncio.to_thread(feed, piece)
            out += self._emit(ready)
            if self._is_over():
                out += self._write_rest()
                return out
        if frame.pieces_left:
            out += self._hold(frame)
        if self.dialect.ended and not self.dialect.done:  # this was the last event
            out += self._emit(self.machine.end())
        return out

    def _hold(self, frame: Frame) -> list[bytes]:
        """Let an event wait. If it cannot be held, nothing is watched any more: the bytes that go out for that."""
        frame.found = None
        size = len(frame.data) + WAITING * frame.pieces_left
        if self._held + size <= self._policy.max_held_bytes and self._share.try_hold(size):
            frame.size = size
            self._held += size
            self._waiting.append(frame)
            return []
        return self._emit(
            self.machine.stop_watching(
                "what waits exceeds proxy.max_held_bytes, or service.memory_bytes is used up"
            )
        )

    def _emit(self, pieces: list[Piece]) -> list[bytes]:
        """Pieces that go out, as bytes: an event of the first call as it came, as soon as all of it may go."""
        out: list[bytes] = []
        for piece in pieces:
            frame: Frame | None = None
            if piece.raw is not None:
                frame, raw = piece.raw
                if frame.is_strange:
                    out += self._emit_piece(frame, ())
                    continue
                piece.raw = raw or frame.found or parse(payload(frame.data))
            try:
                written = self.dialect.write(piece)
            except SHAPE_ERRORS as error:
                if frame is None or not frame.verbatim:
                    raise UpstreamError(STRANGE) from error
                written = ()
            if frame is None:  # half of a piece that was cut in two
                out += self._write_rest()
                out += [self._encode(event) for event in written]
            else:
                out += self._emit_piece(frame, written)
        return out

    def _emit_piece(self, frame: Frame, written: Sequence[Event]) -> list[bytes]:
        """Let one more piece of an event out; the last one lets the event go as it came, if it may."""
        frame.pieces_left -= 1
        if not frame.pieces_left and frame.size:
            self._held -= frame.size
            self._share.drop(frame.size)
        if not frame.verbatim:
            return [self._encode(event) for event in written]
        if frame.pieces_left:
            frame.written += written
            self._frame = frame
            return []
        self._frame = None
        return [frame.data]

    def _write_rest(self) -> list[bytes]:
        """The pieces that may go out of an event whose other pieces never will."""
        frame, self._frame = self._frame, None
        return [self._encode(event) for event in frame.written] if frame else []

    def _encode(self, event: Event) -> bytes:
        """Write an event anew; its usage becomes that of all calls."""
        usage = self.dialect.usage(event)
        if usage and self.usage:
            event = self.dialect.with_usage(
                event, self.usage.total(usage, figures_of(self.machine))
            )
        return encode(event, name=self.dialect.event_name(event))

    def _let_out(self, release: Callable[[], list[Piece]]) -> list[bytes]:
        """What the machine lets out, as bytes."""
        try:
            return self._emit(release())
        except MillgateError:
            raise
        except Exception as error:  # noqa: BLE001  a bug: see `_give_up`
            return self._give_up(error)

    def _give_up(self, error: Exception) -> list[bytes]:
        """After a bug of ours: what waited goes out as it came, and the rest passes unwatched.

        What comes of a further call has to be written anew. So there the error is raised, and the connection breaks.
        """
        if self._calls > 1:
            raise error
        bugs.report(error, "the guard of a stream")
        self.machine.forget(bugs.describe(error))
        self._unread, self._frame = True, None
        self._share.drop(self._held)
        self._held = 0
        return [frame.data for frame in self._waiting]

    # Endings

    async def _end_call(self, rest: bytes) -> list[bytes]:
        """The upstream closed: release what is left, if the answer is complete."""
        if self._unread:
            return [*self._emit(self.machine.end()), *([rest] if rest else ())]
        blank = not rest.strip()  # such as the last byte of a CRLF
        out = [] if blank else await self._take([rest])
        if self._is_over():
            return out
        last = [rest] if blank and self._calls == 1 else []
        if not self.dialect.ended:
            self.fault = "upstream_ended_early"
            return [*out, *self._release_clean(), *last]
        return [*out, *self._let_out(self.machine.end), *last]

    def _release_clean(self) -> list[bytes]:
        """Release after an error what waits and is clean."""
        if self._is_over():
            return []
        return [*self._emit(self.machine.fail()), *self._write_rest()]

    def _finish(self) -> list[bytes]:
        """The end of a stream that is no longer the upstream's own."""
        ended = self.machine.report.ended or ("stop" if self._closing else "")
        if self.fault and not ended:
            return []
        end = [encode_data(self.dialect.done)] if self.dialect.done else []
        if ended:
            if not self._closing:  # which come behind a call that is counted already
                self._count_severed()
            last = self.dialect.finish(ended, self._closing)
            more = self.dialect.usage_events(last[-1], self._fields)
            return [*map(self._encode, last), *map(self._encode, more), *end]
        return end if self._calls > 1 else []
