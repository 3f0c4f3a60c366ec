"""Inject: context for each question of a conversation, put into the request on its way to the model.

The prefix law: what is changed in message i depends only on the messages up to i. So each request of a conversation
begins with the very bytes of the one before it, and the provider's prompt cache holds, through tool calls, further
turns, restarts and several workers. A question is a human turn; its block stands in front of its words, in this and
every later request. It is built once, when the question is new, and remembered by a hash of the conversation up to
there: the store may change, the block does not.
"""

import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass

import orjson

from headgate.errors import HeadgateError, InputError
from headgate.guard.dialects.dialect import Dialect
from headgate.guard.resume import Message
from headgate.service.proxy.remembered import Remembered
from headgate.service.proxy.request import Options, ProxyRequest
from headgate.text.tokens import estimate_tokens
from headgate.types import Context, ContextBudget, Request, Window

Gate = Callable[[Request], Awaitable[Context]]

MAX_NEW = (
    32  # questions of one request that get a new block; older ones that are not known get none
)


@dataclass(frozen=True, slots=True)
class Block:
    """What was added for one question: nothing, where nothing was worth it or the gate failed."""

    text: str = ""
    trace: str = ""
    tokens: int = 0
    chunks: int = 0
    degraded: str = ""

    def headers(self) -> dict[str, str]:
        """What the reply says about it."""
        headers = {"x-headgate-context-tokens": str(self.tokens)}
        if self.trace:
            headers |= {
                "x-headgate-trace": self.trace,
                "x-headgate-context-chunks": str(self.chunks),
            }
        return headers | ({"x-headgate-degraded": self.degraded} if self.degraded else {})


async def inject(
    request: ProxyRequest,
    dialect: Dialect,
    gate: Gate,
    tenant: str,
    remembered: Remembered,
    *,
    asker: str = "",
) -> tuple[ProxyRequest, dict[str, str]]:
    """The request with a block for each of its questions, and the headers that tell of the last one."""
    messages, preamble = list(request.messages), dialect.preamble(request.fields)
    questions = [at for at, m in enumerate(messages) if dialect.human_text(m).strip()]
    earlier = request.fields.get(dialect.reference_field)  # what the upstream itself has stored
    keys = _keys(request, questions, (tenant, earlier, *preamble))
    known = [await remembered.get(key) for key in keys]
    unknown = [n for n, value in enumerate(known) if value is None]
    block = Block()
    for number, (at, key) in enumerate(zip(questions, keys, strict=True)):
        stored = known[number]
        if stored is None:
            new = Block()
            if number in unknown[-MAX_NEW:]:
                query = dialect.human_text(messages[at])
                window = _window(preamble, messages[: at + 1])
                asked = _context_request(request.options, query, window, tenant, asker)
                new = await _build(gate, asked)
            stored = await remembered.put(key, orjson.dumps(asdict(new)))
        block = Block(**orjson.loads(stored))
        if block.text:
            messages[at] = dialect.add_block(messages[at], block.text)
    headers = block.headers()
    if remembered.failure:
        headers["x-headgate-degraded"] = f"remembered: {remembered.failure}"
    # Always written anew: the same messages are the same bytes, whether or not this request brings a block.
    return request.with_messages(messages, dialect) if messages else request.with_fields(
        {}
    ), headers


async def _build(gate: Gate, request: Request) -> Block:
    """The block for a question. A gate that fails gives an empty one, which says why."""
    try:
        context = await gate(request)
    except InputError:
        raise
    except HeadgateError as error:
        return Block(degraded=f"context: {error.message}")
    return Block(
        context.text,
        context.trace.id,
        context.token_estimate,
        len(context.chunks),
        "; ".join(context.degraded),
    )


def _keys(request: ProxyRequest, questions: Sequence[int], before: Sequence[object]) -> list[bytes]:
    """For each question a hash of all that its block depends on: the options, and the conversation up to it."""
    options = request.options
    asked = (options.collection, options.budget, options.k, options.window, options.session)
    digest = hashlib.blake2b(orjson.dumps([asked, before]), digest_size=20)
    keys, wanted = [], set(questions)
    for at, message in enumerate(request.messages):
        digest.update(orjson.dumps(message))
        if at in wanted:
            keys.append(b"block:" + digest.digest())
    return keys


def _window(preamble: Sequence[str], messages: Sequence[Message]) -> Window:
    """What the model sees up to the question: earlier blocks and tool results included."""
    return Window.of([*(text for text in preamble if text), *map(_readable, messages)])


def _readable(message: Message) -> Mapping[str, object]:
    """A message with its text under `content`: the results of tools stand elsewhere in some APIs."""
    if message.get("content") is not None:
        return message
    output = message.get("output")
    return {"content": output} if isinstance(output, str | list) else {}


def _context_request(
    options: Options, query: str, window: Window, tenant: str, asker: str
) -> Request:
    room = None
    if options.window:
        used = sum(estimate_tokens(text) for text in window.texts)
        room = ContextBudget(context_length=options.window, used_tokens=used)
    return Request(
        query,
        budget=options.budget,
        tenant=tenant,
        collection=options.collection,
        window=window,
        k=options.k,
        context_budget=room,
        session=options.session,
        asker=asker,
    )
