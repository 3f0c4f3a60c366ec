"""Blocks: the context of each question of a conversation, for frameworks that show Millgate the whole of it each time.

A question gets its block once. It is remembered by a hash of the conversation up to there, so that it stands in every
later request with the same bytes, and the provider's prompt cache holds, while the store may change.
A greeting and a reply such as "go on" get nothing, and a question that points back is read with the one before it.
A gate that fails costs the block and never the turn: the reason is logged as a warning.
"""

import hashlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from sys import getsizeof
from typing import Any

from millgate.calls.loop import async_version
from millgate.errors import InputError, MillgateError
from millgate.gateway import Millgate
from millgate.sessions.conversation import Conversation, Conversations
from millgate.text.cache import Cache
from millgate.text.fence import without_fences
from millgate.text.wanted import asks_nothing, is_reply, names_nothing
from millgate.transcript.parts import question_of, read, texts_of
from millgate.transcript.topic import Topic
from millgate.types import ContextBudget, Request, Window

LOGGER = logging.getLogger("millgate.integrations")
MAX_BYTES = 32_000_000  # of blocks that are remembered: some 6 000 of 1 000 tokens


@dataclass(frozen=True, slots=True)
class Asking:
    """How context is asked for: tokens a block may take, where to look, and for which conversation."""

    budget: int = 1000
    collection: str | Sequence[str] = "main"
    session: str = ""
    context_length: int = 0
    """Tokens of the model's window; 0 if it is not known."""
    remember: bool = False
    """Whether what a compaction of the conversation loses is kept, and put back when it is needed."""


@dataclass(slots=True)
class Blocks:
    """The blocks of the conversations that a process sees; the oldest are forgotten."""

    gate: Millgate
    asking: Asking = field(default_factory=Asking)
    _known: Cache[bytes, str] = field(
        default_factory=lambda: Cache(MAX_BYTES, lambda _, block: getsizeof(block))
    )
    _conversations: Conversations = field(default_factory=Conversations)

    def observe(
        self, messages: Sequence[Mapping[str, Any]], preamble: Sequence[str] = (), session: str = ""
    ) -> Conversation | None:
        """See a conversation before a call; None if nothing is to be remembered of it.

        Without a name of its own it belongs to the session that was given.
        """
        if not self.asking.remember:
            return None
        try:
            if not (name := session or self.asking.session):
                raise InputError("a session without a name is not remembered", hint="give session=")
            return self.gate.lost_messages.observe(self._conversations, name, messages, preamble)
        except MillgateError as error:
            self._fail(error)
            return None

    aobserve = async_version(observe)

    def put_back(self, seen: Conversation | None) -> str:
        """What a compaction amid a turn lost of instructions and to-dos, for the end of the window; "" for nothing."""
        if seen is None or seen.owed is None:
            return ""
        try:
            return self.gate.lost_messages.put_back(seen, Request("", budget=self.asking.budget))
        except MillgateError as error:
            return self._fail(error)

    def known_block(self, texts: Sequence[str]) -> str | None:
        """The block of the question that ends these texts, "" if it has none; None if it is new."""
        return self._known.get(_key(texts))

    def place(
        self, messages: Sequence[Mapping[str, Any]], preamble: Sequence[str] = ()
    ) -> "Placed":
        """The messages with the blocks that are known, and the question that still needs one, if there is any."""
        placed: list[Any] = []
        texts, new, topic = list(preamble), None, Topic()
        for message in messages:
            question, own = question_of(read(message)), texts_of(message)
            if question and not (texts and is_block(texts[-1])):
                seen = [*texts, *own]
                known, asked = self.known_block(seen), topic.read(question) or question
                new = None if known is not None else (len(placed), asked, seen)
                if known:
                    placed.append({"role": "user", "content": known})
                    texts.append(known)
            placed.append(message)
            texts += own
        return Placed(placed, *(new or (0, "", ())))

    def find(
        self,
        query: str,
        texts: Sequence[str],
        *,
        used_tokens: int = 0,
        seen: Conversation | None = None,
        wanted: bool = True,
    ) -> str:
        """The block for a question; `texts` is all that the model sees, the question last.

        With `seen`, the conversation, what a compaction took out of it stands first. A block that is not `wanted` is
        none, in later requests too.
        """
        key = _key(texts)
        if (known := self._known.get(key)) is not None:
            return known
        asking, length = self.asking, self.asking.context_length
        asked = Request(
            query, tenant=self.gate.tenant, window=Window.of(list(texts)), budget=asking.budget,
            collection=asking.collection, session=asking.session,
            context_budget=ContextBudget(length, used_tokens) if length else None,
        )  # fmt: skip
        is_first = not any(map(is_block, texts))
        nothing = asks_nothing(query) or names_nothing(query) or (is_reply(query) and not is_first)
        try:
            lost = self.gate.lost_messages.put_back(seen, asked) if seen else ""
            found = ""
            if wanted and not nothing:
                if lost:
                    left = max(1, asking.budget - self.gate.count_tokens(lost))
                    asked = replace(asked, budget=left, window=Window((*texts, lost)))
                made = self.gate.context_for(asked)
                found = made.text if made.is_worth_adding else ""
        except MillgateError as error:
            return self._fail(error)
        block = "\n".join(filter(None, (lost, found)))
        self._known.put(key, block)
        return block

    afind = async_version(find)

    def _fail(self, error: MillgateError) -> str:
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
        added = [{"role": "user", "content": block}] if block else []
        return [*self.messages[: self.at], *added, *self.messages[self.at :]]


def is_block(text: str) -> bool:
    """Whether a text is nothing but what Millgate injected."""
    return bool(text.strip()) and not without_fences(text).strip()


def _key(texts: Sequence[str]) -> bytes:
    digest = hashlib.blake2b(digest_size=20)
    for text in texts:
        digest.update(text.encode("utf-8", "surrogatepass") + b"\0")
    return digest.digest()
