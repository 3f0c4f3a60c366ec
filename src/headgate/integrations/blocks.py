"""Blocks: the context of each question of a conversation, for frameworks that show Headgate the whole of it each time.

A question gets its block once. It is remembered by a hash of the conversation up to there, so that it stands in every
later request with the same bytes, and the provider's prompt cache holds, while the store may change.
A gate that fails costs the block and never the turn: the reason is logged as a warning.
"""

import hashlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from sys import getsizeof
from typing import Any

from headgate.errors import HeadgateError
from headgate.gateway import Headgate
from headgate.guard.dialects.turns import human_text
from headgate.text.cache import Cache
from headgate.text.fence import without_fences
from headgate.types import Context, ContextBudget, Request, Window

LOGGER = logging.getLogger("headgate.integrations")
MAX_BYTES = 32_000_000  # of blocks that are remembered: some 6 000 of 1 000 tokens


@dataclass(frozen=True, slots=True)
class Asking:
    """How context is asked for: tokens a block may take, where to look, and for which conversation."""

    budget: int = 1000
    collection: str | Sequence[str] = "main"
    session: str = ""
    context_length: int = 0
    """Tokens of the model's window; 0 if it is not known."""


@dataclass(slots=True)
class Blocks:
    """The blocks of the conversations that a process sees; the oldest are forgotten."""

    gate: Headgate
    asking: Asking = field(default_factory=Asking)
    _known: Cache[bytes, str] = field(
        default_factory=lambda: Cache(MAX_BYTES, lambda _, block: getsizeof(block))
    )

    def known_block(self, texts: Sequence[str]) -> str | None:
        """The block of the question that ends these texts, "" if it has none; None if it is new."""
        return self._known.get(_key(texts))

    def place(
        self, messages: Sequence[Mapping[str, Any]], preamble: Sequence[str] = ()
    ) -> "Placed":
        """The messages with the blocks that are known, and the question that still needs one, if there is any."""
        placed: list[Any] = []
        texts, new = list(preamble), None
        for message in messages:
            question, own = question_of(message), texts_of(message)
            if question and not (texts and is_block(texts[-1])):
                seen = [*texts, *own]
                known = self.known_block(seen)
                new = None if known is not None else (len(placed), question, seen)
                if known:
                    placed.append(as_message(known))
                    texts.append(known)
            placed.append(message)
            texts += own
        return Placed(placed, *(new or (0, "", ())))

    def find(self, query: str, texts: Sequence[str], *, used_tokens: int = 0) -> str:
        """The block for a question; `texts` is all that the model sees, the question last."""
        if (known := self.known_block(texts)) is not None:
            return known
        try:
            context = self.gate.context_for(self._request(query, texts, used_tokens))
        except HeadgateError as error:
            return self._fail(error)
        return self._keep(texts, context)

    async def afind(self, query: str, texts: Sequence[str], *, used_tokens: int = 0) -> str:
        """The same in an event loop."""
        if (known := self.known_block(texts)) is not None:
            return known
        try:
            context = await self.gate.acontext_for(self._request(query, texts, used_tokens))
        except HeadgateError as error:
            return self._fail(error)
        return self._keep(texts, context)

    def _request(self, query: str, texts: Sequence[str], used_tokens: int) -> Request:
        asking = self.asking
        window = (
            ContextBudget(asking.context_length, used_tokens) if asking.context_length else None
        )
        return Request(
            query, tenant=self.gate.tenant, window=Window.of(list(texts)), budget=asking.budget,
            collection=asking.collection, session=asking.session, context_budget=window,
        )  # fmt: skip

    def _keep(self, texts: Sequence[str], context: Context) -> str:
        self._known.put(_key(texts), context.text)
        return context.text

    def _fail(self, error: HeadgateError) -> str:
        LOGGER.warning("no context was added: %s", error)
        return ""


@dataclass(frozen=True, slots=True)
class Placed:
    """Chat messages with their blocks: the last question has none yet if `question` is not empty.

    `at` is the place in front of it, `texts` all that the model sees up to it.
    """

    messages: list[Any]
    at: int
    question: str
    texts: Sequence[str]

    def with_block(self, block: str) -> list[Any]:
        """The messages, with this block in front of the last question; none if it is empty."""
        added = [as_message(block)] if block else []
        return [*self.messages[: self.at], *added, *self.messages[self.at :]]


def as_message(block: str) -> dict[str, str]:
    """A block as a message of its own."""
    return {"role": "user", "content": block}


def question_of(message: Mapping[str, Any]) -> str:
    """What a person asks in a chat message; nothing for answers, calls, results and blocks of ours."""
    text = human_text(message).strip()
    return "" if is_block(text) else text


def texts_of(message: Mapping[str, Any]) -> list[str]:
    """The texts of a chat message that the model sees, results of tools included."""
    content = message.get("content") or message.get("output") or ""
    return list(Window.of([{"content": content}]).texts)


def is_block(text: str) -> bool:
    """Whether a text is nothing but what Headgate injected."""
    return bool(text.strip()) and not without_fences(text).strip()


def _key(texts: Sequence[str]) -> bytes:
    digest = hashlib.blake2b(digest_size=20)
    for text in texts:
        digest.update(text.encode("utf-8", "surrogatepass") + b"\0")
    return digest.digest()
