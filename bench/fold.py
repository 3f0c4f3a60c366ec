"""Folding on recorded sessions: the laws, the bill saved, what each rule costs, a peer, CPU, memory, a real model.

    make bench-fold ARGS="--sessions FOLDER"      recorded sessions: *.jsonl.gz, of Claude Code or a conversation a line
    make bench-fold                               sessions drawn from seeds, and CPU and memory
    make bench-fold ARGS="--model 100"            questions to a model of 135 M parameters, folded and unfolded

The bill is simulated at the prices of claude-opus-4-6: each call reads from the cache what the last one left there, and
writes what is new. What a provider counted beyond the file (system prompt, tools) is added as it stood at the first
call. The peer is Headroom's folding of spans (headroom-ai), installed apart and fed the same tool results, with its own
least run of 3 lines and with ours of 20. A pointer is ambiguous if several differing places fit all that it says.
"""

import argparse
import ast
import gzip
import json
import re
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
from bench.fixtures.coding import KINDS, coding_session, render_all
from bench.fixtures.folded_questions import compare_answers
from rich.console import Console
from rich.table import Table

import millgate
from millgate.circles.action import as_json
from millgate.circles.reader import is_from_model
from millgate.sessions.folding.folder import RULES, Folder
from millgate.sessions.folding.pointer import find_pointers, read_lines, resolve
from millgate.sessions.folding.report import FoldReport
from millgate.sessions.folding.texts import TextReader
from millgate.spending.prices import Price, Prices
from millgate.text.tokens import estimate_tokens

MODEL = "claude-opus-4-6"
PEER = Path(".bench/headroom/bin/python")
CUTS = 5  # beginnings of each session that are folded on their own, for the prefix law
WINDOW = 200_000  # tokens
RUNS = 40  # turns that are added for the CPU
# Runs in the peer's own environment: conversations as lists of [turn, text] in, the same folded out.
PEER_SCRIPT = """
import json, sys
from headroom.transforms.cross_turn_dedup import DedupBlock, dedup_blocks
least, sessions = json.load(sys.stdin)
out = []
for blocks in sessions:
    folded, _ = dedup_blocks([DedupBlock(text, turn) for turn, text in blocks], min_lines=least)
    out.append([[block.turn, block.text] for block in folded])
json.dump(out, sys.stdout)
"""
_PEER_POINTER = re.compile(r"\[↑(\d+)L same as msg (\d+)(?: [+-]\d+L)?: (.+)\]")


@dataclass
class Conversation:
    """One window while it grew, and what the provider counted for it beyond the file."""

    messages: list[dict[str, Any]]
    beyond: int = 0
    sizes: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.sizes = [
            estimate_tokens(m["content"] if isinstance(m.get("content"), str) else as_json(m))
            for m in self.messages
        ]


# Reading


def read_sessions(folder: Path) -> dict[str, list[Conversation]]:
    """The conversations below a folder, by the folder or file that holds them."""
    found: dict[str, list[Conversation]] = {}
    for path in sorted(folder.rglob("*.jsonl.gz")):
        name = path.name.split(".")[0] if path.parent == folder else path.parent.name
        with gzip.open(path, "rt", encoding="utf-8") as file:
            rows = [orjson.loads(line) for line in file]
        whole = [row["messages"] for row in rows if isinstance(row.get("messages"), list)]
        found.setdefault(name, [])
        found[name] += map(Conversation, whole) if whole else read_claude(rows)
    return found


def read_claude(rows: Iterable[dict[str, Any]]) -> Iterator[Conversation]:
    """The windows of a transcript of Claude Code; a compaction begins another, and a subagent has its own."""
    windows: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        owner = f"{row.get('sessionId')}{row.get('agentId') if row.get('isSidechain') else ''}"
        if row.get("isCompactSummary") or row.get("subtype") == "compact_boundary":
            yield from map(_window, filter(None, [windows.pop(owner, None)]))
        if row.get("type") in ("user", "assistant"):
            windows.setdefault(owner, []).append(row["message"])
    yield from map(_window, windows.values())


def _window(rows: list[dict[str, Any]]) -> Conversation:
    """Messages as a request has them: one message of the model is written as several lines."""
    messages: list[dict[str, Any]] = []
    begun: dict[str, dict[str, Any]] = {}
    usage: dict[str, Any] = {}
    for row in rows:
        if row["role"] == "assistant" and row.get("id") in begun:
            begun[row["id"]]["content"] += row["content"]
            continue
        if row["role"] == "assistant":
            usage = usage or {"at": len(messages), **(row.get("usage") or {})}
        content = row["content"] if isinstance(row["content"], str) else list(row["content"])
        messages.append({"role": row["role"], "content": content})
        begun |= {row["id"]: messages[-1]} if row.get("id") else {}
    made = Conversation(messages)
    names = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    counted = sum(usage.get(name) or 0 for name in names)
    made.beyond = max(0, counted - sum(made.sizes[: usage.get("at", 0)]))
    return made


# The bill


def simulate(conversation: Conversation, saved: dict[int, int], price: Price) -> tuple[float, float]:  # fmt: skip
    """What a conversation costs, and what of that is saved if messages are shorter by so many tokens."""
    cost = spared = 0.0
    old, new, old_saved, new_saved = 0, conversation.beyond, 0, 0
    for at, message in enumerate(conversation.messages):
        if not is_from_model(message):
            new, new_saved = new + conversation.sizes[at], new_saved + saved.get(at, 0)
            continue
        output = conversation.sizes[at]
        cost += price.cost(read=old, written=new, output=output)
        spared += price.cost(read=old_saved, written=new_saved)
        old, new, old_saved, new_saved = old + new, output, old_saved + new_saved, 0
    return cost, spared


def saved_by(report: FoldReport) -> dict[int, int]:
    """The tokens that folds save, by message."""
    saved: dict[int, int] = {}
    for fold in report.folds:
        saved[fold.at] = saved.get(fold.at, 0) + fold.tokens
    return saved


# The laws


def check_laws(conversation: Conversation) -> dict[str, int]:
    """How often each law was broken, over all results of a conversation; and how many results and folds there are."""
    messages = conversation.messages
    sent, report = millgate.fold(messages)
    step = max(1, len(messages) // CUTS)
    shorter = [millgate.fold(messages[:cut])[0] == sent[:cut] for cut in range(1, len(messages), step)]  # fmt: skip
    longer = [len(orjson.dumps(b)) > len(orjson.dumps(a)) for a, b in zip(messages, sent, strict=True)]  # fmt: skip
    pointers = list(check_pointers(sent))
    return {
        "results": sum(part.kind == "result" for part in _parts(messages)),
        "folds": len(report.folds),
        "stops": report.stopped_at is not None,
        "not given back": millgate.expand(sent) != messages,
        "prefix changed": shorter.count(False),
        "not unique": sum(count != 1 for count in pointers) + (len(pointers) != len(report.folds)),
        "short runs": sum(fold.lines < 20 for fold in report.folds),
        "longer": sum(longer),
    }


def _parts(messages: list[dict[str, Any]]) -> Iterator[Any]:
    reader = TextReader()
    for message in messages:
        yield from reader.read(message)


def check_pointers(sent: list[dict[str, Any]]) -> Iterator[int]:
    """For each pointer, how many places above it fit all that it says."""
    earlier: list[tuple[str, list[str]]] = []
    for part in _parts(sent):
        lines = part.text.split("\n")
        for _, pointer in find_pointers(lines) if part.kind == "result" else ():
            named = [other for name, other in earlier if name == pointer["name"]]
            yield sum(resolve(pointer, read_lines(other)) is not None for other in named)
        earlier.append((part.name, lines))


# The peer


def ask_peer(conversations: list[Conversation], least: int) -> tuple[list[dict[int, int]], int, int]:  # fmt: skip
    """What the peer saves in each conversation, its pointers, and how many of those are ambiguous."""
    blocks = []
    for conversation in conversations:
        reader = TextReader()
        rows = [(at, part) for at, m in enumerate(conversation.messages) for part in reader.read(m)]
        blocks.append([[at, part.text] for at, part in rows if part.kind == "result"])
    asked = subprocess.run(
        [PEER, "-c", PEER_SCRIPT], input=json.dumps([least, blocks]), capture_output=True, text=True, check=True,
    )  # fmt: skip
    saved: list[dict[int, int]] = []
    pointers = ambiguous = 0
    for before, after in zip(blocks, json.loads(asked.stdout), strict=True):
        spared: dict[int, int] = {}
        for (at, text), (_, folded) in zip(before, after, strict=True):
            if text != folded:
                spared[at] = spared.get(at, 0) + estimate_tokens(text) - estimate_tokens(folded)
        counts = list(_peer_places(after))
        pointers, ambiguous = pointers + len(counts), ambiguous + sum(n > 1 for n in counts)
        saved.append(spared)
    return saved, pointers, ambiguous


def _peer_places(blocks: list[list[Any]]) -> Iterator[int]:
    """For each of the peer's pointers, how many differing places fit the message, the lines and the words it names."""
    for _, text in blocks:
        for count, turn, quoted in _PEER_POINTER.findall(text):
            words = str(ast.literal_eval(quoted)).removesuffix("...")
            places = set()
            for at, other in blocks:
                lines = other.split("\n") if at == int(turn) else []
                for first in range(len(lines) - int(count) + 1):
                    run = lines[first : first + int(count)]
                    begins = next((_bare(line) for line in run if line.strip()), "")
                    if begins.startswith(words) and not any(map(_PEER_POINTER.fullmatch, run)):
                        places.add("\n".join(run))
            yield len(places)


def _bare(line: str) -> str:
    return re.sub(r"^[1-9]\d*[:\t]", "", line).strip()


# Tables


def show_sessions(name: str, conversations: list[Conversation], console: Console) -> None:
    """The laws, the bill and the peer on one set of sessions."""
    price = Prices().find(MODEL)
    assert price is not None
    laws = [check_laws(conversation) for conversation in conversations]
    totals = {key: sum(row[key] for row in laws) for key in laws[0]} if laws else {}
    console.print(f"\n[bold]{name}[/bold]: {len(conversations)} conversations; " + ", ".join(f"{k} {v:,}" for k, v in totals.items()))  # fmt: skip
    table = Table("", "bill saved", "saved tokens", "dearer", "pointers", "ambiguous", box=None)

    def row(label: str, saved: list[dict[int, int]], pointers: int, ambiguous: int | str) -> None:
        bills = [simulate(c, s, price) for c, s in zip(conversations, saved, strict=True)]
        share = sum(spared for _, spared in bills) / sum(cost for cost, _ in bills)
        dearer = sum(spared < 0 for _, spared in bills)
        tokens = sum(sum(s.values()) for s in saved)
        table.add_row(label, f"{share:.2%}", f"{tokens:,}", str(dearer), f"{pointers:,}", str(ambiguous))  # fmt: skip

    for label, rules in (("Millgate", RULES), *((f"  without the rule: {rule}", RULES - {rule}) for rule in sorted(RULES)), ("  without any rule", frozenset())):  # fmt: skip
        reports = [_fold(c.messages, rules) for c in conversations]
        row(label, list(map(saved_by, reports)), sum(len(r.folds) for r in reports), totals["not unique"] if rules == RULES else "")  # fmt: skip
    if PEER.exists():
        for least in (3, 20):
            row(f"Headroom, from {least} lines", *ask_peer(conversations, least))
    console.print(table)


def _fold(messages: list[dict[str, Any]], rules: frozenset[Any]) -> FoldReport:
    folder = Folder(rules=rules)
    folder.extend(messages)
    return folder.report


def show_cost(conversations: list[Conversation], console: Console) -> None:
    """CPU of adding a turn to a large window, and the memory that is kept of it."""
    messages: list[dict[str, Any]] = []
    tokens = 0
    for number, conversation in enumerate(conversations):
        for message, size in zip(conversation.messages, conversation.sizes, strict=True):
            text = orjson.dumps(message).decode().replace("toolu_", f"toolu_{number}x")
            messages.append(orjson.loads(text))
            tokens += size
        if tokens > WINDOW:
            break
    body, folder, times = orjson.dumps(messages), Folder(), []
    began = time.process_time()
    folder.extend(orjson.loads(body)[: -2 * RUNS])
    first = time.process_time() - began
    for end in range(len(messages) - 2 * RUNS + 2, len(messages) + 1, 2):
        given = orjson.loads(body)[:end]
        began = time.process_time()
        folder.extend(given)
        folder.apply(given)
        times.append(1000 * (time.process_time() - began))
    times.sort()
    tracemalloc.start()
    kept, given = Folder(), orjson.loads(body)
    before = tracemalloc.get_traced_memory()[0]
    kept.extend(given)
    memory = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    console.print(
        f"\nwindow of {tokens:,} tokens, {len(messages)} messages: a turn takes {times[len(times) // 2]:.1f} ms of CPU "
        f"(worst of {len(times)}: {times[-1]:.1f}), the first reading {1000 * first:.0f}; kept: {memory / 1e6:.1f} MB"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)  # fmt: skip
    parser.add_argument("--sessions", type=Path, help="a folder of recorded sessions")
    parser.add_argument("--model", type=int, default=0, metavar="N", help="questions to a small model")  # fmt: skip
    parser.add_argument("--first", type=int, default=0, help="the seed of the first question")
    given = parser.parse_args()
    console = Console(width=120)
    if given.model:
        console.print(compare_answers(given.model, given.first))
        return
    if given.sessions:
        sets = read_sessions(given.sessions)
        if not any(sets.values()):
            sys.exit(f"there are no sessions (*.jsonl.gz) in {given.sessions}")
    else:
        sets = {kind: [Conversation(render_all(coding_session(s, steps=60), kind)) for s in range(20)] for kind in KINDS}  # fmt: skip
    for name, conversations in sets.items():
        show_sessions(name, conversations, console)
    show_cost(max(sets.values(), key=lambda found: max(sum(c.sizes) for c in found)), console)


if __name__ == "__main__":
    main()
