"""Windows that are slow to read, expand, are large, or in which nothing comes twice; and fingerprints of none."""

import asyncio
import json

import numpy as np
from bench.attacks.target import attack

from millgate.types.policy import Limits

LONGEST = Limits().window_chars

MARKS = "".join(map(chr, (0x0F74, 0x0327, 0x05B0, 0x0301)))  # of different combining classes


@attack
async def combining_marks(target):
    """A window of marks whose canonical order takes quadratic time."""
    body = {"query": "refunds", "current_window_text": MARKS * 250_000}
    await target.post("/v1/context", body)


@attack
async def expanding_letters(target):
    """A letter that compatibility forms make eighteen times as long."""
    await target.post(
        "/v1/context", {"query": "refunds", "current_window_text": "\ufdfa" * 2_000_000}
    )


@attack
async def large_windows(target):
    """Windows of four megabytes that would all be stored, and lists that would read them."""
    window = "the window says nothing new " * 140_000
    for n in range(6):
        await target.post("/v1/context", {"query": f"refunds {n}", "current_window_text": window})
    await asyncio.gather(*(target.get("/v1/traces?limit=1000") for _ in range(6)))


@attack
async def distinct_windows(target):
    """Windows in which nothing comes twice: many that could be remembered, and one as dense as there can be."""
    for n in range(8):
        window = " ".join(f"{n}{m:x}" for m in range(240_000))
        await target.post("/v1/context", {"query": "refunds", "current_window_text": window})
    dense = f'{{"query": "refunds", "current_window_text": "{dense_text(LONGEST)}"}}'
    await target.send("POST", "/v1/context", content=dense.encode())


@attack
async def hostile_fingerprints(target):
    """Fingerprints of windows that no client had."""
    made = (await target.post("/v1/fingerprint", {"current_window_text": "one two three " * 400})).json()  # fmt: skip
    wild = [
        {**made, "spans": made["spans"] * 1_500},
        {**made, "spans": [{**made["spans"][0], "token_count": 2**62}] * 100},
        {**made, "global_simhash64": "f" * 10**6},
        {**made, "global_minhash128": [2**64] * 128},
        {**made, "sketch": {**made["sketch"], "threes": {**made["sketch"]["threes"], "bits": 64}}},
        {**made, "sketch": dict.fromkeys(made["sketch"], "A" * 10**7)},
        {**made, "version": 10**18},
    ]
    for fingerprint in wild:
        body = {"query": "refunds", "current_window_fingerprint": fingerprint}
        await target.send("POST", "/v1/context", content=json.dumps(body).encode())


def dense_text(length):
    """Ideographs by chance: every one a token, and no five of them twice."""
    signs = np.random.default_rng(1).integers(0x4E00, 0x9F00, length)
    return signs.astype("<u4").tobytes().decode("utf-32-le")


@attack
async def scripts_without_spaces(target):
    """Windows of one word without end, of syllables, and of signs of four bytes: no place to cut, or one everywhere."""
    for sign, most in (("ა", LONGEST), ("あ", LONGEST), ("가", LONGEST), ("က", LONGEST), ("😀", 7_900_000), ("Σ", LONGEST)):  # fmt: skip
        body = f'{{"query": "refunds", "current_window_text": "{sign * most}"}}'
        await target.send("POST", "/v1/context", content=body.encode())


@attack
async def one_wide_sign(target):
    """The largest bodies, in which one sign makes a text two or four times as large, over every protocol."""
    text = "the tide turns " * 2_080_000
    for sign in ("", "\\n", "\N{LATIN SMALL LETTER L WITH STROKE}", "\N{GRINNING FACE}"):
        wide = f'"{sign}{text}"'
        for path, body in (
            ("/v1/context", f'{{"query": "refunds", "current_window_text": {wide}}}'),
            ("/v1/fingerprint", f'{{"current_window_text": {wide}}}'),
            ("/v1/chat/completions", f'{{"model": "shape-4", "messages": [{{"role": "user", "content": {wide}}}]}}'),
            ("/mcp", f'{{"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {{"cursor": {wide}}}}}'),
        ):  # fmt: skip
            await target.send("POST", path, content=body.encode())


@attack
async def wide_fingerprints(target):
    """Windows whose fingerprint would be larger than they are: of many blocks, of many spans, of many words."""
    for window in (
        {"current_window_blocks": ["a"] * 99_000},
        {"current_window_text": dense_text(2_000_000)},
        {"current_window_text": "ab cd " * (LONGEST // 6)},
        {"current_window_text": "* " * (LONGEST // 2)},
        {"current_window_text": "`" * LONGEST},
    ):
        body = json.dumps(window, ensure_ascii=False).encode()
        await target.send("POST", "/v1/fingerprint", content=body)
