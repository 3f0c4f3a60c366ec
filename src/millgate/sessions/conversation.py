"""Conversation: what is remembered of the requests of one conversation, and how the next request finds it.

A session may hold several conversations at once: an agent, its subagents, a small model that writes titles. A request
goes on with the one that it shares most messages with. A session that is resumed under another name goes on with the
conversation whose messages it begins with. All that looks at more than one request looks here: what the provider has
in its cache, what a compaction took, how far circles and folds are followed.

Nothing is written anywhere. Of what is held a tenant pays for its own: beyond the limit the tenant that holds most
loses what it used longest ago.
"""

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, NamedTuple

from millgate.circles.policy import CirclesPolicy
from millgate.circles.steps import CircleFollower
from millgate.sessions.compaction.account import Account, Item, account
from millgate.sessions.compaction.notice import least_lost, notice
from millgate.sessions.compaction.window import Compaction, Window, count_compacted, read_window
from millgate.sessions.folding.folder import Clears, Folder
from millgate.sessions.prompt_cache.difference import common_messages, same_beginning
from millgate.sessions.prompt_cache.judgment import CacheCounts
from millgate.sessions.prompt_cache.segments import Prompt, read_prompt
from millgate.text.fence import without_fences
from millgate.transcript.parts import read

CONVERSATIONS = 8  # remembered of one session: an agent and the subagents that work at once
RECENT = 8  # sessions of one caller that a new conversation may go on from
# Bytes of all together: about 40 conversations of 200 000 tokens with their last requests.
MAX_BYTES = 64 << 20
MAX_AGE_S = 6 * 3600.0  # a cache lives for an hour at most; later nothing can be expected


class Owner(NamedTuple):
    """Whose conversations they are: nobody goes on with those of another tenant or key."""

    tenant: str
    key: str = ""


class Owed(NamedTuple):
    """A compaction of which nothing was put back yet, and from which message on that may be done."""

    account: Account
    at: int


@dataclass(slots=True)
class Followers:
    """What has read the messages of a conversation, and need not read them again. One request has it at a time."""

    digests: Sequence[bytes] = ()
    """Of the messages that were read, as the client sent them ..."""
    blocks: Sequence[Mapping[int, str]] = ()
    """... and what was put in front of some of them."""
    circle_followers: dict[object, CircleFollower] = field(default_factory=dict)
    folders: dict[object, Folder] = field(default_factory=dict)

    def go_on(self, digests: Sequence[bytes], blocks: Sequence[Mapping[int, str]]) -> "Followers":
        """What may read on; it begins anew if these are not the messages that were read, with more behind them."""
        read = len(self.digests)
        known = [{at: block for at, block in each.items() if at < read} for each in blocks]
        is_same = read <= len(digests) and (not read or digests[read - 1] == self.digests[-1])
        if is_same and list(filter(None, known)) == list(filter(None, self.blocks)):
            return Followers(digests, blocks, self.circle_followers, self.folders)
        return Followers(digests, blocks)

    def circle_follower(self, policy: CirclesPolicy) -> CircleFollower:
        """What follows the circles of tool calls by these rules."""
        return self.circle_followers.setdefault(policy.active, CircleFollower(policy))

    def folder(self, clears: Clears, start: int) -> Folder:
        """What folds the conversation by these rules."""
        return self.folders.setdefault((clears, start), Folder(clears=clears, start=start))


@dataclass(slots=True)
class Conversation:
    """The last request of a conversation that was answered."""

    session: str
    original: Prompt
    """The request as the client sent it, cut into segments ..."""
    sent: Prompt
    """... and as the provider got it; the same object if Millgate changed nothing."""
    at: float = 0.0
    counts: CacheCounts | None = None
    """What the provider counted; None if it did not."""
    body: bytes = field(default=b"", repr=False)
    """The request itself, which a compaction is compared with; empty if nobody asks for that."""
    turn: int = 1
    owed: Owed | None = None
    """A compaction after which no person has spoken yet."""
    found: Compaction | None = field(default=None, repr=False)
    """The compaction right before this request, if a framework's hook saw it."""
    carried: tuple[Item, ...] = ()
    """Instructions and to-dos that compactions lost so far."""
    cleared: range | None = None
    """Which results of tools, counted from the oldest, the service cleared with its answer for the first time; None if
    it never cleared anything.
    """
    followers: Followers | None = field(default=None, repr=False)
    kept_at: float = 0.0
    """When it was written where other processes read it; 0 if it was not."""
    bytes: int = 0
    """About how much memory it takes, measured when it is remembered."""

    def measure(self) -> None:
        """Work out how much memory it takes."""
        folders = self.followers.folders.values() if self.followers else ()
        self.bytes = len(self.body) + self.sent.bytes + sum(folder.bytes for folder in folders)


class Conversations:
    """The conversations of many callers; those used longest ago are forgotten. Safe to share between threads."""

    def __init__(
        self, *, max_bytes: int = MAX_BYTES, clock: Callable[[], float] = time.time
    ) -> None:
        self._max_bytes, self._clock = max_bytes, clock
        # by owner and session, those used last at the end
        self._known: dict[tuple[Owner, str], tuple[Conversation, ...]] = {}
        self._bytes: Counter[str] = Counter()  # by tenant
        self._lock = Lock()

    @property
    def bytes(self) -> int:
        """About how much memory all of them take."""
        return self._bytes.total()

    def observe(
        self, session: str, messages: Iterable[Mapping[str, Any]], preamble: Sequence[str] = ()
    ) -> Conversation:
        """Remember a conversation as a framework's hook has it, beside what it was when it was last seen.

        Nobody but the session itself goes on with it: a hook may serve many people.
        """
        messages = list(messages)
        fields = {"system": [{"type": "text", "text": t} for t in preamble], "messages": messages}
        body = json.dumps(fields, default=lambda v: dict(v) if isinstance(v, Mapping) else repr(v)).encode()  # fmt: skip
        prompt, after, owner = read_prompt(fields), read_window(messages, preamble), Owner(session)
        last = find_last(prompt, self.of_session(owner, session))
        now = Conversation(session, prompt, prompt, body=body, turn=after.turns)
        candidates = self.list_longer(owner, session, prompt, last, count_compacted(body))
        if noticed := notice_among(candidates, after, session, _read_body):
            last, now.found = noticed
            fences = [text for message in messages for text in _fences(message)]
            told = account(now.found, after, turn=last.turn, carried=last.carried, shown=fences)
            now.owed, now.carried = Owed(told, now.found.at), told.owed
        elif last is not None:
            now.owed, now.carried = last.owed, last.carried
        self.remember(owner, now, last)
        return now

    def of_session(self, owner: Owner, session: str) -> tuple[Conversation, ...]:
        """The conversations of a session, the newest last."""
        oldest = self._clock() - MAX_AGE_S
        return tuple(one for one in self._known.get((owner, session), ()) if one.at >= oldest)

    def list_longer(
        self, owner: Owner, session: str, prompt: Prompt, last: Conversation | None, compacted: int
    ) -> list[Conversation]:
        """The windows of a session of which a request may be a compaction, the likeliest first: worth reading both.

        `compacted` is how often the provider compacted the window of the request.
        """
        is_known = last is not None and last.session == session
        known = [last] if last and is_known else reversed(self.of_session(owner, session))
        return [
            one
            for one in known
            if one.body
            and (_has_lost(one.original, prompt) or compacted > count_compacted(one.body))
        ]

    def elsewhere(self, owner: Owner, session: str) -> list[Conversation]:
        """The conversations of the caller's other sessions, those used last first."""
        keys = reversed(list(self._known))
        names = [name for whose, name in keys if whose == owner and name != session]
        return [one for name in names[:RECENT] for one in reversed(self.of_session(owner, name))]

    def find(self, owner: Owner, session: str, prompt: Prompt) -> Conversation | None:
        """The conversation that a request goes on with; None if it begins one."""
        if known := self.of_session(owner, session):
            return find_last(prompt, known)
        resumed = (one for one in self.elsewhere(owner, session) if _extends(prompt, one.original))
        return next(resumed, None)

    def lend(self, last: Conversation | None) -> Followers:
        """What has followed a conversation; nothing if there is none, or if another request has it."""
        if last is None:
            return Followers()
        with self._lock:
            lent, last.followers = last.followers, None
        return lent or Followers()

    def remember(self, owner: Owner, now: Conversation, last: Conversation | None) -> None:
        """Keep a request that was answered, in the place of the one that it goes on with."""
        now.at = self._clock()
        now.measure()
        with self._lock:
            before = self._known.pop((owner, now.session), ())
            kept = tuple(one for one in before if one is not last)[1 - CONVERSATIONS :]
            self._known[owner, now.session] = (*kept, now)
            self._bytes[owner.tenant] += now.bytes + _size(kept) - _size(before)
            while self._bytes.total() > self._max_bytes:
                ((tenant, _),) = self._bytes.most_common(1)
                oldest = next(key for key in self._known if key[0].tenant == tenant)
                self._bytes[tenant] -= _size(self._known.pop(oldest))


def find_last(prompt: Prompt, known: Sequence[Conversation]) -> Conversation | None:
    """The conversation that a request goes on with: the one that shares most messages, the newest of equals.

    Another model may be asked about the first message of a conversation, for its title. It goes on with the
    conversation only if it shares more than that. If no message is shared, a compacted conversation still has the
    model, the tools and the system prompt of a longer one.
    """
    best, most = None, 0
    for one in reversed(known):
        shared = common_messages(one.original, prompt)
        if one.original.model == prompt.model:
            shared *= 2  # of equals the same model
        elif shared < 2:
            continue
        if shared > most:
            best, most = one, shared
    if best is not None:
        return best
    return next((one for one in reversed(known) if _goes_on(one.original, prompt)), None)


def notice_among(
    candidates: Sequence[Conversation],
    after: Window,
    session: str,
    read_body: Callable[[bytes], Window | None],
) -> tuple[Conversation, Compaction] | None:
    """The window that was compacted to a later one, and the compaction; None if none was."""
    for one in candidates:
        before = read_body(one.body)
        found = notice(before, after, is_same_session=one.session == session) if before else None
        if found is not None:
            return one, found
    return None


def _has_lost(old: Prompt, new: Prompt) -> bool:
    """Whether the later request lacks so much of the messages, or has so few, that it may be compacted."""
    kept, had = {segment.checksum for segment in new.message_segments}, old.message_segments
    lost = sum(segment.chars for segment in had if segment.checksum not in kept)
    is_shorter = new.messages < old.messages
    return lost > 0 and (is_shorter or lost >= least_lost(sum(segment.chars for segment in had)))


def _read_body(body: bytes) -> Window:
    fields = json.loads(body)
    return read_window(fields["messages"], [block["text"] for block in fields["system"]])


def _fences(message: Mapping[str, Any]) -> Iterator[str]:
    """The texts of a message in which a block of ours stands; a window has them without it."""
    texts = (part.text for part in read(message))
    yield from (text for text in texts if without_fences(text) != text)


def _goes_on(old: Prompt, new: Prompt) -> bool:
    """Whether a request whose first message is new goes on with the conversation: it holds most of the messages, or it
    is a compacted one.
    """
    if old.model != new.model or not same_beginning(old, new):
        return False
    mine, theirs = ({e.checksum for e in p.elements if e.kind == "message"} for p in (old, new))
    return 2 * len(mine & theirs) > min(len(mine), len(theirs)) or old.chars > new.chars


def _extends(new: Prompt, old: Prompt) -> bool:
    """Whether a request has all messages of an earlier one, of which a model wrote some."""
    return old.messages > 2 and common_messages(old, new) >= len(old.message_segments)


def _size(known: Sequence[Conversation]) -> int:
    return sum(one.bytes for one in known)
