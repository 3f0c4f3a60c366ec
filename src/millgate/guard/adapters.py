"""Adapters: the guard around the streams of the OpenAI and Anthropic SDKs.

    async for chunk in chat(client, model="...", messages=[...]): ...

The client may be the SDK's sync or async one; what comes out are the SDK's own event objects, as one unbroken stream.
`guard` takes the knobs of Guard (divergence, max_rollbacks, ...); off with enabled=False. An agent that repeats its
tool calls is told so by notes in its results, and ended with LoopError; `guard={"circles": {"rungs": {}}}` is off.
"""

import inspect
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Callable,
    Generator,
    Iterator,
    Mapping,
    Sequence,
)
from operator import attrgetter
from typing import Any

from millgate.circles.policy import CirclesPolicy
from millgate.circles.steps import annotate, ending, find_steps
from millgate.errors import InputError, LoopError
from millgate.guard.channels import Piece
from millgate.guard.dialects.chat import ChatDialect, CompletionsDialect
from millgate.guard.dialects.dialect import Dialect, Event
from millgate.guard.dialects.messages import MessagesDialect
from millgate.guard.dialects.responses import ResponsesDialect
from millgate.guard.policy import SAMPLING
from millgate.guard.report import GuardReport, State
from millgate.guard.resume import conversation
from millgate.guard.stream import Guard, step_through

Options = Mapping[str, Any]
Create = Callable[..., Any]


class GuardedEvents:
    """A guarded SDK stream: iterate it as the client does (for or async for), close it, read its report."""

    def __init__(
        self,
        create: Create,
        dialect: Dialect,
        fields: Options,
        *,
        options: Options | None,
        is_async: bool,
    ) -> None:
        name = dialect.messages_field
        given = fields.get(name)
        if given is not None and not (isinstance(given, str) and name == "input"):
            fields = {**fields, name: list(conversation(given))}
        self._create, self._dialect, self._fields = create, dialect, fields
        self._parameters = inspect.signature(create).parameters  # SDKs drop some now and then
        self._classes: dict[str, Any] = {}  # event type -> the SDK's class
        knobs = {"resume": dialect.resume, "model": str(fields.get("model", "")), **(options or {})}
        self._circles = CirclesPolicy.model_validate(knobs.pop("circles", {}))
        self._enabled = bool(knobs.pop("enabled", True)) and not dialect.why_unwatched(fields)
        if not self._sampling_overrides(SAMPLING[0]):
            knobs.setdefault("sampling", ())
        self._guard = Guard(self._open, **knobs)
        self._guard.read = self._read
        self._is_async = is_async
        self._running: AsyncGenerator[Any] | Iterator[Any] | None = None

    @property
    def report(self) -> GuardReport:
        """What happened so far."""
        return self._guard.report

    def __aiter__(self) -> AsyncIterator[Any]:
        self._running = stream = self._run()
        return stream

    def __iter__(self) -> Iterator[Any]:
        self._running = stream = step_through(self._run())
        return stream

    async def aclose(self) -> None:
        """The client goes away (async)."""
        if isinstance(self._running, AsyncGenerator):
            await self._running.aclose()

    def close(self) -> None:
        """The client goes away (sync)."""
        if isinstance(self._running, Generator):
            self._running.close()

    async def _run(self) -> AsyncGenerator[Any]:
        messages = self._note_circles(self._dialect.conversation(self._fields))
        stream = self._guard.stream(
            messages,
            enabled=self._enabled,
            structured=self._dialect.is_structured(self._fields),
            max_tokens=self._dialect.token_limit(self._fields),
            plain=not self._is_async,
        )
        async with stream as pieces:
            async for piece in pieces:
                for event in self._dialect.write(piece):
                    yield self._as_sdk_event(event)
        report = self.report
        if report.state is State.DONE and report.ended:
            for event in self._dialect.finish(report.ended):
                yield self._as_sdk_event(event)

    def _note_circles(self, messages: Sequence[Any]) -> Sequence[Any]:
        """The messages with the notes about circles; LoopError, with what to say, if the turn is to end."""
        found = find_steps(messages, self._circles)
        if found.ended is not None:
            raise LoopError(
                found.ended.describe(),
                text=ending(found.ended),
                hint="show its text and let a person answer",
            )
        if found.marks:
            messages = annotate(messages, found.marks)
            self._fields = {**self._fields, **self._dialect.replace_conversation(messages)}
        return messages

    def _sampling_overrides(self, sampling: Mapping[str, float]) -> dict[str, float]:
        overrides = self._dialect.sampling_overrides(sampling, self._fields)
        return {name: value for name, value in overrides.items() if name in self._parameters}

    def _open(
        self, messages: Sequence[Any], *, sampling: Mapping[str, float] | None = None
    ) -> Any:  # the SDK's stream, or an awaitable of it
        self._dialect.restart()
        # The first call is the request as it was given.
        asked = self._dialect.replace_conversation(messages) if self.report.rollbacks else {}
        overrides = self._sampling_overrides(sampling or {})
        return self._create(**{**self._fields, **overrides, **asked, "stream": True})

    def _read(self, event: Any) -> Sequence[Piece]:  # an SDK's
        plain: Event = event.to_dict(mode="python", use_api_names=True)
        self._classes[str(plain.get("type", ""))] = type(event)
        return self._dialect.read(plain)

    def _as_sdk_event(self, event: Event) -> Any:
        kind = self._classes.get(str(event.get("type", "")))
        return kind.construct(**event) if kind is not None else event


def chat(client: Any, *, guard: Options | None = None, **fields: Any) -> GuardedEvents:
    """OpenAI chat completions: `client.chat.completions.create(..., stream=True)`, guarded."""
    return _guard_stream(client, "chat.completions", ChatDialect(), fields, guard)


def completions(client: Any, *, guard: Options | None = None, **fields: Any) -> GuardedEvents:
    """OpenAI completions: `client.completions.create(..., stream=True)`, guarded."""
    return _guard_stream(client, "completions", CompletionsDialect(), fields, guard)


def responses(client: Any, *, guard: Options | None = None, **fields: Any) -> GuardedEvents:
    """OpenAI responses: `client.responses.create(..., stream=True)`, guarded."""
    return _guard_stream(client, "responses", ResponsesDialect(), fields, guard)


def messages(client: Any, *, guard: Options | None = None, **fields: Any) -> GuardedEvents:
    """Anthropic messages: `client.messages.create(..., stream=True)`, guarded."""
    return _guard_stream(client, "messages", MessagesDialect(), fields, guard)


def _guard_stream(
    client: Any, resource: str, dialect: Dialect, fields: Options, options: Options | None
) -> GuardedEvents:
    try:
        create = attrgetter(f"{resource}.create")(client)
    except AttributeError as error:
        raise InputError(
            f"the client is {type(client).__name__}, and has no {resource}.create",
            hint="give the client of an SDK, such as openai.OpenAI()",
        ) from error
    is_async = hasattr(client, "__aenter__")
    return GuardedEvents(create, dialect, fields, options=options, is_async=is_async)
