"""A watcher of made sessions: each request is compared with what is remembered, and then remembered itself."""

import time

from millgate.sessions.conversation import Conversation, Conversations, Owner
from millgate.sessions.prompt_cache.segments import read_prompt
from millgate.sessions.witness import observe

SOMEBODY = Owner("t", "k")


class Watcher:
    """Does with requests what the proxy does, without sending them."""

    def __init__(self, *, max_bytes=64 << 20, clock=time.time):
        self.conversations, self._clock = Conversations(max_bytes=max_bytes, clock=clock), clock

    def observe(self, session, fields, *, sent=None, is_compacted=False):
        prompt = read_prompt(fields)
        last = self.conversations.find(SOMEBODY, session, prompt)
        return session, observe(
            prompt, last, sent or fields, is_changed=sent is not None, is_compacted=is_compacted
        )

    def finish(self, observed, counts):
        session, seen = observed
        judged = seen.judge(counts, self._clock())
        now = Conversation(session, seen.original, seen.sent, counts=counts)
        self.conversations.remember(SOMEBODY, now, seen.last)
        return judged
