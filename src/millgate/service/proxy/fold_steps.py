"""Fold steps: whether a request is folded, from which message on, and what that saved.

What a conversation sent before folding was
switched on stays as it was, since the provider may hold it in its cache. So the first request that is folded says where
folding begins, and the conversation's state keeps that.
"""

from millgate.circles.reader import opening
from millgate.guard.dialects.dialect import digest
from millgate.service.conversation_state import ConversationState
from millgate.service.observe.model_call import FoldGroup
from millgate.service.proxy.exchange import Exchange
from millgate.service.proxy.prepare import find_unseen
from millgate.sessions.folding.policy import FoldPolicy
from millgate.text.bounded_json import HUGE
from millgate.transcript.parts import is_from_model

FOLDED = b"fold:"  # before the digest of a conversation: where its folding begins
STOPPED = b"fold stopped:"  # before the digest of a session in which folding stopped
NEVER = 1 << 30  # begins behind every conversation


def choose_group(exchange: Exchange, policy: FoldPolicy) -> FoldGroup | None:
    """Whether the request is folded, only measured, or neither, by the settings and its header."""
    request, call = exchange.request, exchange.call
    mode = request.options.fold or policy.mode_for(
        upstream=exchange.upstream_name, key=call.key, session=call.session
    )
    if mode == "off" or len(request.body) > HUGE:
        return None
    return "holdout" if mode == "on" and policy.is_held_out(call.session) else mode


async def find_start(exchange: Exchange, folds: ConversationState) -> int:
    """The first message of a conversation that may be folded, decided when it is first seen.

    All of a new conversation may be. Of one that has begun without folding only what the model has not seen. None of
    one whose session stopped folding, or whose state cannot be kept: it must be the same for every request.
    """
    owner, messages = exchange.conversation_owner, exchange.original.messages
    key, stopped = FOLDED + digest(f"{owner}\0{opening(messages)}"), STOPPED + digest(owner)
    known = await folds.get_all([key, stopped])
    if key not in known:
        is_new = not any(map(is_from_model, messages))
        start = 0 if is_new else find_unseen(messages)
        if stopped in known or folds.failure:
            start = NEVER
        if folds.failure:
            exchange.reply_headers["x-millgate-degraded"] = f"fold: {folds.failure}"
        known[key] = await folds.put(key, b"%d" % start)
    return int(known[key])


async def stop_folding(exchange: Exchange, folds: ConversationState) -> None:
    """Fold no later conversation of the session."""
    await folds.put(STOPPED + digest(exchange.conversation_owner), b"1")
