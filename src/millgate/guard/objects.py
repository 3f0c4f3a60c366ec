"""The guard around any stream of objects: chunks, events, deltas of whatever framework.

    guarded = GuardedObjects(generate, read=lambda chunk: chunk.text, write=lambda chunk, text: replace(chunk,
    text=text)) async for chunk in guarded.stream(): ...

`generate(continuation, *, sampling=None)` opens a stream. The continuation is what stands behind the conversation:
nothing at first; after a cut, as chat messages, the answer so far and a short turn that asks to go on without
repeating. So the guard need not know how a framework words its messages. Objects are handed through as they are; only
if a cut falls inside one, `write` makes a copy with the text that stays.
"""

from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from millgate.guard.channels import EVENT, Piece, as_piece
from millgate.guard.report import GuardReport
from millgate.guard.stream import Guard, step_through

T = TypeVar("T")

# (continuation, *, sampling=None) -> an iterator of T, async or not, or an awaitable of one
Open = Callable[..., Any]
Read = Callable[[T], str | Piece | None]
Write = Callable[[T, str], T]


class GuardedObjects(Generic[T]):
    """A guarded stream of objects: `stream()` for async streams, `iterate()` for plain ones, then read the `report`.

    `read` gives the text of an object: a `str` is content, a `Piece` names another channel, None means no text.
    A `generate` that takes no `sampling` is asked to go on by words alone. `knobs` are those of Guard.
    """

    def __init__(self, generate: Open, *, read: Read[T], write: Write[T], **knobs: Any) -> None:
        self._generate = generate
        self._read = read
        self._write = write
        self._knobs = knobs
        self._last: dict[str, T] = {}  # channel -> the last object on it, a pattern for a cut one
        self.report = GuardReport()

    def stream(self, *, structured: bool = False, max_tokens: int = 0) -> AsyncGenerator[T]:
        """The objects of an async stream, without loops. `structured` output is never spliced."""
        return self._run(structured=structured, max_tokens=max_tokens)

    def iterate(self, *, structured: bool = False, max_tokens: int = 0) -> Iterator[T]:
        """The same for a plain iterator."""
        return step_through(self._run(structured=structured, max_tokens=max_tokens, plain=True))

    async def _run(self, **how: Any) -> AsyncGenerator[T]:
        guard = Guard(self._generate, **self._knobs)
        guard.read = self._as_pieces
        async with guard.stream((), **how) as pieces:
            self.report = pieces.report
            async for piece in pieces:
                if piece.raw is not None:
                    yield piece.raw
                elif piece.text and piece.channel in self._last:
                    yield self._write(self._last[piece.channel], piece.text)

    def _as_pieces(self, each: T) -> Sequence[Piece]:
        text = self._read(each)
        if text is None or (not text and not isinstance(text, Piece)):
            return (Piece(EVENT, raw=each),)
        piece = as_piece(text)
        self._last[piece.channel] = each
        return (Piece(piece.channel, piece, call=piece.call, raw=each),)
