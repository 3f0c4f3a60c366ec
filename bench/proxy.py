"""The proxy against LiteLLM's: CPU a streamed chunk, time to the first token, memory, and streams at once.

    make bench-proxy                                                    5 minutes; installs LiteLLM into .bench
    make bench-proxy ARGS="--streams 10 --chunks 50 --total 400"        a short run, 1 minute
    make bench-proxy ARGS="--model FOLDER/model.gguf"                   also a real model, as loops are cut

A scripted upstream, the proxy and the load run as processes of their own, on loopback. CPU is what the kernel books to
the proxy's process while the streams run. Chunks are paced so that each is a read and a write of its own. The peer gets
the same upstream and the same load in the same run. With --model a real model behind llama.cpp's server answers too.
"""

import argparse
import asyncio
import json
import os
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

from bench.fixtures.services import tree_cpu_seconds

from millgate.guard import RepeatDetector

WORDS = [
    "gate", "water", "field", "stone", "channel", "keeper", "dawn", "wall", "river", "open",
    "close", "flow", "level", "summer", "rain",
]  # fmt: skip
PACE_S = 0.02
ME = (sys.executable, "-m", "bench.proxy")


# The scripted upstream


async def upstream() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                size = next(int(x.split(b":")[1]) for x in head.lower().split(b"\r\n") if x.startswith(b"content-length:"))  # fmt: skip
                asked = json.loads(await reader.readexactly(size))
                await stream(writer, int(asked.get("seed") or 100))
                if b"connection: close" in head.lower():
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def stream(writer: asyncio.StreamWriter, chunks: int) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")  # fmt: skip
        draw = random.Random(chunks)
        for at in range(chunks):
            delta = {"role": "assistant", "content": ""} if at == 0 else {"content": f" {draw.choice(WORDS)}{draw.randrange(99)}"}  # fmt: skip
            emit(writer, delta, None)
            await asyncio.sleep(PACE_S)
        emit(writer, {}, "stop")
        end = b"data: [DONE]\n\n"
        writer.write(b"%x\r\n%b\r\n0\r\n\r\n" % (len(end), end))

    def emit(writer: asyncio.StreamWriter, delta: dict, finish: str | None) -> None:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        data = {"id": "chatcmpl-bench", "object": "chat.completion.chunk", "created": 1720000000,
                "model": "bench", "system_fingerprint": "fp_bench", "choices": [choice]}  # fmt: skip
        event = b"data: " + json.dumps(data, separators=(",", ":")).encode() + b"\n\n"
        writer.write(b"%x\r\n%b\r\n" % (len(event), event))

    server = await asyncio.start_server(serve, "127.0.0.1", 0, backlog=2048)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


# Millgate


def serve(url: str, guard: str) -> None:
    import uvicorn
    from starlette.applications import Starlette

    from millgate.guard.policy import GuardPolicy
    from millgate.service.proxy.app import routes
    from millgate.service.proxy.proxy import Proxy
    from millgate.types.policy import ProxyPolicy

    policy = ProxyPolicy.model_validate({"upstreams": {"main": {"url": url}}})
    proxy = Proxy(policy, GuardPolicy(enabled=guard == "on"))
    sock = socket.socket()
    sock.bind(("127.0.0.1", 0))
    print(sock.getsockname()[1], flush=True)
    config = uvicorn.Config(
        Starlette(routes=routes(proxy)), http="httptools", loop="uvloop", log_level="warning", lifespan="off", backlog=2048
    )  # fmt: skip
    uvicorn.Server(config).run(sockets=[sock])


# The load


async def load(
    port: int, streams: int, chunks: int, *, model: str = "bench", prompt: str = "Tell me about millgates."
) -> dict:  # fmt: skip
    """Run streams at once; how many ended well, chunks that came, and times to the first of them."""
    body = json.dumps({"model": model, "stream": True, "seed": chunks,
                       "messages": [{"role": "user", "content": prompt}]}).encode()  # fmt: skip
    head = (b"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
            b"authorization: Bearer sk-bench\r\nconnection: close\r\ncontent-length: %d\r\n\r\n" % len(body))  # fmt: skip

    async def one() -> tuple[bool, int, float]:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        began = time.perf_counter()
        writer.write(head + body)
        data, first = b"", 0.0
        while part := await reader.read(65536):
            data += part
            if not first and b"data: " in data:
                first = time.perf_counter() - began
        writer.close()
        return b"[DONE]" in data, data.count(b"data: {"), first

    done = await asyncio.gather(*(one() for _ in range(streams)))
    return {"ok": sum(ok for ok, _, _ in done), "chunks": sum(n for _, n, _ in done), "first": [f for _, _, f in done]}  # fmt: skip


@contextmanager
def process(*command: str, **env: str):
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                               env={**os.environ, **env})  # fmt: skip
    try:
        yield running
    finally:
        running.terminate()
        try:
            running.wait(10)
        except subprocess.TimeoutExpired:
            running.kill()
            running.wait()
        running.stdout.close()


def measured(
    pid: int, port: int, streams: int, chunks: int, model: str = "bench"
) -> tuple[float, dict]:
    asyncio.run(load(port, 4, 20, model=model))  # warm
    before = tree_cpu_seconds(pid)
    got = asyncio.run(load(port, streams, chunks, model=model))
    return (tree_cpu_seconds(pid) - before) / max(1, got["chunks"]) * 1e6, got


def first_tokens(port: int, model: str = "bench", runs: int = 40, prompt: str = "Hi") -> float:
    """Median milliseconds to the first token, one stream at a time."""
    return 1000 * statistics.median(
        asyncio.run(load(port, 1, 2, model=model, prompt=prompt))["first"][0] for _ in range(runs)
    )


def long_prompt(source: int, port: int) -> None:
    """What the proxy adds to the first token of a prompt of about 200 000 tokens."""
    draw = random.Random(9)
    prompt = " ".join(draw.choice(WORDS) for _ in range(200_000))
    alone, behind = (first_tokens(at, runs=15, prompt=prompt) for at in (source, port))
    print(f"  a prompt of {len(prompt) / 1e6:.1f} MB: first token {alone:.2f} ms alone, {behind:.2f} behind the proxy, {behind - alone:+.2f}", flush=True)  # fmt: skip


def memory(pid: int, port: int, total: int) -> None:
    """The size of the process over many streams."""

    def megabytes() -> float:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6

    done, sizes = 0, []
    while done < total:
        got = asyncio.run(load(port, 200, 5))
        assert got["ok"] == 200, f"{200 - got['ok']} streams were lost"
        done += 200
        if done in (total // 10 // 200 * 200, total // 2 // 200 * 200, total):
            sizes.append(f"{megabytes():.0f} MB after {done}")
    print(f"  memory: {', '.join(sizes)} streams", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--streams", type=int, default=60)
    parser.add_argument("--chunks", type=int, default=300)
    parser.add_argument("--crowd", type=int, default=500)
    parser.add_argument("--total", type=int, default=20_000)
    parser.add_argument("--peer", default=".bench/litellm/bin/litellm")
    parser.add_argument("--model", default="")
    parser.add_argument("--serve", nargs=2)
    parser.add_argument("--upstream", action="store_true")
    args = parser.parse_args()
    if args.upstream:
        asyncio.run(upstream())
    elif args.serve:
        serve(*args.serve)
    else:
        compare(args)


def compare(args: argparse.Namespace) -> None:
    with process(*ME, "--upstream") as up:
        source = int(up.stdout.readline())
        url = f"http://127.0.0.1:{source}/v1"
        print(f"{args.streams} streams of {args.chunks} chunks, one each {PACE_S * 1000:g} ms")
        print(f"{'':22} {'CPU us/chunk':>12} {'streams ok':>12} {'first token ms':>15}")
        direct = first_tokens(source)
        print(f"{'upstream alone':22} {'':>12} {'':>12} {direct:>15.2f}")
        costs = {}
        for guard in ("on", "off"):
            with process(*ME, "--serve", url, guard) as proxy:
                port = int(proxy.stdout.readline())
                waiting(port)
                costs[guard], got = measured(proxy.pid, port, args.streams, args.chunks)
                first = first_tokens(port)
                row(f"millgate, guard {guard}", costs[guard], got, args.streams, first)
                if guard == "on":
                    crowd(proxy.pid, port, args)
                    long_prompt(source, port)
                    memory(proxy.pid, port, args.total)
        if Path(args.peer).exists():
            peer(args, url, costs["on"])
        else:
            print(f"no peer at {args.peer}: make bench-proxy installs it")
    if args.model:
        real(args.model)


def row(name: str, cost: float, got: dict, streams: int, first: float) -> None:
    print(f"{name:22} {cost:>12.1f} {got['ok']:>7} / {streams:<3} {first:>14.2f}", flush=True)


def crowd(pid: int, port: int, args: argparse.Namespace) -> None:
    """Many streams at once, on one core."""
    os.sched_setaffinity(pid, {0})
    cost, got = measured(pid, port, args.crowd, 100)
    print(
        f"{'  a crowd on one core':22} {cost:>12.1f} {got['ok']:>7} / {args.crowd:<3}", flush=True
    )


def waiting(port: int, seconds: float = 90) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.2)
        else:
            return
    raise SystemExit(f"nothing came up on port {port}")


def free() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def peer(args: argparse.Namespace, url: str, ours: float) -> None:
    """LiteLLM's proxy in front of the same upstream."""
    port = free()
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "config.yaml"
        config.write_text(
            "model_list:\n  - model_name: bench\n    litellm_params:\n"
            f"      model: openai/bench\n      api_base: {url}\n      api_key: sk-bench\n"
        )
        command = (args.peer, "--config", str(config), "--port", str(port), "--host", "127.0.0.1", "--num_workers", "1", "--telemetry", "False")  # fmt: skip
        with process(
            *command,
            LITELLM_LOG="ERROR",
            LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY="true",
            LITELLM_LOCAL_MODEL_COST_MAP="True",
            NO_PROXY="*",
        ) as running:
            waiting(port)
            time.sleep(2)
            cost, got = measured(running.pid, port, args.streams, args.chunks)
            row("litellm", cost, got, args.streams, first_tokens(port))
    print(f"litellm / millgate: {cost / ours:.1f} x")


PROMPTS = (
    "List 40 facts about rivers.",
    "Write a poem of 12 verses about honey.",
    "Make a table with 20 rows about tea.",
    "Write a dialogue of 30 lines about chess.",
    "Name one river in Africa.",
)


def real(model: str) -> None:
    """A small real model behind its own server, then behind the proxy: greedy answers that loop, and others."""
    port = free()
    script = (sys.executable, "-m", "bench.fixtures.small_model")
    command = (*script, "--model", model, "--port", str(port), "--context", "2048")
    with process(*command) as server:
        waiting(port, 180)
        with process(*ME, "--serve", f"http://127.0.0.1:{port}/v1", "on") as proxy:
            guarded = int(proxy.stdout.readline())
            waiting(guarded)
            for prompt in PROMPTS:
                for name, at in (("alone", port), ("behind millgate", guarded)):
                    text, report = answered(at, prompt)
                    stall = RepeatDetector().feed(text)
                    found = f"loops from {stall.onset}: {stall.reason}" if stall else "no loop"
                    print(
                        f"{prompt[:32]:33}{name:16}{len(text):>6} characters, {found} {report or ''}"
                    )
        assert server.poll() is None


def answered(port: int, prompt: str) -> tuple[str, dict | None]:
    """The text that a greedy model streams, and the usage it reports."""
    import urllib.request

    body = json.dumps({"model": "local", "stream": True, "temperature": 0, "max_tokens": 600, "stream_options": {"include_usage": True},
                       "messages": [{"role": "user", "content": prompt}]}).encode()  # fmt: skip
    ask = urllib.request.Request(f"http://127.0.0.1:{port}/v1/chat/completions", body, {"content-type": "application/json"})  # fmt: skip
    text, usage = "", None
    with urllib.request.urlopen(ask) as answer:
        for line in answer:
            if line.startswith(b"data: {"):
                found = json.loads(line[6:])
                usage = found.get("usage") or usage
                text += "".join(c["delta"].get("content") or "" for c in found.get("choices", ()))
    return text, usage


if __name__ == "__main__":
    main()
