"""Compressed answers: whatever they are called and however they are cut up, the plain bytes come out."""

import gzip
import zlib

import pytest

from millgate.errors import UpstreamError
from millgate.service.proxy.http_client import Decoder, codings_of

PLAIN = " ".join(str(n * n) for n in range(20_000)).encode()
RAW = zlib.compressobj(wbits=-15)
PACKED = {
    "gzip": (b"gzip", gzip.compress(PLAIN)),
    "x-gzip": (b"x-gzip", gzip.compress(PLAIN)),
    "a row of gzip": (b"gzip", gzip.compress(PLAIN[:5_000]) + gzip.compress(PLAIN[5_000:])),
    "gzip with padding": (b"gzip", gzip.compress(PLAIN) + b"\0" * 100),
    "gzip without its end": (b"gzip", gzip.compress(PLAIN)[:-8]),
    "deflate": (b"deflate", zlib.compress(PLAIN)),
    "deflate without its head": (b"deflate", RAW.compress(PLAIN) + RAW.flush()),
}


def read_in(parts):
    parts = iter(parts)

    async def read(size):
        return next(parts, b"")

    return read


async def read_all(decoder, size=1_000):
    out = []
    while data := await decoder.read(size):
        assert len(data) <= size
        out.append(data)
    return b"".join(out)


@pytest.mark.parametrize("step", [1, 700, 10**6])
@pytest.mark.parametrize(("coding", "packed"), PACKED.values(), ids=PACKED)
async def test_the_plain_bytes_come_out_however_they_are_cut_up(coding, packed, step):
    parts = [packed[at : at + step] for at in range(0, len(packed), step)]
    assert await read_all(Decoder(read_in(parts), coding)) == PLAIN


async def test_one_coding_over_another_is_undone_in_turn():
    twice = gzip.compress(zlib.compress(PLAIN))
    inner = Decoder(read_in([twice]), b"gzip")
    assert await read_all(Decoder(inner.read, b"deflate")) == PLAIN


async def test_what_is_not_compressed_is_an_error_that_says_so():
    with pytest.raises(UpstreamError, match="is not gzip"):
        await Decoder(read_in([b"data: {}"]), b"gzip").read(10)


@pytest.mark.parametrize(
    ("values", "codings"),
    [([], []), ([b"identity"], []), ([b" GZIP "], [b"gzip"]), ([b"deflate, X-Gzip"], [b"deflate", b"x-gzip"]), ([b"gzip", b"br"], [b"gzip", b"br"])],
)  # fmt: skip
def test_codings_are_read_in_any_case_and_as_lists(values, codings):
    assert codings_of([(b"Content-Encoding", value) for value in values]) == codings
