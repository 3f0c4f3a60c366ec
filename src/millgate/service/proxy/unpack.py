"""Unpack: request bodies that a client has compressed, as Codex does with zstd.

The guard reads what it watches, so a body is plain from here on, also on its way to the upstream: every server takes
that.
"""

import io
import zlib
from collections.abc import Callable

from millgate.errors import LimitError, MissingExtra
from millgate.guard.dialects.dialect import InvalidRequest
from millgate.service.proxy.transport import codings_of
from millgate.service.wire import Headers

try:
    import zstandard
except ImportError as error:
    raise MissingExtra("zstandard", extra="service") from error

GZIP, DEFLATE = 31, 15  # window bits that tell zlib the format
MOST_CODINGS = 3  # one after the other; nobody uses more than one


def unpack(headers: Headers, body: bytes, *, limit: int) -> tuple[Headers, bytes]:
    """Headers and body without compression; as they are if there is none, or one that we do not know.

    LimitError if the plain body is larger than `limit`, whatever the packed one has.
    """
    codings = codings_of(headers)
    if not codings or len(codings) > MOST_CODINGS or not UNPACKERS.keys() >= set(codings):
        return headers, body
    for coding in reversed(codings):
        try:
            body = UNPACKERS[coding](body, limit + 1)
        except (zlib.error, zstandard.ZstdError) as error:
            raise InvalidRequest(f"the body is not {coding.decode()}: {error}") from error
        if len(body) > limit:
            raise LimitError(
                f"the body is larger than {limit:,} bytes", hint="the limit is service.body_bytes"
            )
    return [pair for pair in headers if pair[0].lower() != b"content-encoding"], body


def _inflate(body: bytes, most: int, form: int) -> bytes:
    packed = zlib.decompressobj(form)
    plain = packed.decompress(body, most)
    if len(plain) < most and not packed.eof:
        raise zlib.error("it is not complete")
    return plain


def _gzip(body: bytes, most: int) -> bytes:
    return _inflate(body, most, GZIP)


def _deflate(body: bytes, most: int) -> bytes:
    return _inflate(body, most, DEFLATE)


def _zstd(body: bytes, most: int) -> bytes:
    with zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(
        io.BytesIO(body), read_across_frames=True
    ) as reader:
        return reader.read(most)


UNPACKERS: dict[bytes, Callable[[bytes, int], bytes]] = {
    b"gzip": _gzip,
    b"x-gzip": _gzip,
    b"deflate": _deflate,
    b"zstd": _zstd,
}
