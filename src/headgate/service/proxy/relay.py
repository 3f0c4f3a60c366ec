"""Relay: a model's stream on its way to the client, through the guard.

Events are passed on as the bytes they came in. Only what the guard cut, and what comes after a rollback, is written
anew, under the id of the first call. An event whose text waits for a verdict waits whole, so that a stream without a
loop reaches the client byte for byte. A stall severs the upstream before the next call is made.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from headgate.errors import HeadgateError, UpstreamError, UpstreamTimeout
from headgate.guard.channels import CONTENT, Piece
from headgate.guard.dialects import Event
from headgate.guard.resume import Call
from headgate.guard.rollback import Session
from headgate.policy import ProxyPolicy
from headgate.service.proxy.speech import Bill, Speech
from headgate.service.proxy.sse import DONE, KEEP_ALIVE, Splitter, parsed, payload
from headgate.service.proxy.transport import Answer
from headgate.text.tokens import estimate_tokens

Again = Callable[[Call], Awaitable[Answer]]
Write = Callable[[bytes], Awaitable[None]]


class Frame:
    """The bytes of an event, and how many of its pieces have not yet gone out."""

    __slots__ = ("data", "left", "made", "own")

    def __init__(self, data: bytes, left: int, *, own: bool) -> None:
        self.data, self.left, self.own = data, left, own
        self.made: list[Event] = []  # of the pieces that have, should the rest be cut


class Told(Exception):  # not an error of ours: the upstream tells of its own
    """The upstream told of an error within its stream."""

    def __init__(self, event: bytes) -> None:
        super().__init__("the upstream told of an error")
        self.event = event


class Relay:
    """One answer, over as many calls as it takes."""

    def __init__(
        self,
        speech: Speech,
        session: Session,
        *,
        policy: ProxyPolicy,
        idle_s: float,
        again: Again,
        write: Write,
        usage: bool = False,
    ) -> None:
        self.speech, self.session = speech, session
        self.bill = Bill()
        self._policy, self._idle_s = policy, idle_s
        self._again, self._write = again, write
        self._usage = usage  # whether the client asked for a usage chunk
        self._wire = speech.wire
        self._frame: Frame | None = None  # the one that is out in part
        self._calls = 0
        self._begun = False  # whether the wire knows the beginning of the stream
        self._chars = 0  # of the call of now
        self._held = 0  # bytes of events that have not gone out
        self._total = 0
        self._loop = asyncio.get_running_loop()
        self._written = self._loop.time()

    async def run(self, answer: Answer) -> Answer:
        """From the first answer to the end of the stream: the last answer, which the caller closes.

        Errors are raised once all that was clean is sent.
        """
        self.session.start()
        while True:
            self._begin()
            try:
                await self._call(answer)
            except Told as told:
                await self._send([*self._failed(), told.event])
                return answer
            except BaseException as error:
                await answer.close()
                if isinstance(error, HeadgateError):
                    await self._send(self._failed())
                raise
            if not self.session.stalled:
                break
            self._severed()
            answer = await self._again(self.session.resume())
        await self._send(self._last())
        return answer

    def _severed(self) -> None:
        said = -(-self._chars // 4)
        self.bill.cut(self.speech.estimate(self._prompt(), said))

    def _begin(self) -> None:
        self._calls += 1
        self._wire.restart()
        self._chars = self._held = 0
        self.speech.ended = False

    def _prompt(self) -> int:
        return sum(
            estimate_tokens(str(message.get("content"))) for message in self.session.messages
        )

    async def _call(self, answer: Answer) -> None:
        """One call, to its end or its stall."""
        splitter = Splitter(self._policy.max_event_bytes)
        heard, session = self._loop.time(), self.session
        while not self._closed():
            data = await answer.read()
            if data:
                heard = self._loop.time()
                self._count(len(data))
                out = self._take(splitter.feed(data))
            elif data is None:
                if self._loop.time() - heard >= self._idle_s:
                    raise UpstreamTimeout(f"the upstream sent nothing for {self._idle_s:g} s")
                out = []
            else:
                out = self._over(splitter.end())
            if session.stalled:
                await answer.close()  # before anything else: each moment costs tokens
            elif session.holding:
                out += self._emit(session.tick())
            await self._send(out)

    def _closed(self) -> bool:
        """Whether nothing more is wanted of the call of now."""
        return self.session.stalled or self.session.done

    def _count(self, size: int) -> None:
        self._total += size
        if self._total > self._policy.max_stream_bytes:
            raise UpstreamError(
                f"the stream is longer than max_stream_bytes {self._policy.max_stream_bytes}",
                hint="raise proxy.max_stream_bytes",
            )

    async def _send(self, out: list[bytes]) -> None:
        """Write what there is; a comment where the client has waited for a while."""
        if out:
            await self._write(out[0] if len(out) == 1 else b"".join(out))
            self._written = self._loop.time()
        elif self._held and not self.session.stalled:
            await self._alive()

    async def _alive(self) -> None:
        now = self._loop.time()
        if now - self._written >= self.session.policy.keep_alive_s * 0.99:
            self._written = now
            await self._write(KEEP_ALIVE)

    # Events

    def _take(self, events: list[bytes]) -> list[bytes]:
        out: list[bytes] = []
        for event in events:
            data = payload(event)
            if not data:
                out.append(event)  # a comment need not wait for anything
            elif data == DONE:
                out += self._emit(self.session.end())
                if self._calls == 1:
                    out.append(event)
            else:
                out += self._read(event, parsed(data))
            if self._closed():
                break
        return out

    def _read(self, event: bytes, found: Event) -> Sequence[bytes]:
        """One event of the model. Plain content is not taken apart further: it passes as it is, or waits."""
        text = self.speech.plainly(found) if self._begun and self._calls == 1 else None
        if text is None:
            self._begun = True
            return self._feed(event, found)
        self._chars += len(text)
        piece = Piece(CONTENT, text, raw=(Frame(event, 1, own=True), found))
        ready = self.session.feed(piece)
        if len(ready) == 1 and ready[0] is piece and self._frame is None:
            return (event,)
        self._hold(event)
        return [*self._emit(ready), *(self._cut() if self._closed() else ())]

    def _feed(self, event: bytes, found: Event) -> list[bytes]:
        """One event of the model: the bytes that may go out now."""
        try:
            if self.speech.failed(found):
                raise Told(event)
            self.speech.note(found)
            self.bill.note(self.speech.usage(found))
            pieces = self._wire.read(found)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            start = event[:120].decode("utf-8", "replace").strip()
            raise UpstreamError(f"the stream holds an event of a strange shape: {start}") from error
        frame = Frame(event, len(pieces), own=self._calls == 1)
        self._hold(event)
        out: list[bytes] = []
        for piece in pieces:
            self._chars += len(piece)
            piece.raw = (frame, piece.raw)
            out += self._emit(self.session.feed(piece))
            if self._closed():
                out += self._cut()
                break
        return out

    def _hold(self, event: bytes) -> None:
        self._held += len(event)
        if self._held > self._policy.max_held_bytes:
            raise UpstreamError(
                f"more than max_held_bytes {self._policy.max_held_bytes} of the stream wait for a verdict",
                hint="raise proxy.max_held_bytes, or send x-headgate-guard: off",
            )

    def _emit(self, pieces: list[Piece]) -> list[bytes]:
        """Pieces that go out, as bytes: an event of the first call as it came, as soon as all of it may go."""
        out: list[bytes] = []
        for piece in pieces:
            frame: Frame | None = None
            if piece.raw is not None:
                frame, piece.raw = piece.raw
            made = self._wire.write(piece)
            if frame is None:  # half of a piece that was cut in two
                out += self._cut()
                out += [self._made(event) for event in made]
            else:
                out += self._piece(frame, made)
        return out

    def _piece(self, frame: Frame, made: Sequence[Event]) -> list[bytes]:
        """One more piece of an event goes out."""
        frame.left -= 1
        if not frame.left:
            self._held -= len(frame.data)
        if not frame.own:
            return [self._made(event) for event in made]
        if frame.left:
            frame.made += made
            self._frame = frame
            return []
        self._frame = None
        return [frame.data]

    def _cut(self) -> list[bytes]:
        """What is out of an event whose rest will not come."""
        frame, self._frame = self._frame, None
        return [self._made(event) for event in frame.made] if frame else []

    def _made(self, event: Event) -> bytes:
        """An event written anew; usage is that of all calls."""
        usage = self.speech.usage(event)
        if usage and self.bill:
            event = {**event, "usage": self.bill.summed(usage, self._split())}
        return self.speech.write(event)

    def _split(self) -> Mapping[str, Any]:
        report = self.session.report
        return {"rollbacks": report.rollbacks, "cut_chars": report.cut_chars}

    # Endings

    def _over(self, rest: bytes) -> list[bytes]:
        """The upstream closed: what is left, if the answer is complete."""
        out = self._take([rest]) if rest.strip() else []
        if self._closed():
            return out
        if not self.speech.ended:
            raise UpstreamError("the upstream ended the stream before the answer was complete")
        return out + self._emit(self.session.end())

    def _failed(self) -> list[bytes]:
        if self._closed():
            return []
        return [*self._emit(self.session.fail()), *self._cut()]

    def _last(self) -> list[bytes]:
        """The end of a stream that is no longer the upstream's own."""
        ended = self.session.report.ended
        if ended:
            self._severed()
            told = self._wire.finish(ended)
            counted = self.speech.counted(told[0]) if self._usage else ()
            return [*map(self._made, told), *map(self._made, counted), self.speech.done]
        return [self.speech.done] if self._calls > 1 else []
