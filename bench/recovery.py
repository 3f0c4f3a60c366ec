"""A real small model that loops, and how well it goes on after a cut, for several ways to resume.

    make bench-recovery                                    60 looping prompts, several hours of CPU
    make bench-recovery ARGS="--prompts 5"                 a short run, about 20 minutes
    make bench-recovery ARGS="--prompts 34 --streams FILE" loops of labeled streams of the same model

The model is SmolLM2-135M (a package of 110 MB, installed once), greedy and without penalty. Prompts of many kinds are
asked in turn; those whose greedy answer the detector stops are the looping ones. The first call of each is made once
and replayed for every way to resume, so that all ways start from the same loop. A run is recovered if it ends without
a loop; it ended on its own if the model stopped. Copies are counted in the client's whole text, without asking the
guard. Each answer and each run is a line of .bench/recovery.jsonl: an interrupted comparison goes on where it was.
"""

import argparse
import gzip
import itertools
import json
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import orjson
from bench.fixtures.small_model import serve
from rich.console import Console
from rich.table import Table

from millgate.errors import LoopError
from millgate.guard import PUBLISHED_DIVERGENCE, Cut, Guard, RepeatDetector
from millgate.guard.resume import FINISH, NUDGE, TURNS

TOKENS = 450  # limit of one call
FEWER = 20  # prompts for each way but the default ones
UNIT = 40  # shortest unit whose copies are counted
RUNS = Path(".bench/recovery.jsonl")

TOPICS = [
    "rivers", "bridges", "honey", "chess", "volcanoes", "robots", "planets", "libraries",
    "trains", "tea", "glass", "whales", "music", "castles", "rice", "clocks", "maps", "gardens",
    "storms", "salt",
]  # fmt: skip
ASKS = (
    "List 40 facts about {}.",
    "Write a long story about {}.",
    "Make a table with 20 rows about {}.",
    "Write a poem of 12 verses about {}.",
    "Explain {} to a child, in great detail.",
    "Write a JSON document with 25 records about {}.",
    "Write a Python program about {} with many functions.",
    "Write a dialogue of 30 lines about {}.",
)

Messages = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Way:
    """One way to resume."""

    name: str
    knobs: Mapping[str, Any]
    nucleus: bool = False  # llama.cpp's own top_k 40, top_p .95, min_p .05; else none, as the OpenAI API samples
    fewer: bool = True


@dataclass(frozen=True)
class Run:
    """How one run ended."""

    prompt: str
    way: str
    recovered: bool
    ended: bool
    rollbacks: int
    tokens: int
    extra: float
    leak: bool
    cuts: list[str]
    text: str


WARM, COLD = ({"temperature": 0.8},), ({"temperature": 0.0},)
WAYS = (
    Way("plain words, warmer each time (default)", {}, fewer=False),
    Way("the same within a nucleus", {}, nucleus=True, fewer=False),
    Way("words alone, greedy", {"sampling": ()}, fewer=False),
    Way("plain words, greedy", {"sampling": COLD}),
    Way("prefill, greedy (the same call again)", {"resume": "prefill", "sampling": COLD}),
    Way("prefill, .8", {"resume": "prefill", "sampling": WARM}),
    Way("published token, greedy", {"divergence": PUBLISHED_DIVERGENCE, "sampling": COLD}),
    Way("published token, .8", {"divergence": PUBLISHED_DIVERGENCE, "sampling": WARM}),
)
PLAIN = {"top_p": 1.0, "top_k": 0, "min_p": 0.0}


class Model:
    """The small model behind `generate`; counts tokens, remembers how the last call ended."""

    def __init__(self) -> None:
        self._server = serve()
        # The server closes idle connections, which a loaded machine notices too late: each call has its own.
        once = httpx2.Limits(max_keepalive_connections=0)
        address = self._server.listening_address
        self._client = httpx2.Client(base_url=address, timeout=600, limits=once)
        self.tokens, self.finish, self.nucleus = 0, "", False
        self.first: Sequence[str] = ()

    def __call__(
        self, messages: Messages, *, sampling: Mapping[str, float] | None = None
    ) -> Iterator[str]:
        """Stream one answer: a prompt's first call is replayed, later ones are greedy without `sampling`."""
        if self.first:
            first, self.first = self.first, ()
            yield from first
            return
        sampling = {"temperature": 0.0} if sampling is None else sampling
        for text in self.say(messages, {**({} if self.nucleus else PLAIN), **sampling}):
            self.tokens += 1
            yield text

    def say(self, messages: Messages, sampling: Mapping[str, float]) -> Iterator[str]:
        """One call of the model."""
        prompt = "".join(f"<|im_start|>{m['role']}\n{m['content']}<|im_end|>\n" for m in messages)
        prompt += "<|im_start|>assistant\n"
        if messages[-1]["role"] == "assistant":  # a prefill: the answer goes on
            prompt = prompt.removesuffix("<|im_end|>\n<|im_start|>assistant\n")
        self.finish = ""
        fields = {
            "prompt": prompt,
            "max_tokens": TOKENS,
            "stop": ["<|im_end|>"],
            "stream": True,
            "seed": 7,
            "repeat_penalty": 1.0,
            "repeat_last_n": 512,
            **sampling,
        }
        # Leaving the stream early closes the connection, which ends the call.
        with self._client.stream("POST", "/v1/completions", json=fields) as answer:
            for line in answer.iter_lines():
                if not line.startswith("data: {"):
                    continue
                choice = orjson.loads(line[6:])["choices"][0]
                self.finish = choice["finish_reason"] or self.finish
                if choice["text"]:
                    yield choice["text"]


def prompts() -> list[str]:
    """Every ask about every topic, in an order that mixes them."""
    everything = [ask.format(topic) for ask, topic in itertools.product(ASKS, TOPICS)]
    random.Random(3).shuffle(everything)
    return everything


def recorded(path: Path) -> dict[str, list[str]]:
    """Greedy answers of a file of labeled streams that end in a loop, by prompt, in an order that mixes them."""
    with (gzip.open if path.suffix == ".gz" else open)(path, "rb") as lines:
        rows = [orjson.loads(line) for line in lines]
    loops = {
        row["prompt"]: row["chunks"]
        for row in rows
        if row["label"]["loop"] and row["temperature"] == 0 and row["kind"] != "raw"
    }
    order = sorted(loops)
    random.Random(3).shuffle(order)
    return {prompt: loops[prompt] for prompt in order}


def compare(
    wanted: int,
    out: Console,
    *,
    ways: Sequence[Way] = WAYS,
    path: Path = RUNS,
    streams: Path | None = None,
) -> None:
    """Recover looping prompts, or the loops of labeled streams, by every way and print the table."""
    path.parent.mkdir(exist_ok=True)
    model, began = Model(), time.process_time()
    answers, runs = _known(path)
    known = recorded(streams) if streams else {}
    answers |= known
    loops = asked = 0
    for prompt in known or prompts():
        if loops == wanted:
            break
        asked += 1
        if prompt not in answers:
            answers[prompt] = _first(model, prompt)
            _note(path, {"prompt": prompt, "first": answers[prompt]})
        if not _loops(answers[prompt]):
            continue
        loops += 1
        for way in ways:
            if (prompt, way.name) not in runs and (loops <= FEWER or not way.fewer):
                run = runs[prompt, way.name] = recover(model, prompt, answers[prompt], way)
                _note(path, asdict(run))
        if loops % 5 == 0:
            out.print(f"{loops} of {asked} prompts, {time.process_time() - began:.0f} CPU s")
    out.print(f"{loops} of {asked} prompts loop at temperature 0")
    out.print(table(ways, runs.values()))


def _known(path: Path) -> tuple[dict[str, list[str]], dict[tuple[str, str], Run]]:
    """First answers and runs of an earlier comparison."""
    lines = path.read_text().splitlines() if path.exists() else []
    rows = [json.loads(line) for line in lines]
    answers = {row["prompt"]: row["first"] for row in rows if "first" in row}
    return answers, {(row["prompt"], row["way"]): Run(**row) for row in rows if "way" in row}


def _note(path: Path, row: Mapping[str, Any]) -> None:
    with path.open("a") as lines:
        lines.write(json.dumps(row) + "\n")


def _first(model: Model, prompt: str) -> list[str]:
    """The greedy answer, up to its stall if it loops."""
    detector, pieces = RepeatDetector(), []
    for text in model.say([{"role": "user", "content": prompt}], {"temperature": 0.0}):
        pieces.append(text)
        if detector.feed(text):
            break
    return pieces


def _loops(pieces: Sequence[str]) -> bool:
    detector = RepeatDetector()
    return any(detector.feed(piece) for piece in pieces)


def recover(model: Model, prompt: str, first: Sequence[str], way: Way) -> Run:
    """One guarded run."""
    guard = Guard(model, **way.knobs)
    model.first = first
    model.tokens, model.nucleus = 0, way.nucleus
    text, recovered = "", True
    try:
        for piece in guard.iterate(prompt):
            text += piece
    except LoopError:
        recovered = False
    report = guard.report
    return Run(
        prompt,
        way.name,
        recovered,
        recovered and model.finish == "stop",
        report.rollbacks,
        model.tokens,
        max([copies(text, cut) - 1 for cut in report.cuts if cut.period >= UNIT], default=0.0),
        any(steering in text for steering in (PUBLISHED_DIVERGENCE, NUDGE, FINISH, *TURNS)),
        [f"{cut.reason} {cut.unit[:60]!r}" for cut in report.cuts],
        text,
    )


def copies(text: str, cut: Cut) -> float:
    """The most copies in a row of a unit that was cut, anywhere in the text, parts of a copy included."""
    chars = np.frombuffer(text.encode("utf-32-le"), dtype=np.uint32)
    if len(chars) <= cut.period:
        return 0.0
    same = np.concatenate(([False], chars[cut.period :] == chars[: -cut.period], [False]))
    edges = np.flatnonzero(same[1:] != same[:-1]).tolist()
    most = 0.0
    for start, end in zip(edges[::2], edges[1::2], strict=True):
        if cut.unit in text[start : start + cut.period] * 2:
            most = max(most, (end - start) / cut.period + 1)
    return most


def table(ways: Sequence[Way], runs: Sequence[Run]) -> Table:
    """The ways side by side."""
    shown = Table(
        "way", "n", "recovered after 1 / 2 / 3", "ended on its own", "tokens", "most extra copies", "steering shown"
    )  # fmt: skip
    for way in ways:
        of = [run for run in runs if run.way == way.name]
        if not of:
            continue
        n = len(of)
        shares = (sum(run.recovered and run.rollbacks <= i for run in of) / n for i in (1, 2, 3))
        shown.add_row(
            way.name,
            str(n),
            " / ".join(f"{part:.2f}" for part in shares),
            f"{sum(run.ended for run in of) / n:.2f}",
            f"{sum(run.tokens for run in of) / n:.0f}",
            f"{max(run.extra for run in of):.2f}",
            str(sum(run.leak for run in of)),
        )
    return shown


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--prompts", type=int, default=60)
    parser.add_argument("--streams", type=Path, help="labeled streams, .jsonl or .jsonl.gz")
    given = parser.parse_args()
    compare(given.prompts, Console(width=130), streams=given.streams)


if __name__ == "__main__":
    main()
