"""Fold steps: fold what already stands in a request's window, or work out what that would save.

If one fails, the request goes on as it came, and the bug is logged. What a conversation sent before folding was
switched on stays as it was, since the provider may hold it in its cache. So the first request that is folded says where
folding begins, and the conversation's state keeps that.
"""

import asyncio

from millgate.bugs import surviving
from millgate.folding.cache import FoldCache
from millgate.folding.policy import FoldPolicy
from millgate.folding.rules import clears_of
from millgate.guard.calls import is_plain, opening
from millgate.guard.dialects.dialect import digest
from millgate.service.proxy.conversation_state import ConversationState
from millgate.service.proxy.exchange import Exchange, ProxyRequest
from millgate.service.proxy.folded_call import FoldedCall, FoldGroup
from millgate.text.bounded_json import HUGE
from millgate.text.table import count_of
from millgate.transcript.parts import is_from_model

LARGE = (
    200_000  # bytes of a request that is folded in a thread: the first time that takes milliseconds
)
FOLDED = b"fold:"  # before the digest of a conversation: where its folding begins
STOPPED = b"fold stopped:"  # before the digest of a session in which folding stopped
NEVER = 1 << 30  # begins behind every conversation


async def fold_repeats(
    exchange: Exchange, policy: FoldPolicy, folders: FoldCache, conversations: ConversationState
) -> None:
    """Fold the request, if the settings or a header ask for it; `call.fold` says what was done."""
    request, call = exchange.request, exchange.call
    mode = request.options.fold or policy.mode_for(
        upstream=exchange.upstream_name, key=call.key, session=call.session
    )
    if mode == "off" or is_plain(request.messages) or len(request.body) > HUGE:
        return
    group: FoldGroup = mode
    if mode == "on" and policy.is_held_out(call.session):
        group = "holdout"
    with surviving("folding a request"):
        start = await _find_start(exchange, conversations) if group == "on" else 0
        if len(request.body) > LARGE:
            folded = await asyncio.to_thread(_fold, exchange, folders, group, start)
        else:
            folded = _fold(exchange, folders, group, start)
        changed, call.fold = folded
        if group == "on":
            exchange.request = changed
            call.sent = changed.body if call.sent else b""
            if call.fold.has_stopped:
                await conversations.put(STOPPED + digest(exchange.conversation_owner), b"1")
        exchange.reply_headers["x-millgate-fold"] = _describe(call.fold)


async def _find_start(exchange: Exchange, conversations: ConversationState) -> int:
    """The first message of a conversation that may be folded, decided when it is first seen.

    All of a new conversation may be. Of one that has begun without folding only what the model has not seen. None of
    one whose session stopped folding, or whose state cannot be kept: it must be the same for every request.
    """
    owner, messages = exchange.conversation_owner, exchange.original.messages
    key, stopped = FOLDED + digest(f"{owner}\0{opening(messages)}"), STOPPED + digest(owner)
    known = await conversations.get_all([key, stopped])
    if key not in known:
        is_new = not any(map(is_from_model, messages))
        start = 0 if is_new else _first_new(exchange.request)
        if stopped in known or conversations.failure:
            start = NEVER
        known[key] = await conversations.put(key, b"%d" % start)
    return int(known[key])


def _fold(
    exchange: Exchange, folders: FoldCache, group: FoldGroup, start: int
) -> tuple[ProxyRequest, FoldedCall]:
    request = exchange.request
    owner, clears = f"{group}\0{exchange.conversation_owner}", clears_of(request.fields)
    sent, report = folders.fold(request.messages, owner=owner, clears=clears, start=start)
    first_new = _first_new(request)
    new = [fold for fold in report.folds if fold.at >= first_new]
    texts = tuple(fold.text_in(request.messages) for fold in new)
    folded = FoldedCall(group, report, first_new, texts)
    if group != "on" or not any(a is not b for a, b in zip(sent, request.messages, strict=True)):
        return request, folded
    return request.with_messages(sent, exchange.dialect), folded


def _first_new(request: ProxyRequest) -> int:
    """Where the messages begin that the model has not seen: behind its own last words."""
    messages = request.messages
    return next((at + 1 for at in range(len(messages) - 1, -1, -1) if is_from_model(messages[at])), 0)  # fmt: skip


def _describe(folded: FoldedCall) -> str:
    report = folded.report
    said = f"{count_of(len(report.folds), 'run')}, {report.saved_tokens} tokens"
    if folded.group != "on":
        said = f"{folded.group}: {said}"
    if report.stopped_at is not None:
        said = f"{said}; stopped: {report.stopped_by}"
    return said
