"""LangChain: a retriever, a document compressor and a guarded chat model. Needs langchain-core.

    chain = create_retrieval_chain(MillgateRetriever(gate=gate), ...)

What the retriever gives has passed every stage, and fits the budget; the trace in each document's metadata tells why.
The compressor does for the documents of any other retriever what needs no store: repeats go, and the rest is
packed into the budget. The guarded model streams what its model streams, without loops.
The agent middleware is in langchain_agent.py, since it needs `langchain`.
"""

import json
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any

from pydantic import ConfigDict, Field

from millgate.errors import MissingExtra
from millgate.gateway import Millgate
from millgate.guard.channels import REASONING, TOOL, Piece
from millgate.guard.objects import GuardedObjects
from millgate.integrations.passages import places, sift
from millgate.text.tokens import estimate_tokens
from millgate.types import Sifted, WindowLike

try:
    from langchain_core.callbacks import (
        AsyncCallbackManagerForLLMRun,
        CallbackManagerForLLMRun,
        CallbackManagerForRetrieverRun,
        Callbacks,
    )
    from langchain_core.documents import BaseDocumentCompressor, Document
    from langchain_core.language_models import BaseChatModel
    from langchain_core.language_models.chat_models import (
        agenerate_from_stream,
        generate_from_stream,
    )
    from langchain_core.messages import (
        AIMessage,
        AIMessageChunk,
        BaseMessage,
        convert_to_messages,
    )
    from langchain_core.messages.tool import tool_call_chunk
    from langchain_core.outputs import ChatGenerationChunk, ChatResult
    from langchain_core.retrievers import BaseRetriever
    from langchain_core.runnables import Runnable
except ImportError as error:
    raise MissingExtra("langchain-core", extra="langchain") from error

# The inner model's callbacks would report the tokens before they are guarded; those of the outer one report them after.
QUIET: Any = {"callbacks": []}
_NO_OTHERS = ConfigDict(
    extra="forbid"
)  # LangChain's own classes drop a misspelt argument and say nothing


class MillgateRetriever(BaseRetriever):
    """The passages of a collection that answer a question, are new to the window and fit the budget."""

    model_config = _NO_OTHERS

    gate: Millgate
    budget: int = 1000
    k: int | None = None
    collection: str = "main"
    window: Callable[[], WindowLike] | None = None
    """What the model sees already, asked for with each question; nothing if it is not given."""

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        window = self.window() if self.window else None
        context = self.gate.context(
            query, window=window, budget=self.budget, k=self.k, collection=self.collection
        )
        return [
            Document(
                text, id=chunk.id,
                metadata={
                    **chunk.metadata, "id": chunk.id, "document": chunk.document, "title": chunk.title,
                    "source": source, "trace": context.trace.id,
                },
            )
            for chunk, text, source in zip(context.chunks, context.texts, context.sources, strict=True)
        ]  # fmt: skip


class MillgateCompressor(BaseDocumentCompressor):
    """Keeps what is new to the window and repeats no better document, as much of it as fits the budget."""

    model_config = _NO_OTHERS

    budget: int = 1000
    k: int | None = None
    window: Callable[[], WindowLike] | None = None
    count: Callable[[str], int] = estimate_tokens

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None
    ) -> Sequence[Document]:
        """The documents that stay, best first; each is the object that came."""
        return [documents[at] for at in places(self.sift(documents))]

    def sift(self, documents: Sequence[Document]) -> Sifted:
        """What stays and what goes, with the reasons; the id of a chunk is the place of its document."""
        return sift(
            [document.page_content for document in documents],
            budget=self.budget, k=self.k, count=self.count,
            window=self.window() if self.window else None,
        )  # fmt: skip


class GuardedChatModel(BaseChatModel):
    """A chat model without loops: a repetition is cut, and the model asked to go on in the same answer."""

    model_config = _NO_OTHERS

    model: Runnable[Any, BaseMessage]
    guard: dict[str, Any] = Field(default_factory=dict)
    """The arguments of Guard: detector, divergence, max_rollbacks, ..."""

    @property
    def _llm_type(self) -> str:
        return "millgate"

    @property
    def model_name(self) -> str:
        """The name of the model inside."""
        names = (getattr(self.model, name, "") for name in ("model_name", "model", "model_id"))
        return next((name for name in names if isinstance(name, str) and name), "")

    def bind_tools(self, tools: Sequence[Any], **options: Any) -> Runnable[Any, AIMessage]:
        """The model with tools, guarded."""
        bound = self.model.bind_tools(tools, **options)  # type: ignore[attr-defined]
        return GuardedChatModel(model=bound, guard=self.guard)

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **options: Any,
    ) -> Iterator[ChatGenerationChunk]:
        def generate(continuation: Sequence[Any]) -> Iterator[AIMessageChunk]:
            asked = [*messages, *convert_to_messages(continuation)]
            return map(_as_chunk, self.model.stream(asked, QUIET, stop=stop, **options))

        for chunk in self._guard(generate).iterate():
            yield ChatGenerationChunk(message=chunk)

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **options: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        async def generate(continuation: Sequence[Any]) -> AsyncIterator[AIMessageChunk]:
            asked = [*messages, *convert_to_messages(continuation)]
            async for message in self.model.astream(asked, QUIET, stop=stop, **options):
                yield _as_chunk(message)

        async for chunk in self._guard(generate).stream():
            yield ChatGenerationChunk(message=chunk)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **options: Any,
    ) -> ChatResult:
        return generate_from_stream(self._stream(messages, stop, **options))

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **options: Any,
    ) -> ChatResult:
        return await agenerate_from_stream(self._astream(messages, stop, **options))

    def _guard(self, generate: Callable[..., Any]) -> GuardedObjects[AIMessageChunk]:
        # providers disagree about what sampling they take, so words alone ask the model to go on
        arguments = {"model": self.model_name, **self.guard}
        return GuardedObjects(generate, read=_read, write=_with_text, **arguments)


def _as_chunk(message: BaseMessage) -> AIMessageChunk:
    """A chunk as it is; the message of a model that does not stream becomes its only chunk."""
    if isinstance(message, AIMessageChunk):
        return message
    fields = message.model_dump(exclude={"type"})
    calls = fields.pop("tool_calls", [])
    chunks = [
        tool_call_chunk(name=call["name"], args=json.dumps(call["args"]), id=call["id"], index=at)
        for at, call in enumerate(calls)
    ]
    return AIMessageChunk(**fields, tool_call_chunks=chunks)


def _read(chunk: AIMessageChunk) -> str | Piece | None:
    """The text of a message chunk, with its channel; None if it has no text."""
    if text := str(chunk.text):
        return text
    if calls := chunk.tool_call_chunks:
        return Piece(
            TOOL, "".join(c["args"] or "" for c in calls), call=(calls[0]["index"] or 0) + 1
        )
    thought = chunk.additional_kwargs.get("reasoning_content")
    return Piece(REASONING, thought) if isinstance(thought, str) and thought else None


def _with_text(chunk: AIMessageChunk, text: str) -> AIMessageChunk:
    if not chunk.text:
        return chunk.model_copy(update={"additional_kwargs": {"reasoning_content": text}})
    content: Any = text
    if isinstance(chunk.content, list):
        block = next(b for b in chunk.content if isinstance(b, dict) and b.get("type") == "text")
        content = [{**block, "text": text}]
    return chunk.model_copy(update={"content": content, "tool_call_chunks": [], "tool_calls": []})
