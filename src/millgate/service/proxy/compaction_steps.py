"""Compaction steps: notice that a client compacted its window, keep what left, and put back what a turn needs.

Noticing only observes. What is put back follows the prefix law, by the way of `inject`: a block stands in front of a
person's words, is built once, and is found again under a hash of the conversation up to there. The first question after
a compaction gets the instructions and to-dos that are gone; later ones get what the pipeline finds for them in the
session's own collection. Questions before the compaction, and conversations that were never compacted, get nothing.

What the service cleared itself is told with its answer, and kept when the next request comes.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import orjson

from millgate.bugs import surviving
from millgate.compaction.account import account, account_service
from millgate.compaction.keep import MOST_PIECES, NOT_PUT_BACK, collection_of
from millgate.compaction.memory import Held, Noticed, Owed, WindowMemory
from millgate.compaction.notice import begins_with_summary, find_results, notice
from millgate.compaction.policy import CompactionPolicy, Mode
from millgate.compaction.window import Message, Window, read_window
from millgate.errors import MillgateError
from millgate.gateway.compactions import LostMessages
from millgate.guard.dialects.dialect import Dialect
from millgate.prompt_cache.segments import read_prompt
from millgate.prompt_cache.witness import Seen
from millgate.service.proxy.conversation_state import ConversationState
from millgate.service.proxy.exchange import Exchange, Observer, ProxyRequest
from millgate.service.proxy.inject import Block, block_of, inject
from millgate.service.proxy.session_name import UNNAMED
from millgate.service.proxy.transport import header
from millgate.text.bounded_json import HUGE, loads
from millgate.text.tokens import estimate_tokens
from millgate.types import Request

LARGE = 200_000  # bytes of a request that is compared in a thread
FEW = 8  # windows of other sessions that a new conversation is compared with


async def observe_compaction(
    exchange: Exchange, windows: WindowMemory, policy: CompactionPolicy
) -> None:
    """Compare the request with the last window of its conversation; `exchange.window` says what was found."""
    request, caller = exchange.original, exchange.caller
    mode = request.options.compaction or policy.mode_for(
        upstream=exchange.upstream_name, key=caller.key, session=exchange.call.session
    )
    if mode == "off" or len(request.body) > HUGE:
        return
    with surviving("the notice of a compaction"):
        if len(request.body) > LARGE:
            is_suspicious = await asyncio.to_thread(_compare, exchange, windows, mode)
        else:
            is_suspicious = _compare(exchange, windows, mode)
        if is_suspicious:
            await asyncio.to_thread(_notice, exchange, windows)
        told = exchange.window.told if exchange.window is not None else None
        if told is not None:
            exchange.call.compaction = told
            exchange.call.not_put_back = "" if mode == "inject" else f"compaction.mode is {mode}"
            exchange.reply_headers["x-millgate-compaction"] = told.describe()


def remember_window(exchange: Exchange, windows: WindowMemory) -> None:
    """Remember the request if the provider got it, and tell what the service cleared from it."""
    if exchange.window is not None and exchange.call.answered:
        with surviving("the memory of windows"):
            _remember(exchange, windows, exchange.window)


def _remember(exchange: Exchange, windows: WindowMemory, seen: Noticed) -> None:
    call = exchange.call
    # a window that was compacted has other results
    before = seen.last.cleared if seen.last and seen.found is None else None
    cleared = range(before.stop, before.stop) if before is not None else None
    told = account_service(exchange.dialect.applied_edits)
    if told is not None:
        start = before.stop if before is not None else 0
        cleared = range(start, max(start, told[1]))
        if call.compaction is None and (before is None or cleared):
            call.compaction = told[0]
    now = Seen(seen.prompt, seen.prompt, time.time())
    carried = seen.told.owed if seen.told else seen.last.carried if seen.last else ()
    held = Held(call.session, now, exchange.original.body, seen.turn + 1, seen.owed, carried, cleared)  # fmt: skip
    windows.remember(exchange.owner, held, seen.last)


def _compare(exchange: Exchange, windows: WindowMemory, mode: Mode) -> bool:
    """Find the window that the request goes on from; whether it is worth reading the texts of both."""
    exchange.window = _observe(exchange, windows, mode)
    return _is_suspicious(exchange, windows)


def _observe(exchange: Exchange, windows: WindowMemory, mode: Mode) -> Noticed:
    caller, session = exchange.owner, exchange.call.session
    newest = windows.newest(caller, session)
    betas = header(exchange.headers, b"anthropic-beta").decode("latin-1")
    before = newest.seen.original if newest else None
    prompt = read_prompt(exchange.original.fields, betas=betas, before=before)
    last = windows.last(caller, session, prompt)
    if last is None:
        return Noticed(prompt, mode)
    return Noticed(prompt, mode, last, turn=last.turn, owed=last.owed)


def _is_suspicious(exchange: Exchange, windows: WindowMemory) -> bool:
    """Whether it is worth reading the texts: messages are gone, or a new conversation begins with a summary."""
    seen, caller, session = exchange.window, exchange.owner, exchange.call.session
    if seen is None:
        return False
    if windows.newest(caller, session) is None:
        return bool(windows.elsewhere(caller, session)) and begins_with_summary(_read(exchange.original, exchange.dialect))  # fmt: skip
    body = exchange.original.body
    return bool(windows.find_shortened(caller, session, seen.prompt, body, seen.last))


def _notice(exchange: Exchange, windows: WindowMemory) -> None:
    seen, caller, session = exchange.window, exchange.owner, exchange.call.session
    assert seen is not None
    dialect, body = exchange.dialect, exchange.original.body
    is_known = windows.newest(caller, session) is not None
    shortened = windows.find_shortened(caller, session, seen.prompt, body, seen.last)
    candidates = shortened if is_known else windows.elsewhere(caller, session)[:FEW]
    after = _read(exchange.original, dialect)
    for held in candidates:
        before = _read_fields(held.body, dialect)
        found = notice(before, after, is_same_session=is_known) if before else None
        if found is not None:
            seen.last, seen.found, seen.turn = held, found, held.turn
            seen.told = account(found, after, turn=held.turn, carried=held.carried)
            seen.owed = Owed(seen.told, found.at)
            return


def _read(request: ProxyRequest, dialect: Dialect) -> Window:
    return read_window(request.messages, dialect.preamble(request.fields))


def _read_fields(body: bytes, dialect: Dialect) -> Window | None:
    """A window that was held; None if it is one of another API."""
    fields = loads(body)
    try:
        return read_window(dialect.conversation(fields), dialect.preamble(fields))
    except MillgateError:
        return None


# Put back


async def put_back(
    exchange: Exchange,
    conversations: ConversationState,
    observer: Observer | None,
    policy: CompactionPolicy,
) -> None:
    """Keep what left, and put back what is gone, if the settings or the request ask for it."""
    seen, gate = exchange.window, exchange.gate
    if seen is None or gate is None or seen.mode not in ("keep", "inject"):
        return
    try:
        with surviving("what a compaction lost", but=MillgateError):
            session, lost = await _find_session(exchange, seen, conversations), gate.lost_messages
            await _keep_lost(exchange, seen, lost, session)
            if seen.mode == "inject":
                await _PutBack(exchange, seen, lost, session, policy, observer).run(conversations)
    except MillgateError as error:
        exchange.reply_headers["x-millgate-degraded"] = f"compaction: {error.message}"


async def _keep_lost(exchange: Exchange, seen: Noticed, lost: LostMessages, session: str) -> None:
    """Keep what left the window since the last request, and what the service cleared when it answered that."""
    left: Sequence[Message] = seen.found.lost if seen.found is not None else ()
    if seen.last is not None and seen.last.cleared:
        left = [*left, *await asyncio.to_thread(_read_cleared, seen.last, exchange.dialect)]
    if left:
        await lost.akeep(left, session, key=exchange.caller.key)


def _read_cleared(held: Held, dialect: Dialect) -> list[Message]:
    """The results of tools that the service cleared from a window when it answered."""
    window, fields = _read_fields(held.body, dialect), loads(held.body)
    management = fields.get("context_management")
    edits = management.get("edits") if isinstance(management, Mapping) else None
    asked = edits if isinstance(edits, list) else ()
    given = (edit.get("exclude_tools") for edit in asked if isinstance(edit, Mapping))
    excluded = [name for names in given if isinstance(names, list) for name in names]
    assert held.cleared is not None
    return find_results(window, excluded)[held.cleared.start : held.cleared.stop] if window else []


async def _find_session(exchange: Exchange, seen: Noticed, conversations: ConversationState) -> str:
    """The session to which the window belongs.

    A client that gives no name has a session named by how its conversation begins, and begins another with its summary.
    What left is kept under the name of the first.
    """
    session = exchange.call.session
    if exchange.request.options.session or not session.startswith(UNNAMED):
        return session
    key = b"session:" + orjson.dumps([exchange.owner, session])
    if seen.last is not None and seen.last.session != session:
        earlier = b"session:" + orjson.dumps([exchange.owner, seen.last.session])
        first = await conversations.get(earlier) or seen.last.session.encode()
        return (await conversations.put(key, first)).decode()
    return (await conversations.get(key) or session.encode()).decode()


@dataclass(slots=True)
class _PutBack:
    """Puts a block in front of each question since a compaction: instructions for the first, what they need for all."""

    exchange: Exchange
    seen: Noticed
    lost: LostMessages
    session: str
    policy: CompactionPolicy
    observer: Observer | None
    is_first: bool = True

    async def run(self, conversations: ConversationState) -> None:
        exchange, caller = self.exchange, self.exchange.caller
        request, collection = exchange.request, collection_of(self.session, caller.key)
        options = replace(request.options, collection=collection, budget=self.policy.budget, k=MOST_PIECES, session=self.session)  # fmt: skip
        begin = self._find_place(request)
        changed, headers = await inject(
            replace(request, options=options),
            exchange.dialect,
            self.build,
            caller.tenant,
            conversations,
            asker=caller.key,
            begin=begin,
        )
        if begin is not None:
            self.seen.owed = None
        elif self.seen.owed is not None:
            exchange.call.not_put_back = "nobody has asked anything since the compaction"
        if headers:
            exchange.request = replace(changed, options=request.options)
            tokens = headers["x-millgate-context-tokens"]
            exchange.reply_headers["x-millgate-put-back-tokens"] = tokens
            exchange.call.put_back = int(tokens)
            exchange.call.not_put_back = headers.get("x-millgate-context-reason", "")

    def _find_place(self, request: ProxyRequest) -> int | None:
        """The message that gets the first block: the last in which a person speaks, at or behind the compaction."""
        if self.seen.owed is None:
            return None
        human_text = self.exchange.dialect.human_text
        places = range(len(request.messages) - 1, self.seen.owed.at - 1, -1)
        return next((at for at in places if human_text(request.messages[at]).strip()), None)

    async def build(self, question: Request) -> Block:
        """The block for a question that is new."""
        block = await self._compose(question)
        if block.text:
            self.exchange.call.new_blocks += (block.tokens,)
        return block

    async def _compose(self, question: Request) -> Block:
        owed, found, said = self.seen.owed, self.seen.found, ""
        if self.is_first and owed is not None:
            half = self.policy.budget // 2
            said = await self.lost.acompose_instructions(owed.told, budget=half)
        is_summary = self.is_first and found is not None and question.query.strip() in found.summary
        self.is_first = False
        if is_summary:  # it is no question
            reason = (
                "" if said else "no instruction and no to-do is gone, and nobody has asked anything"
            )
            return Block(said, tokens=estimate_tokens(said), reason=reason)
        left = self.policy.budget - estimate_tokens(said)
        context = await self.lost.acontext_for(replace(question, budget=left, graph=False))
        if self.observer is not None:
            self.observer.count_context(context)
        block = block_of(context)
        text = f"{said}\n{block.text}" if said and block.text else said or block.text
        reasons = (
            str(s.facts[NOT_PUT_BACK]) for s in context.trace.steps if NOT_PUT_BACK in s.facts
        )
        reason = "" if text else next(reasons, "")
        return replace(block, text=text, tokens=block.tokens + estimate_tokens(said), reason=reason)
