"""Usage tap: what an answer spent that passes unwatched, and the events that nobody but us asked for.

A stream of chat completions tells its usage only if it was asked for. Where a cap needs it and the client did not ask,
we do, and take out what comes of it: an event of its own at the end, and in all others a usage that is null. So the
client gets the bytes that it would have got otherwise.
"""

import re

from headgate.errors import UpstreamError
from headgate.guard.dialects.dialect import Dialect, Event, Usage
from headgate.guard.dialects.usage import UsageSum
from headgate.service.proxy.sse import Splitter, parse, payload

# Bytes of an event or an answer that is read for its usage; what a larger one spent is not known. The answer of the
# longest model, 128 000 tokens, has half of it.
MAX_BYTES = 1 << 20
_null_usage = re.compile(rb',\s*"usage"\s*:\s*null|"usage"\s*:\s*null\s*,\s*')


def hide_usage(event: bytes, found: Event, dialect: Dialect) -> bytes:
    """The event as it would be had nobody asked for usage; b"" where it would not be.

    A usage beside other things stays: servers that send such tell it unasked.
    """
    if dialect.is_usage_event(found):
        return b""
    if found.get("usage", event) is not None:
        return event
    del found["usage"]
    return _null_usage.sub(b"", event, count=1)  # in no text: a quote there is escaped


class UsageTap:
    """Reads the usage of one answer that passes."""

    def __init__(self, dialect: Dialect, *, is_stream: bool, hides: bool) -> None:
        self.usage = UsageSum()
        self.hides = hides
        self._dialect, self._is_stream = dialect, is_stream
        self._splitter = Splitter()
        self._body = b""
        self._is_reading = True

    def feed(self, data: bytes) -> bytes:
        """Take a part of the answer in; what goes on to the client."""
        if not self._is_reading:
            return data
        if not self._is_stream:
            self._body += data
            self._is_reading = len(self._body) <= MAX_BYTES
            return data
        out = b"".join(map(self._pass, self._splitter.feed(data)))
        if self._splitter.pending > MAX_BYTES:
            self._is_reading = False
            out += self._splitter.end()
        return out

    def end(self) -> bytes:
        """The answer is over: what is left of it for the client."""
        if self._is_stream:
            return self._pass(self._splitter.end())
        if self._is_reading:
            self._note(self._body)
        return b""

    def _pass(self, event: bytes) -> bytes:
        found = self._note(payload(event)) if b'"usage"' in event else None
        return hide_usage(event, found, self._dialect) if found and self.hides else event

    def _note(self, data: bytes) -> Event | None:
        """The object in some JSON, its usage noted; None where it is none."""
        try:
            found = parse(data)
        except UpstreamError:
            return None
        usage: Usage | None = self._dialect.usage(found)
        self.usage.note(usage)
        return found
