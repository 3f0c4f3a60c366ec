"""Inflate: an answer that came compressed although plain text was asked for."""

import zlib

from headgate.errors import UpstreamError
from headgate.service.proxy.transport import Answer, header

PACKED = (b"gzip", b"x-gzip", b"deflate")


class Inflated:
    """The same answer, unpacked as it comes."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._unpack = zlib.decompressobj(wbits=47)  # gzip or zlib, whichever it is
        self.status = answer.status
        self.headers = [pair for pair in answer.headers if pair[0] != b"content-encoding"]

    async def read(self) -> bytes | None:
        """The next bytes that can be unpacked; b"" at the end."""
        while True:
            data = await self._answer.read()
            if not data:
                return self._unpack.flush() if data == b"" else None
            try:
                out = self._unpack.decompress(data)
            except zlib.error as error:
                raise UpstreamError(f"the upstream's answer cannot be unpacked: {error}") from error
            if out:
                return out

    async def close(self) -> None:
        """Done with it."""
        await self._answer.close()


def plain(answer: Answer) -> Answer:
    """The answer as plain bytes."""
    packed = header(answer.headers, b"content-encoding").strip().lower()
    if packed in (b"", b"identity"):
        return answer
    if packed in PACKED:
        return Inflated(answer)
    raise UpstreamError(
        f"the upstream answered in {packed.decode('latin-1')!r} although plain text was asked for",
        hint="turn its compression off, or send x-headgate-guard: off",
    )
