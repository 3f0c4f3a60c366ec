"""Compaction steps: notice that a client compacted its window, keep what left, and put back what a turn needs.

Noticing only observes. What is put back follows the prefix law, by the way of `inject`: a block stands in front of a
person's words, is built once, and is found again under a hash of the conversation up to there. The first question after
a compaction gets the instructions and to-dos that are gone; later ones get what the pipeline finds for them in the
session's own collection. Questions before the compaction, and conversations that were never compacted, get nothing.

What the service cleared itself is told with its answer, and kept when the next request comes.

A compaction is told by the window before it. So the last window of each session outlives the process, where what a
compaction takes is to be put back. After a restart those of a caller's latest sessions are read from where the blocks
are kept too, once, before the first request is compared with anything.
"""

import asyncio
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter

import orjson
from pydantic import TypeAdapter

from millgate.calls.bugs import surviving
from millgate.errors import MillgateError
from millgate.gateway.compactions import LostMessages
from millgate.guard.dialects.dialect import Dialect
from millgate.service.conversation_state import ConversationState
from millgate.service.proxy.exchange import Exchange, Noticed
from millgate.service.proxy.inject import Block, block_of, find_blocks, read_question
from millgate.service.proxy.request import UNNAMED
from millgate.sessions.compaction.account import Item, account, account_service
from millgate.sessions.compaction.keep import MOST_PIECES, NOT_PUT_BACK, collection_of
from millgate.sessions.compaction.notice import begins_with_summary, find_results
from millgate.sessions.compaction.policy import Mode
from millgate.sessions.compaction.window import Message, Window, count_compacted, read_window
from millgate.sessions.conversation import (
    RECENT,
    Conversation,
    Owed,
    Owner,
    find_last,
    notice_among,
)
from millgate.sessions.prompt_cache.segments import Prompt, read_prompt
from millgate.text.bounded_json import HUGE, loads
from millgate.text.tokens import estimate_tokens
from millgate.transcript.parts import read
from millgate.types import Request

KEEPING = ("keep", "inject")  # modes that keep what leaves a window
FEW = 8  # windows of other sessions that a new conversation is compared with


async def observe_compaction(exchange: Exchange) -> None:
    """Compare the window with the last one of its conversation; `exchange.window` says what was found."""
    call, last = exchange.call, exchange.last
    mode = _mode_of(exchange)
    if mode == "off" or exchange.prompt is None:
        return
    with surviving("the notice of a compaction"):
        seen = Noticed(mode, last.turn, owed=last.owed) if last else Noticed(mode)
        exchange.window = seen
        if candidates := _find_candidates(exchange, exchange.prompt):
            await asyncio.to_thread(_notice, exchange, seen, candidates)
        if seen.told is not None:
            call.compaction = seen.told
            call.not_put_back = "" if mode == "inject" else f"compaction.mode is {mode}"
            exchange.reply_headers["x-millgate-compaction"] = seen.told.describe()


def _find_candidates(exchange: Exchange, prompt: Prompt) -> list[Conversation]:
    """The windows of which this may be a compaction, the likeliest first.

    Messages are gone, or a new conversation begins with a summary.
    """
    owner, session, conversations = exchange.owner, exchange.call.session, exchange.proxy.conversations  # fmt: skip
    if conversations.of_session(owner, session):
        compacted = count_compacted(exchange.original.body)
        return conversations.list_longer(owner, session, prompt, exchange.last, compacted)
    held = [one for one in conversations.elsewhere(owner, session) if one.body][:FEW]
    return held if held and begins_with_summary(_read(exchange)) else []


def _notice(exchange: Exchange, seen: Noticed, candidates: Sequence[Conversation]) -> None:
    """Find the window that was compacted; from now on it is the one that the request goes on with."""
    after, dialect = _read(exchange), exchange.dialect
    found = notice_among(candidates, after, exchange.call.session, lambda b: _read_fields(b, dialect))  # fmt: skip
    if found is not None:
        last, seen.found = found
        exchange.last, seen.turn = last, last.turn
        seen.told = account(seen.found, after, turn=last.turn, carried=last.carried)
        seen.owed = Owed(seen.told, seen.found.at)


async def remember(exchange: Exchange) -> None:
    """Remember the request if the provider got it, and tell what the service cleared from it."""
    call, prepared, seen, last = exchange.call, exchange.prepared, exchange.window, exchange.last
    if prepared is None or prepared.observation is None or not call.answered:
        return
    with surviving("the memory of conversations"):
        observed, conversations = prepared.observation, exchange.proxy.conversations
        now = Conversation(
            call.session, observed.original, observed.sent, counts=call.cache_counts, followers=prepared.followers
        )  # fmt: skip
        if seen is not None:
            _remember_window(exchange, seen, now)
        conversations.remember(exchange.owner, now, last)
        # what begins beside a conversation, as a request for a title, does not take its place
        is_beside = last is None and len(conversations.of_session(exchange.owner, call.session)) > 1
        if seen is not None and seen.mode in KEEPING and not is_beside:
            await _keep_window(exchange, now)


def _remember_window(exchange: Exchange, seen: Noticed, now: Conversation) -> None:
    call, last = exchange.call, exchange.last
    # a window that was compacted has other results
    before = last.cleared if last and seen.found is None else None
    now.cleared = range(before.stop, before.stop) if before is not None else None
    told = account_service(exchange.dialect.applied_edits)
    if told is not None:
        start = before.stop if before is not None else 0
        now.cleared = range(start, max(start, told[1]))
        if call.compaction is None and (before is None or now.cleared):
            call.compaction = told[0]
    now.body, now.turn, now.owed = exchange.original.body, seen.turn + 1, seen.owed
    now.carried = seen.told.owed if seen.told else last.carried if last else ()


def _read(exchange: Exchange) -> Window:
    request = exchange.original
    return read_window(request.messages, exchange.dialect.preamble(request.fields))


def _read_fields(body: bytes, dialect: Dialect) -> Window | None:
    """A window that was held; None if it is one of another API."""
    fields = loads(body)
    try:
        return read_window(dialect.conversation(fields), dialect.preamble(fields))
    except MillgateError:
        return None


# Put back


async def put_back(exchange: Exchange) -> None:
    """Keep what left, and find what is put back of what is gone, if the settings or the request ask for it."""
    seen, gate = exchange.window, exchange.gate
    if seen is None or gate is None or seen.mode not in KEEPING:
        return
    try:
        with surviving("what a compaction lost", but=MillgateError):
            session, lost = await _find_session(exchange), gate.lost_messages
            left: Sequence[Message] = seen.found.lost if seen.found is not None else ()
            if exchange.last is not None and exchange.last.cleared:
                cleared = await asyncio.to_thread(_read_cleared, exchange.last, exchange.dialect)
                left = [*left, *cleared]
            if left:
                await lost.akeep(left, session, key=exchange.caller.key)
            if seen.mode == "inject":
                await _find_lost(exchange, seen, lost, session)
    except MillgateError as error:
        exchange.reply_headers["x-millgate-degraded"] = f"compaction: {error.message}"


def _find_place(messages: Sequence[object], owed: Owed | None) -> int | None:
    """The message that gets the first block: the last in which a person speaks, at or behind the compaction."""
    places = range(len(messages) - 1, owed.at - 1, -1) if owed is not None else ()
    return next((at for at in places if read_question(read(messages[at]), summaries=True)), None)


def _read_cleared(held: Conversation, dialect: Dialect) -> list[Message]:
    """The results of tools that the service cleared from a window when it answered."""
    window, fields = _read_fields(held.body, dialect), loads(held.body)
    management = fields.get("context_management")
    edits = management.get("edits") if isinstance(management, Mapping) else None
    asked = edits if isinstance(edits, list) else ()
    given = (edit.get("exclude_tools") for edit in asked if isinstance(edit, Mapping))
    excluded = [name for names in given if isinstance(names, list) for name in names]
    assert held.cleared is not None
    return find_results(window, excluded)[held.cleared.start : held.cleared.stop] if window else []


async def _find_session(exchange: Exchange) -> str:
    """The session to which the window belongs.

    A client that gives no name has a session named by how its conversation begins, and begins another with its summary.
    What left is kept under the name of the first.
    """
    session, last, remembered = exchange.call.session, exchange.last, exchange.proxy.remembered
    if exchange.request.options.session or not session.startswith(UNNAMED):
        return session
    key = b"session:" + orjson.dumps([*exchange.owner, session])
    if last is not None and last.session != session:
        earlier = b"session:" + orjson.dumps([*exchange.owner, last.session])
        first = await remembered.get(earlier) or last.session.encode()
        return (await remembered.put(key, first)).decode()
    return (await remembered.get(key) or session.encode()).decode()


async def _find_lost(exchange: Exchange, seen: Noticed, lost: LostMessages, session: str) -> None:
    """Find a block for each question since a compaction: instructions for the first, what they need for all."""
    request, call, policy = exchange.request, exchange.call, exchange.proxy.compaction
    owed, is_first, begin = seen.owed, True, _find_place(request.messages, seen.owed)

    async def build(question: Request) -> Block:
        """The block for a question that is new."""
        nonlocal is_first
        said, found = "", seen.found if is_first else None
        if is_first and owed is not None:
            said = await lost.acompose_instructions(owed.account, budget=policy.budget // 2)
        is_first = False
        block, reasons = Block(), ["no instruction and no to-do is gone, and nobody has asked anything"]  # fmt: skip
        if found is None or question.query.strip() not in found.summary:  # which is no question
            left = policy.budget - estimate_tokens(said)
            context = await lost.acontext_for(replace(question, budget=left, graph=False))
            if exchange.proxy.observer is not None:
                exchange.proxy.observer.count_context(context)
            block, steps = block_of(context), context.trace.steps
            reasons = [str(s.facts[NOT_PUT_BACK]) for s in steps if NOT_PUT_BACK in s.facts]
        text = "\n".join(filter(None, (said, block.text)))
        tokens = block.tokens + estimate_tokens(said)
        if text:
            call.new_blocks += (tokens,)
        reason = "" if text else next(iter(reasons), "")
        return replace(block, text=text, tokens=tokens, reason=reason)

    collection = collection_of(session, exchange.caller.key)
    changed = {"collection": collection, "budget": policy.budget, "k": MOST_PIECES, "session": session}  # fmt: skip
    options = request.options.model_copy(update=changed)
    blocks, block = await find_blocks(
        replace(request, options=options),
        exchange.dialect,
        build,
        exchange.caller.tenant,
        exchange.proxy.remembered,
        asker=exchange.caller.key,
        begin=begin,
        summaries=True,
        shown=exchange.blocks.get("context") or {},
    )
    if owed is not None:
        seen.owed = owed if begin is None else None
        call.not_put_back = "nobody has asked anything since the compaction"
    if blocks is not None:
        exchange.blocks["put back"] = blocks
        exchange.reply_headers["x-millgate-put-back-tokens"] = str(block.tokens)
        call.put_back, call.not_put_back = block.tokens, block.reason


@dataclass(frozen=True, slots=True)
class _Kept:
    """What is written of a conversation beside its last request."""

    session: str
    turn: int
    owed: Owed | None
    carried: tuple[Item, ...]
    cleared: tuple[int, int] | None


_FORM = TypeAdapter(_Kept)


async def _keep_window(exchange: Exchange, now: Conversation) -> None:
    """Write the last window of a session, in the place of the one before it."""
    owner, remembered = exchange.owner, exchange.proxy.remembered
    if not now.body or not remembered.is_kept:
        return
    cleared = (now.cleared.start, now.cleared.stop) if now.cleared else None
    head = _FORM.dump_json(_Kept(now.session, now.turn, now.owed, now.carried, cleared))
    now.kept_at = now.at
    packed = zlib.compress(b"%d\n%b%b" % (len(head), head, now.body), 1)
    await remembered.put(_key(owner, now.session), packed, replace=True)
    listed = await _list_kept(owner, remembered) | {now.session: now.kept_at}
    newest = sorted(listed.items(), key=itemgetter(1))[-RECENT:]
    await remembered.put(_list_key(owner), orjson.dumps(dict(newest)), replace=True)


def _mode_of(exchange: Exchange) -> Mode:
    caller, call = exchange.caller, exchange.call
    return exchange.original.options.compaction or exchange.proxy.compaction.mode_for(
        upstream=call.upstream, key=caller.key, session=call.session
    )


async def restore_windows(exchange: Exchange) -> None:
    """Read the windows of a caller that another process wrote: this one before it ended, or another worker since."""
    owner, remembered = exchange.owner, exchange.proxy.remembered
    conversations = exchange.proxy.conversations
    if not remembered.is_kept or _mode_of(exchange) not in KEEPING:
        return
    listed = await _list_kept(owner, remembered)
    known = {name: conversations.of_session(owner, name) for name in listed}
    newer = [name for name, at in listed.items() if all(one.kept_at != at for one in known[name])]
    written = await remembered.get_replaced([_key(owner, name) for name in newer])
    for name in newer:
        if packed := written.get(_key(owner, name)):
            now = _unpack(packed, listed[name])
            conversations.remember(owner, now, find_last(now.original, known[name]))


def _unpack(packed: bytes, kept_at: float) -> Conversation:
    size, _, rest = zlib.decompressobj().decompress(packed, 2 * HUGE).partition(b"\n")
    kept, body = _FORM.validate_json(rest[: int(size)]), rest[int(size) :]
    prompt = read_prompt(loads(body))
    cleared = range(*kept.cleared) if kept.cleared else None
    return Conversation(
        kept.session, prompt, prompt, body=body, turn=kept.turn, owed=kept.owed, carried=kept.carried, cleared=cleared, kept_at=kept_at
    )  # fmt: skip


async def _list_kept(owner: Owner, remembered: ConversationState) -> dict[str, float]:
    """The caller's latest sessions, and when the window of each was written; the newest last."""
    key = _list_key(owner)
    found: dict[str, float] = orjson.loads((await remembered.get_replaced([key])).get(key, b"{}"))
    return found


def _key(owner: Owner, session: str) -> bytes:
    return b"window:" + orjson.dumps([*owner, session])


def _list_key(owner: Owner) -> bytes:
    return b"windows:" + orjson.dumps([*owner])
