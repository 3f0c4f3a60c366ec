"""OpenAI Agents SDK: an input filter that adds context, a session that remembers turns, a guarded model. Needs
openai-agents.

    config = RunConfig(call_model_input_filter=add_context(gate))
    agent = Agent("helper", model=GuardedModel(OpenAIResponsesModel("...", client)))
    session = RecallingSession(SQLiteSession("monday"), gate, recent=40)

The block of a question stands in front of it in every later call, with the same bytes. The session gives the model the
latest items alone; with `add_context(gate, collection=("main", "turns"))` what is older comes back when a question is
about it.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

from millgate.errors import MissingExtra, UpstreamError
from millgate.gateway import Millgate
from millgate.guard.adapters import GuardedEvents
from millgate.guard.dialects.responses import END, ResponsesDialect
from millgate.integrations.blocks import Asking, Blocks
from millgate.sessions.folding.folder import fold as fold_messages
from millgate.transcript.parts import question_of, read, texts_of

try:
    from agents import Model, ModelResponse, ModelSettings, Usage
    from agents.memory import Session
    from agents.run import CallModelData, ModelInputData
except ImportError as error:
    raise MissingExtra("openai-agents", extra="openai-agents") from error

TURNS = "turns"
InputFilter = Callable[[CallModelData[Any]], Awaitable[ModelInputData]]


def add_context(
    gate: Millgate,
    *,
    budget: int = 1000,
    collection: str | Sequence[str] = "main",
    session: str = "",
    context_length: int = 0,
    remember: bool = False,
) -> InputFilter:
    """A `call_model_input_filter` that puts context in front of each question.

    With `context_length`, the tokens of the model's window, less is added as the window fills, and nothing when it is
    full. With `remember` what a compaction of the conversation loses is kept and put back; it is known by `session`.
    """
    blocks = Blocks(gate, Asking(budget, collection, session, context_length, remember))

    async def add(data: CallModelData[Any]) -> ModelInputData:
        given = data.model_data
        preamble = [given.instructions] if given.instructions else []
        seen = await blocks.aobserve(given.input, preamble)
        placed = blocks.place(given.input, preamble)
        block = ""
        if placed.question:
            used = sum(map(gate.count_tokens, placed.texts)) if context_length else 0
            block = await blocks.afind(placed.question, placed.texts, used_tokens=used, seen=seen)
        return ModelInputData(input=placed.with_block(block), instructions=given.instructions)

    return add


def fold_input(first: InputFilter | None = None) -> InputFilter:
    """A `call_model_input_filter` that folds tool results which already stand in the window into pointers to it.

    Another filter may come first: `fold_input(add_context(gate))`.
    """

    async def fold(data: CallModelData[Any]) -> ModelInputData:
        given = data.model_data if first is None else await first(data)
        sent, _ = fold_messages(given.input)
        return ModelInputData(input=sent, instructions=given.instructions)

    return fold


class RecallingSession:
    """A session that gives the model its latest items, and keeps what was said as turns that can be recalled."""

    def __init__(self, session: Session, gate: Millgate, *, recent: int | None = None) -> None:
        self.session_id = session.session_id
        self.session_settings = getattr(session, "session_settings", None)
        self._session, self._gate, self._recent = session, gate, recent

    async def get_items(self, limit: int | None = None) -> list[Any]:
        """The latest items, from a message of a person on, so that no tool result stands without its call."""
        most = limit or self._recent
        items: list[Any] = await self._session.get_items(most)
        if most is None or len(items) < most:
            return items
        first = next((n for n, item in enumerate(items) if question_of(read(item))), 0)
        return items[first:]

    async def add_items(self, items: list[Any]) -> None:
        """Keep the items in the session, and what was said in the collection "turns"."""
        await self._session.add_items(items)
        turns = [
            {"role": item["role"], "content": "\n".join(texts)}
            for item in items
            if item.get("role") in ("user", "assistant") and (texts := texts_of(item))
        ]
        await self._gate.aadd_turns(self.session_id, turns, collection=TURNS)

    async def pop_item(self) -> Any:
        """Take the last item off the session; its turn stays recallable."""
        return await self._session.pop_item()

    async def clear_session(self) -> None:
        """Forget the items and the turns."""
        await self._session.clear_session()
        await asyncio.to_thread(self._forget_turns)

    def _forget_turns(self) -> None:
        kept = self._gate.store.scan(self._gate.tenant, TURNS)
        own = [c.document for c in kept if c.metadata.get("session") == self.session_id]
        self._gate.remove(collection=TURNS, documents=own)


class GuardedModel(Model):
    """A model without loops: a repetition is cut, and the model asked to go on in the same answer.

    `guard` has the arguments of Guard, and `circles` those of CirclesPolicy: an agent that repeats its calls is told so
    in their results, and ended with LoopError.
    """

    def __init__(self, model: Model, *, guard: Mapping[str, Any] | None = None) -> None:
        self._model, self._guard = model, guard

    def stream_response(
        self,
        system_instructions: str | None,
        input: str | list[Any],
        model_settings: ModelSettings,
        *others: Any,
        **named: Any,
    ) -> AsyncIterator[Any]:
        """The events of the model, as one unbroken stream."""

        async def create(*, temperature: float | None = None, **request: Any) -> _Events:
            settings = replace(model_settings, temperature=temperature)
            asked = (system_instructions, request["input"], settings, *others)
            return _Events(self._model.stream_response(*asked, **named))

        fields = _fields(input, model_settings, others, named)
        guarded = GuardedEvents(
            create, ResponsesDialect(), fields, options=self._guard, is_async=True
        )
        return aiter(guarded)

    async def get_response(
        self,
        system_instructions: str | None,
        input: str | list[Any],
        model_settings: ModelSettings,
        *others: Any,
        **named: Any,
    ) -> ModelResponse:
        """The whole response; it is streamed behind the scenes, so that a loop is cut when it begins."""
        events = self.stream_response(system_instructions, input, model_settings, *others, **named)
        response = None
        async for event in events:
            if event.type in END:
                response = event.response
        if response is None:
            raise UpstreamError("the model's stream ended without a response")
        return ModelResponse(
            output=response.output, usage=_usage(response.usage), response_id=response.id
        )

    async def close(self) -> None:
        """Close the model inside."""
        await self._model.close()

    def get_retry_advice(self, request: Any) -> Any:
        """What the model inside advises."""
        return self._model.get_retry_advice(request)


class _Events:
    """A stream of events in the form of the SDK's: an async context manager that closes it."""

    def __init__(self, events: AsyncIterator[Any]) -> None:
        self._events = events

    def __aiter__(self) -> AsyncIterator[Any]:
        return self._events

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if hasattr(self._events, "aclose"):
            await self._events.aclose()


def _fields(
    input: Any, settings: ModelSettings, others: Sequence[Any], named: Mapping[str, Any]
) -> dict[str, Any]:
    """The call as a request of the Responses API, which is how the guard reads it."""
    schema = named.get("output_schema", others[1] if len(others) > 1 else None)
    structured = schema is not None and not schema.is_plain_text()
    return {
        "input": input,
        "temperature": settings.temperature,
        "max_output_tokens": settings.max_tokens,
        "conversation": named.get("conversation_id"),
        "text": {"format": {"type": "json_schema"}} if structured else None,
    }


def _usage(usage: Any) -> Usage:
    if usage is None:
        return Usage(requests=1)
    return Usage(
        requests=1,
        input_tokens=usage.input_tokens, output_tokens=usage.output_tokens,
        total_tokens=usage.total_tokens, input_tokens_details=usage.input_tokens_details,
        output_tokens_details=usage.output_tokens_details,
    )  # fmt: skip
