"""The guard around any stream of objects: chunks, events, deltas of whatever framework.

    guarded = GuardedObjects(generate, read=lambda chunk: chunk.text, write=lambda chunk, text: replace(chunk,
    text=text)) async for chunk in guarded.stream(): ...

`generate(continuation, *, sampling=None)` opens a stream. The continuation is what stands behind the conversation:
nothing at first; after a cut, as chat messages, the answer so far and a short turn that asks to go on without
repeating. So the guard need not know how a framework words its messages. Objects are handed through as they are; only
if a cut falls inside one, `write` makes a copy with the text that stays.
"""

import inspect
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing, closing, nullcontext
from typing import Any, Generic, TypeVar

from millgate.guard.channels import EVENT, Piece, as_piece
from millgate.guard.report import GuardReport
from millgate.guard.resume import Message
from millgate.guard.stream import Guard, step_through

T = TypeVar("T")

Open = Callable[
    ..., Any
]  # (continuation, *, sampling=None) -> an iterator of T, async or not, or an awaitable of one
Read = Callable[[T], str | Piece | None]
Write = Callable[[T, str], T]


class GuardedObjects(Generic[T]):
    """A guarded stream of objects: `stream()` for async streams, `iterate()` for plain ones, then read the `report`.

    `read` gives the text of an object: a `str` is content, a `Piece` names another channel, None means no text.
    A `generate` that takes no `sampling` is asked to go on by words alone. `knobs` are those of Guard.
    """

    def __init__(self, generate: Open, *, read: Read[T], write: Write[T], **knobs: Any) -> None:
        self._generate, self._read, self._write = generate, read, write
        self._takes_sampling = "sampling" in inspect.signature(generate).parameters
        self._knobs = knobs if self._takes_sampling else {"sampling": (), **knobs}
        self._last: dict[str, T] = {}  # channel -> the last object on it, a pattern for a cut one
        self.report = GuardReport()

    def stream(self, *, structured: bool = False, max_tokens: int = 0) -> AsyncGenerator[T]:
        """The objects of an async stream, without loops. `structured` output is never spliced."""
        return self._run(
            Guard(self._open, **self._knobs), structured=structured, max_tokens=max_tokens
        )

    def iterate(self, *, structured: bool = False, max_tokens: int = 0) -> Iterator[T]:
        """The same for a plain iterator."""
        guard = Guard(self._open_plain, **self._knobs)
        return step_through(
            self._run(guard, structured=structured, max_tokens=max_tokens, plain=True)
        )

    async def _run(self, guard: Guard, **how: Any) -> AsyncGenerator[T]:
        async with guard.stream((), **how) as pieces:
            self.report = pieces.report
            async for piece in pieces:
                for made in self._as_object(piece):
                    yield made

    async def _open(
        self, messages: Sequence[Message], *, sampling: object = None
    ) -> AsyncGenerator[Piece]:
        opened = self._call(messages, sampling)
        return self._pieces(await opened if inspect.isawaitable(opened) else opened)

    async def _pieces(self, objects: AsyncIterable[T]) -> AsyncGenerator[Piece]:
        closes = hasattr(objects, "aclose")
        async with aclosing(objects) if closes else nullcontext():  # type: ignore[type-var]
            async for each in objects:
                yield self._as_piece(each)

    def _open_plain(
        self, messages: Sequence[Message], *, sampling: object = None
    ) -> Iterator[Piece]:
        objects: Iterable[T] = self._call(messages, sampling)
        with closing(objects) if hasattr(objects, "close") else nullcontext():  # type: ignore[type-var]
            yield from map(self._as_piece, objects)

    def _call(self, messages: Sequence[Message], sampling: object) -> Any:
        if self._takes_sampling:
            return self._generate(messages, sampling=sampling)
        return self._generate(messages)

    def _as_piece(self, each: T) -> Piece:
        text = self._read(each)
        if text is None or (not text and not isinstance(text, Piece)):
            return Piece(EVENT, raw=each)
        piece = as_piece(text)
        self._last[piece.channel] = each
        return Piece(piece.channel, piece, call=piece.call, raw=each)

    def _as_object(self, piece: Piece) -> Iterator[T]:
        if piece.raw is not None:
            yield piece.raw
        elif piece.text and piece.channel in self._last:
            yield self._write(self._last[piece.channel], piece.text)
