"""A hostile upstream: bombs, floods, crumbs, swelling and endless answers, wrong shapes. The model's name chooses."""

import asyncio
import gzip
import json
import time
from contextlib import suppress

from bench.attacks.target import attack

BOMB = gzip.compress(b'{"x": "' + b"0" * (256 << 20) + b'"}', 9)

WILD = b"".join(
    b'data: {"choices": [{"index": %d, "delta": {"tool_calls": [{"index": %d, "id": "%d", "function": {"name": "f", "arguments": "{"}}]}}]}\n\n' % (n, 10**15 + n, n)
    for n in range(200)
)  # fmt: skip

SHAPES = [
    "null", "[]", "1", '"x"', "{}", '{"choices": 1}', '{"choices": [1]}', '{"choices": [{"message": 1}]}',
    '{"choices": [{"message": {"content": 5}}]}', '{"usage": "x", "choices": []}', '{"choices": [{"message": {"tool_calls": 7}}]}',
]  # fmt: skip

CALL = b'data: {"choices": [{"delta": {"tool_calls": [{"index": 0, "function": {"arguments": "1"}}]}}]}\n\n'
NEAR_LOOP = b"".join(
    b'data: {"choices":[{"delta":{"content":"%c"}}]}\n\n' % c
    for c in b"and so on it goes, and " * 20
)


def chunk(data):
    return b"%x\r\n%b\r\n" % (len(data), data)


COMMENT_LINES = chunk(b":a\n" * 5_500_000 + b"\n")
DATA_LINES = chunk(b"data:a\n" * 2_300_000 + b"\n")
LONG_EVENT = chunk(b'data: {"choices":[{"delta":{"content":"%b"}}]}\n\n' % " ".join(map(str, range(2_000_000))).encode())  # fmt: skip


@attack
async def upstream_bombs(target):
    """An upstream whose small answers become a gigabyte."""
    await asyncio.gather(*(target.chat("bomb") for _ in range(4)), target.chat("bomb-stream", stream=True))  # fmt: skip


@attack
async def upstream_long_answers(target):
    """An upstream whose answers are as long as they may be, without a loop and with one."""
    await asyncio.gather(target.chat("long"), target.chat("loop"))


@attack
async def upstream_floods(target):
    """An upstream that sends trailers, or informational answers, without end."""
    await asyncio.gather(target.chat("trailers"), target.chat("informational"), target.chat("endless-head"))  # fmt: skip


@attack
async def upstream_swelling(target):
    """An upstream whose answers, or single events, hold millions of values."""
    await asyncio.gather(target.chat("swelling"), target.chat("swelling"), target.chat("swelling-stream", stream=True))  # fmt: skip


@attack
async def upstream_crumbs(target):
    """An upstream that sends a stream of nothing: crumbs, empty events, comments, lines without an end."""
    await asyncio.gather(*(target.chat(name, stream=True) for name in ("crumbs", "comments", "blank", "one-line", "wild-index")))  # fmt: skip


@attack
async def upstream_names(target):
    """An upstream whose events have names, ids and delays without end, and whose pieces have long remarks."""
    await asyncio.gather(*(target.chat(name, stream=True) for name in ("names", "ids", "delays", "remarks", "long-size", "negative-size")))  # fmt: skip


@attack
async def upstream_waiting_calls(target):
    """Twelve answers at once, each a tool call that never ends, or half a loop: all of it waits for a verdict."""
    await asyncio.gather(*(target.chat(name, stream=True) for name in ("wild-index", "crumbs-of-a-call", "near-loop") * 4))  # fmt: skip


@attack
async def upstream_lines(target):
    """An upstream whose single events have millions of lines, or megabytes of text."""
    await asyncio.gather(*(target.chat(name, stream=True) for name in ("comment-lines", "data-lines", "long-event")))  # fmt: skip


@attack
async def upstream_shapes(target):
    """An upstream whose answers have any shape but the right one."""
    for n in range(len(SHAPES)):
        await target.chat(f"shape-{n}")


async def answer_badly(reader, writer, until):
    """The hostile upstream: the model's name says what it does."""
    length, body = 0, b""
    while (line := await reader.readline()).strip():
        if line.lower().startswith(b"content-length:"):
            length = int(line.split(b":")[1])
    body = await reader.readexactly(length)
    asked = "shape-0"
    with suppress(ValueError):
        asked = json.loads(body or b"{}").get("model", asked)
    first, piece = answer_of(asked)
    with suppress(OSError):
        writer.write(first)
        while piece and time.monotonic() < until():
            writer.write(piece)
            await writer.drain()
        await writer.drain()
    writer.close()


def answer_of(model):
    """What is sent first, and what is then sent without end."""
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
    stream = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n"
    answers = {"long": " ".join(map(str, range(1_000_000))), "loop": "and so on, " * 650_000}
    event = b'data: {"choices":[{"delta":{"content":"word "}}]}\n\n'
    if model.startswith("shape-"):
        return whole(head, SHAPES[int(model[6:])].encode()), b""
    if model in answers:
        answer = {"choices": [{"message": {"role": "assistant", "content": answers[model]}}]}
        return whole(head, json.dumps(answer).encode()), b""
    return {
        "bomb": (whole(head + b"content-encoding: gzip\r\n", BOMB), b""),
        "bomb-stream": (stream + b"content-encoding: gzip\r\n\r\n" + chunk(BOMB) + b"0\r\n\r\n", b""),
        "trailers": (head + b"transfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n", b"a:b\r\n" * 5_000),
        "informational": (b"", b"HTTP/1.1 103 Early Hints\r\n\r\n" * 1_000),
        "endless-head": (head, b"a:b\r\n" * 5_000),
        "swelling": (whole(head, b"[" + b"[]," * 2_500_000 + b"0]"), b""),
        "swelling-stream": (stream + b"\r\n" + chunk(b'data: {"choices": [' + b"[]," * 5_000_000 + b"0]}\n\n"), b""),
        "comment-lines": (stream + b"\r\n", COMMENT_LINES),
        "data-lines": (stream + b"\r\n", DATA_LINES),
        "long-event": (stream + b"\r\n", LONG_EVENT),
        "crumbs": (stream + b"\r\n" + chunk(b"data: "), chunk(b"x") * 5_000),
        "comments": (stream + b"\r\n", chunk(b": on\n\n" * 5_000)),
        "blank": (stream + b"\r\n", chunk(b"\r\n" * 5_000)),
        "one-line": (stream + b"\r\n" + chunk(b"data: "), chunk(b"\r" * 5_000)),
        "wild-index": (stream + b"\r\n", chunk(WILD)),
        "crumbs-of-a-call": (stream + b"\r\n", chunk(CALL * 200)),
        "near-loop": (stream + b"\r\n", chunk(NEAR_LOOP)),
        "names": (stream + b"\r\n", chunk((b"event: " + b"n" * 400 + b"\ndata: {}\n\n") * 200)),
        "ids": (stream + b"\r\n" + chunk(b"id: "), chunk(b"9" * 60_000)),
        "delays": (stream + b"\r\n", chunk(b"retry: 99999999999999999999\n" * 5_000)),
        "remarks": (stream + b"\r\n", (b"1;" + b"r" * 60_000 + b"\r\n:\r\n")),
        "long-size": (stream + b"\r\n", b"0" * 60_000),
        "negative-size": (stream + b"\r\n-5\r\nhello\r\n0\r\n\r\n", b""),
        "stream": (stream + b"\r\n", chunk(event * 200)),
    }[model]  # fmt: skip


def whole(head, body):
    return head + b"content-length: %d\r\n\r\n" % len(body) + body
