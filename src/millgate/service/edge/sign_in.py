"""Sessions of people who are signed in: what their cookie stands for.

The cookie holds a random token and never the key. Other web servers of the same host get a browser's cookies too, and a
key would open every route to them. The token opens the pages of the dashboard alone, for twelve hours, until the person
signs out or the key is revoked. Kept are a hash of the token and the hash of the key, where all workers find them.
"""

import re
import time
from hashlib import sha256
from secrets import token_urlsafe

import orjson

from millgate.protocols import Clock
from millgate.service.conversation_state import ConversationState

LASTS_S = 12 * 3600.0  # chosen: a day's work, so that a person signs in once a day
_FORM = re.compile(r"[A-Za-z0-9_-]{43}")


class SignedIn:
    """The sessions of one service."""

    def __init__(self, kept: ConversationState, *, clock: Clock = time.time) -> None:
        self._kept, self._clock = kept, clock

    async def begin(self, key_digest: str) -> str:
        """Sign in with the key of a digest; the token for the cookie."""
        token = token_urlsafe(32)
        session = orjson.dumps({"key": key_digest, "until": self._clock() + LASTS_S})
        await self._kept.put(_name(b"signed in:", token), session)
        return token

    async def find(self, token: str) -> str:
        """The digest of the key that a session was begun with; "" if it is over or was never begun."""
        begun, ended = _name(b"signed in:", token), _name(b"signed out:", token)
        found = await self._kept.get_all([begun, ended])
        if begun not in found or ended in found:
            return ""
        session = orjson.loads(found[begun])
        return str(session["key"]) if session["until"] > self._clock() else ""

    async def end(self, token: str) -> None:
        """Sign out: the token opens nothing any more, whoever has it."""
        if await self.find(token):
            await self._kept.put(_name(b"signed out:", token), b"1")


def is_token(text: str) -> bool:
    """Whether a text could be a token at all: other programs of the host may set a cookie of our name."""
    return _FORM.fullmatch(text) is not None


def _name(kind: bytes, token: str) -> bytes:
    """What a session is kept under: who reads the file does not learn the token."""
    return kind + sha256(token.encode()).digest()
