"""Adapters: the guard around the streams of the OpenAI and Anthropic SDKs.

    async for chunk in chat(client, model="...", messages=[...]): ...

The client may be the SDK's sync or async one; what comes out are the SDK's own event objects, as one
unbroken stream. `guard` takes the knobs of Guard (divergence, max_rollbacks, ...); off with enabled=False.
"""

import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping, Sequence
from typing import Any

from headgate.guard.channels import Piece
from headgate.guard.dialects import Event, Wire
from headgate.guard.dialects.chat import ChatWire
from headgate.guard.dialects.messages import MessagesWire
from headgate.guard.dialects.responses import ResponsesWire
from headgate.guard.report import GuardReport, State
from headgate.guard.stream import Guard

Options = Mapping[str, Any]
Create = Callable[..., Any]


class Events:
    """A guarded SDK stream: iterate it as the client does (for or async for), close it, read its report."""

    def __init__(
        self,
        create: Create,
        wire: Wire,
        prompt: tuple[str, Any],
        *,
        options: Options | None,
        asked: Options,
        waits: bool,
    ) -> None:
        self._create, self._wire, self._asked = create, wire, asked
        self._name, self._messages = prompt
        knobs = dict(options or {})
        self._enabled = bool(knobs.pop("enabled", True))
        self._takes = inspect.signature(create).parameters  # SDKs drop parameters now and then
        self._kinds: dict[str, Any] = {}  # event type -> the SDK's class
        self._guard = Guard(self._pieces if waits else self._piece, **knobs)
        self._running: AsyncGenerator[Any] | Iterator[Any] | None = None

    @property
    def report(self) -> GuardReport:
        """What happened so far."""
        return self._guard.report

    def __aiter__(self) -> AsyncIterator[Any]:
        self._running = stream = self._run()
        return stream

    def __iter__(self) -> Iterator[Any]:
        self._running = stream = self._loop()
        return stream

    async def aclose(self) -> None:
        """The client goes away (async)."""
        if isinstance(self._running, AsyncGenerator):
            await self._running.aclose()

    def close(self) -> None:
        """The client goes away (sync)."""
        close = getattr(self._running, "close", None)
        if close is not None:
            close()

    def _settings(self) -> dict[str, Any]:
        wire, asked = self._wire, self._asked
        return {
            "enabled": self._enabled,
            "structured": wire.structured(asked),
            "max_tokens": wire.limit(asked),
        }

    async def _run(self) -> AsyncGenerator[Any]:
        async with self._guard.stream(self._messages, **self._settings()) as pieces:
            async for piece in pieces:
                for event in self._out(piece):
                    yield event
        for event in self._last():
            yield event

    def _loop(self) -> Iterator[Any]:
        for piece in self._guard.iterate(self._messages, **self._settings()):
            yield from self._out(piece)
        yield from self._last()

    def _request(
        self, messages: Sequence[Any], sampling: Mapping[str, float] | None
    ) -> dict[str, Any]:
        self._wire.restart()
        changed = self._wire.sampling(sampling or {}, self._asked)
        known = {name: value for name, value in changed.items() if name in self._takes}
        return {**self._asked, **known, self._name: messages, "stream": True}

    async def _pieces(
        self, messages: Sequence[Any], *, sampling: Mapping[str, float] | None = None
    ) -> AsyncGenerator[Piece]:
        stream = await self._create(**self._request(messages, sampling))
        return self._read(stream)

    async def _read(self, stream: Any) -> AsyncGenerator[Piece]:
        async with stream:
            async for event in stream:
                for piece in self._wire.read(self._plain(event)):
                    yield piece

    def _piece(
        self, messages: Sequence[Any], *, sampling: Mapping[str, float] | None = None
    ) -> Iterator[Piece]:
        with self._create(**self._request(messages, sampling)) as stream:
            for event in stream:
                yield from self._wire.read(self._plain(event))

    def _plain(self, event: Any) -> Event:
        plain: Event = event.to_dict(mode="python", use_api_names=True)
        self._kinds[str(plain.get("type", ""))] = type(event)
        return plain

    def _out(self, piece: Piece) -> Iterator[Any]:
        return map(self._built, self._wire.write(piece))

    def _last(self) -> Iterator[Any]:
        report = self.report
        if report.state is State.DONE and report.ended:
            yield from map(self._built, self._wire.finish(report.ended))

    def _built(self, event: Event) -> Any:
        kind = self._kinds.get(str(event.get("type", "")))
        return kind.construct(**event) if kind is not None else event


def chat(
    client: Any, *, messages: Sequence[Any], guard: Options | None = None, **asked: Any
) -> Events:
    """OpenAI chat completions: `client.chat.completions.create(..., stream=True)`, guarded."""
    return Events(
        client.chat.completions.create,
        ChatWire(),
        ("messages", messages),
        options=guard,
        asked=asked,
        waits=hasattr(client, "__aenter__"),
    )


def responses(client: Any, *, input: Any, guard: Options | None = None, **asked: Any) -> Events:
    """OpenAI responses: `client.responses.create(..., stream=True)`, guarded."""
    return Events(
        client.responses.create,
        ResponsesWire(),
        ("input", input),
        options=guard,
        asked=asked,
        waits=hasattr(client, "__aenter__"),
    )


def messages(
    client: Any, *, messages: Sequence[Any], guard: Options | None = None, **asked: Any
) -> Events:
    """Anthropic messages: `client.messages.create(..., stream=True)`, guarded."""
    return Events(
        client.messages.create,
        MessagesWire(),
        ("messages", messages),
        options=guard,
        asked=asked,
        waits=hasattr(client, "__aenter__"),
    )
