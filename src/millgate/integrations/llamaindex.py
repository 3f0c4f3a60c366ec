"""LlamaIndex: a retriever, a node postprocessor and a memory block. Needs llama-index-core.

    engine = RetrieverQueryEngine.from_args(MillgateRetriever(gate), llm=llm)
    memory = Memory.from_defaults(memory_blocks=[MillgateMemoryBlock(gate=gate)])

What the retriever gives has passed every stage and fits the budget. The postprocessor does for the nodes of any other
retriever what needs no store: repeats go, and the rest is packed. The memory block keeps turns that
leave the chat history, and recalls those that a question is about.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from pydantic import ConfigDict

from millgate.errors import MissingExtra
from millgate.gateway import Millgate
from millgate.integrations.blocks import Asking, Blocks
from millgate.integrations.passages import places, sift
from millgate.types import Sifted, WindowLike

try:
    from llama_index.core.base.base_retriever import BaseRetriever
    from llama_index.core.base.llms.types import ChatMessage, MessageRole
    from llama_index.core.callbacks import CallbackManager
    from llama_index.core.memory import BaseMemoryBlock
    from llama_index.core.postprocessor.types import BaseNodePostprocessor
    from llama_index.core.schema import MetadataMode, NodeWithScore, QueryBundle, TextNode
except ImportError as error:
    raise MissingExtra("llama-index-core", extra="llamaindex") from error

_NO_OTHERS = ConfigDict(
    extra="forbid"
)  # LlamaIndex's own classes drop a misspelt argument and say nothing


class MillgateRetriever(BaseRetriever):
    """The passages of a collection that answer a question, are new to the window and fit the budget."""

    def __init__(
        self,
        gate: Millgate,
        *,
        budget: int = 1000,
        k: int | None = None,
        collection: str | Sequence[str] = "main",
        window: Callable[[], WindowLike] | None = None,
        callback_manager: CallbackManager | None = None,
    ) -> None:
        super().__init__(callback_manager)
        self._gate, self._budget, self._k = gate, budget, k
        self._collection, self._window = collection, window

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        window = self._window() if self._window else None
        context = self._gate.context(
            query_bundle.query_str, window=window, budget=self._budget, k=self._k, collection=self._collection
        )  # fmt: skip
        found = []
        for chunk, text, source in zip(context.chunks, context.texts, context.sources, strict=True):
            ours = {"document": chunk.document, "source": source, "trace": context.trace.id}
            node = TextNode(
                id_=chunk.id, text=text,
                metadata={**chunk.metadata, "title": chunk.title, **ours},
                # what leads back to the trace is for programs, and not worth the model's tokens
                excluded_llm_metadata_keys=[*ours, *chunk.metadata],
                excluded_embed_metadata_keys=[*ours, *chunk.metadata],
            )  # fmt: skip
            candidate = context.trace.find(chunk.id)
            found.append(NodeWithScore(node=node, score=candidate.score if candidate else None))
        return found

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return await asyncio.to_thread(self._retrieve, query_bundle)


class MillgatePostprocessor(BaseNodePostprocessor):
    """Keeps what is new to the window and repeats no better node, as much of it as fits the budget.

    The budget is that of the nodes' texts; metadata that is shown to the model comes on top.
    """

    model_config = _NO_OTHERS

    budget: int = 1000
    k: int | None = None
    window: Callable[[], WindowLike] | None = None

    @classmethod
    def class_name(cls) -> str:
        """The name under which LlamaIndex serializes it."""
        return "MillgatePostprocessor"

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        return [nodes[at] for at in places(self.sift(nodes))]

    def sift(self, nodes: Sequence[NodeWithScore]) -> Sifted:
        """What stays and what goes, with the reasons; the id of a chunk is the place of its node."""
        return sift(
            [each.node.get_content(MetadataMode.NONE) for each in nodes],
            scores=[each.score for each in nodes],
            budget=self.budget, k=self.k, window=self.window() if self.window else None,
        )  # fmt: skip


class MillgateMemoryBlock(BaseMemoryBlock[str]):
    """Long-term memory: keeps the turns that leave the chat history, and recalls what a question is about."""

    model_config = _NO_OTHERS

    name: str = "millgate"
    gate: Millgate
    budget: int = 500
    collection: str | Sequence[str] = "turns"
    """Where to look; turns are kept in "turns"."""

    async def _aget(self, messages: list[ChatMessage] | None = None, **options: Any) -> str:
        seen = [message.content or "" for message in messages or ()]
        asked = [m.content for m in messages or () if m.role == MessageRole.USER and m.content]
        if not asked:
            return ""
        session = str(options.get("session_id") or "")
        blocks = Blocks(self.gate, Asking(self.budget, self.collection, session))
        return await blocks.afind(asked[-1], seen)

    async def _aput(self, messages: list[ChatMessage]) -> None:
        turns: dict[str, list[dict[str, str]]] = {}
        for message in messages:
            session = str(message.additional_kwargs.get("session_id") or "llamaindex")
            turn = {"role": message.role.value, "content": message.content or ""}
            turns.setdefault(session, []).append(turn)
        for session, said in turns.items():
            await self.gate.aadd_turns(session, [turn for turn in said if turn["content"]])
