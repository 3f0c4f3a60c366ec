"""Decoding: the plain body of a compressed answer, a bounded part at a time.

A few bytes may unpack to a thousand times as many, so each read unpacks only as much as it gives. A compressed body
that ends too early ends here too: whoever reads it knows whether it is complete.
"""

import zlib
from collections.abc import Awaitable, Callable

from headgate.errors import UpstreamError
from headgate.service.proxy.transport import Headers

Read = Callable[[int], Awaitable[bytes]]
"""The next bytes, at most so many; b"" at the end."""

GZIP, DEFLATE, RAW_DEFLATE = 31, 15, -15  # window bits that tell zlib the format
GZIP_MAGIC = b"\x1f"
FORMATS = {b"gzip": GZIP, b"x-gzip": GZIP, b"deflate": DEFLATE}


def codings_of(headers: Headers) -> list[bytes]:
    """The content codings of a body, in the order in which they were applied."""
    named = b",".join(value for name, value in headers if name.lower() == b"content-encoding")
    codings = (coding.strip().lower() for coding in named.split(b","))
    return [coding for coding in codings if coding not in (b"", b"identity")]


class Decoder:
    """Undoes one coding."""

    def __init__(self, read: Read, coding: bytes) -> None:
        self._read, self._coding = read, coding
        self._unpack = zlib.decompressobj(FORMATS[coding])
        self._packed = b""
        self._begun = False
        self._is_full = False  # whether more may wait inside the last part

    async def read(self, size: int) -> bytes:
        """The next plain bytes, at most so many; b"" at the end."""
        while True:
            if not self._packed and not self._is_full:
                self._packed = await self._read(size)
                if not self._packed:
                    return b""
            if data := self._decode(size):
                return data

    def _decode(self, size: int) -> bytes:
        if not self._begun and self._coding == b"deflate" and self._packed[0] & 0x0F != 8:
            self._unpack = zlib.decompressobj(RAW_DEFLATE)  # some servers leave zlib's head out
        if self._unpack.eof:
            if FORMATS[self._coding] != GZIP or not self._packed.startswith(GZIP_MAGIC):
                self._packed = b""  # padding
                return b""
            self._unpack = zlib.decompressobj(GZIP)  # gzip is a row of such bodies
        self._begun = True
        try:
            data = self._unpack.decompress(self._packed, size)
        except zlib.error as error:
            coding = self._coding.decode()
            raise UpstreamError(f"the upstream's answer is not {coding}: {error}") from error
        self._packed = self._unpack.unconsumed_tail or self._unpack.unused_data
        self._is_full = len(data) == size and not self._unpack.eof
        return data
