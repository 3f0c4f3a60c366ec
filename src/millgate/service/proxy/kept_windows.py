"""Kept windows: the last window of each session outlives the process, where what a compaction takes is to be put back.

A compaction is told by the window before it. So after a restart the windows of a caller's latest sessions are read
from where the blocks are kept too, once, before its first request is compared with anything.
"""

import zlib
from dataclasses import dataclass

import orjson
from pydantic import TypeAdapter

from millgate.service.conversation_state import ConversationState
from millgate.sessions.compaction.items import Item
from millgate.sessions.conversation import RECENT, Conversation, Conversations, Owed, Owner
from millgate.sessions.prompt_cache.segments import read_prompt
from millgate.text.bounded_json import HUGE, loads


@dataclass(frozen=True, slots=True)
class _Kept:
    """What is written of a conversation beside its last request."""

    session: str
    turn: int
    owed: Owed | None
    carried: tuple[Item, ...]
    cleared: tuple[int, int] | None


_FORM = TypeAdapter(_Kept)


async def keep_window(
    owner: Owner, now: Conversation, conversations: Conversations, remembered: ConversationState
) -> None:
    """Write the last window of a session, in the place of the one before it."""
    if not now.body or not remembered.is_kept:
        return
    cleared = (now.cleared.start, now.cleared.stop) if now.cleared else None
    head = _FORM.dump_json(_Kept(now.session, now.turn, now.owed, now.carried, cleared))
    packed = zlib.compress(b"%d\n%b%b" % (len(head), head, now.body), 1)
    await remembered.put(_key(owner, now.session), packed, replace=True)
    names = orjson.dumps(conversations.sessions_of(owner)[:RECENT])
    await remembered.put(_key(owner), names, replace=True)


async def restore_windows(
    owner: Owner, conversations: Conversations, remembered: ConversationState
) -> None:
    """Read the windows of a caller of whom nothing is known in this process."""
    if not remembered.is_kept or conversations.sessions_of(owner):
        return
    names = orjson.loads(await remembered.get(_key(owner)) or b"[]")
    keys = [_key(owner, name) for name in reversed(names)]
    known = await remembered.get_all(keys)
    for key in keys:
        if key in known:
            conversations.remember(owner, _unpack(known[key]), None)


def _unpack(packed: bytes) -> Conversation:
    size, _, rest = zlib.decompressobj().decompress(packed, 2 * HUGE).partition(b"\n")
    kept, body = _FORM.validate_json(rest[: int(size)]), rest[int(size) :]
    prompt = read_prompt(loads(body))
    cleared = range(*kept.cleared) if kept.cleared else None
    return Conversation(
        kept.session, prompt, prompt, body=body, turn=kept.turn, owed=kept.owed, carried=kept.carried, cleared=cleared
    )  # fmt: skip


def _key(owner: Owner, session: str = "") -> bytes:
    return b"window:" + orjson.dumps([*owner, session])
