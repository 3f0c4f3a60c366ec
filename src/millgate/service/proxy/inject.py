"""Inject: context for each question of a conversation, put into the request on its way to the model.

The prefix law: what is changed in message i depends only on the messages up to i. So each request of a conversation
begins with the very bytes of the one before it, and the provider's prompt cache holds, through tool calls, further
turns, restarts and several workers. A question is a human turn; its block stands in front of its words, in this and
every later request. The block is built once, when the question is new, and kept under a hash of the conversation up
to there: the store may change, the block does not.

A greeting gets no block. "Continue", "fix it" and "yes" are replies, which name nothing: they get what the question
before them missed, if its context could not be built. A question that points back ("and its filter part?") is looked up
with the words of the question before it.
"""

from bisect import bisect_left
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

import orjson

from millgate.errors import InputError, LimitError, MillgateError
from millgate.guard.dialects.dialect import Dialect
from millgate.guard.resume import Message
from millgate.service.conversation_state import ConversationState
from millgate.service.edge.body import read_apart
from millgate.service.proxy.request import Options, ProxyRequest
from millgate.sessions.compaction.window import first_visible
from millgate.text.tokens import estimate_tokens
from millgate.transcript.digests import digest
from millgate.transcript.parts import Part, question_of, read_all, texts_of
from millgate.transcript.topic import Topic
from millgate.types import Context, ContextBudget, Request, Window

BuildContext = Callable[[Request], Awaitable["Context | Block"]]
Blocks = Mapping[int, str]
"""What stands in front of a person's words, by the place of the message."""

# questions of one request that get a new block; older ones get none, nor do those before one that is known
MAX_NEW = 32
# characters of a question that are looked up and that its trace keeps: as many as limits.query_chars allows by default
MAX_QUERY = 100_000
_ASKS_NOTHING = "the message asks for nothing that could be looked up"
_NOBODY_ASKS = "no message is a person's"


@dataclass(frozen=True, slots=True)
class Block:
    """What is added for one question: nothing if no chunk was worth it, or if the context could not be built."""

    text: str = ""
    trace: str = ""
    tokens: int = 0
    chunks: int = 0
    degraded: str = ""
    reason: str = ""
    """Why it is empty, if that is known."""

    @property
    def was_missed(self) -> bool:
        """Whether its context could not be built. It is tried again with the next message that is new."""
        return bool(self.degraded) and not self.text

    def headers(self) -> dict[str, str]:
        """What the reply says about it."""
        headers = {"x-millgate-context-tokens": str(self.tokens)}
        if self.trace:
            headers |= {
                "x-millgate-trace": self.trace,
                "x-millgate-context-chunks": str(self.chunks),
            }
        if self.reason:
            headers["x-millgate-context-reason"] = self.reason
        return headers | ({"x-millgate-degraded": self.degraded} if self.degraded else {})


_EMPTY = Block()


async def find_blocks(
    request: ProxyRequest,
    dialect: Dialect,
    build: BuildContext,
    tenant: str,
    conversations: ConversationState,
    *,
    asker: str = "",
    begin: int | None = 0,
    summaries: bool = False,
    shown: Blocks = {},  # noqa: B006  (never changed)
) -> tuple[Blocks | None, Block]:
    """The texts in front of the questions of a request, and the block of the last one.

    `begin` is the first message that may get a new block. With None, only a conversation that has a block gets more,
    and one that has none gets None. With `summaries`, what stands for a compacted window counts as a question too.
    `shown` are other blocks that the model sees.
    """
    messages, preamble = list(request.messages), dialect.preamble(request.fields)
    options, earlier = request.options, request.fields.get(dialect.reference_field)
    wanted = (options.collection, options.budget, options.k, options.window, options.session)
    before = orjson.dumps([tenant, asker, wanted, earlier])  # `earlier` is stored at the upstream
    asked, keys = await read_apart(
        request.body, _read_questions, request, before, summaries=summaries
    )
    questions = list(asked)  # their positions
    kept = await conversations.get_all(keys)
    if begin is None and not kept:
        return None, _EMPTY
    known = _read_blocks(kept, keys[-1] if questions[-1:] == [len(messages) - 1] else b"")
    for at, shown_there in shown.items():
        messages[at] = dialect.add_block(messages[at], shown_there)
    first_new = max((n + 1 for n, key in enumerate(keys) if key in known), default=0)
    first_new = max(first_new, len(keys) - MAX_NEW, bisect_left(questions, begin or 0))
    blocks: dict[int, str] = {}
    block, topic = Block(reason=_NOBODY_ASKS), Topic()
    said, begins = [text for text in preamble if text], first_visible(messages)
    for number, (at, key) in enumerate(zip(questions, keys, strict=True)):
        query, is_new = topic.read(asked[at]), number >= first_new
        query = query or (asked[at] if summaries and at == begin else "")
        if is_new or (begin and at < begin and key not in known):
            known[key] = Block(reason=_ASKS_NOTHING)
            if is_new and query:
                # earlier blocks and tool results included; of the question the words, without its block
                shows = await read_apart(
                    request.body, _texts_of_all, messages[min(begins, at) : at + 1]
                )
                about = _context_request(options, query, (*said, *shows), tenant, asker)
                known[key] = await _build_block(build, about)
            made = orjson.dumps(asdict(known[key]))
            first = await conversations.put(key, made, replace=key in kept)
            known[key] = Block(**orjson.loads(first))
        block = known.get(key, _EMPTY)
        topic.was_missed = block.was_missed if query else topic.was_missed
        if block.text:
            blocks[at] = block.text
            messages[at] = dialect.add_block(messages[at], block.text)
    if conversations.failure:
        block = replace(block, degraded=f"remembered: {conversations.failure}")
    return blocks, block


def _read_blocks(kept: Mapping[bytes, bytes], last: bytes) -> dict[bytes, Block]:
    """The blocks that are known. One that was missed is unknown in the last message: no prefix is changed there."""
    known = {key: Block(**orjson.loads(block)) for key, block in kept.items()}
    return {key: block for key, block in known.items() if key != last or not block.was_missed}


async def _build_block(build: BuildContext, request: Request) -> Block:
    """The block for a question; an empty one that says why if the context cannot be built.

    Only what the headers of the call say wrongly is refused: a long conversation is no reason to refuse a model call.
    """
    try:
        made = await build(request)
    except MillgateError as error:
        if isinstance(error, InputError) and not isinstance(error, LimitError):
            raise
        return Block(degraded=f"context: {error.message}")
    return made if isinstance(made, Block) else block_of(made)


def block_of(context: Context) -> Block:
    """The block that a context is; an empty one if nothing in it is likely enough to be added unasked."""
    if reason := context.reason_not_to_add:
        return Block(trace=context.trace.id, degraded="; ".join(context.degraded), reason=reason)
    return Block(
        context.text,
        context.trace.id,
        context.token_estimate,
        len(context.chunks),
        "; ".join(context.degraded),
    )


def _read_questions(
    request: ProxyRequest, before: bytes, *, summaries: bool
) -> tuple[dict[int, str], list[bytes]]:
    """What a person asks, by the place of the message, and for each the key of its block.

    The key is a digest of `before`, that is who asks for what, and of the conversation up to there. A message has the
    same digest however a client marks or spells it, so a block that was put in stays.
    """
    asked: dict[int, str] = {}
    keys: list[bytes] = []
    key = before
    for at, parts in enumerate(read_all(request.messages)):
        key = digest(parts, key)
        if question := read_question(parts, summaries=summaries):
            asked[at] = question
            keys.append(b"block:" + key)
    return asked, keys


def read_question(parts: Sequence[Part], *, summaries: bool = False) -> str:
    """What a person asks in a message, or the summary that stands there."""
    told = (part.text for part in parts if part.kind == "summary") if summaries else ()
    return question_of(parts) or "\n".join(told)


def _texts_of_all(messages: Sequence[Message]) -> list[str]:
    return [text for message in messages for text in texts_of(message)]


def _context_request(
    options: Options, query: str, shown: Sequence[str], tenant: str, asker: str
) -> Request:
    """The request for the context of a question, beside all that the model sees up to there."""
    budget = None
    if options.window:
        used = sum(map(estimate_tokens, shown))
        budget = ContextBudget(context_length=options.window, used_tokens=used)
    return Request(
        query[:MAX_QUERY],
        budget=options.budget,
        tenant=tenant,
        collection=options.collection,
        window=Window(tuple(shown)),
        k=options.k,
        context_budget=budget,
        session=options.session,
        asker=asker,
    )
