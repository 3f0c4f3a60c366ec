"""What memory costs: how far prefetch_all overruns its deadline, and CPU ms of remembering and recalling facts.

    python bench/memory.py [--facts 10000] [--rounds 20]

The overrun is wall time beyond a deadline of 0.2 s with one provider that hangs, one that raises and three that answer.
Facts are random sentences of 6 to 14 words from a Zipf-like vocabulary of 5 000.
"""

import argparse
import asyncio
import random
import threading
from time import monotonic, process_time

from headgate.memory.facts import Facts
from headgate.memory.provider_pool import ProviderPool, RecallPolicy
from headgate.memory.providers import prefetch_all
from headgate.stores.memory.store import MemoryStore

DEADLINE = 0.2


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--facts", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=20)
    args = parser.parse_args()
    overruns = asyncio.run(overrun(args.rounds))
    print(f"overrun of prefetch_all, ms: p50 {middle(overruns):.1f}, max {overruns[-1]:.1f}")
    add, recall = facts(args.facts)
    print(
        f"{args.facts} facts, CPU ms: add {add:.3f}, recall p50 {middle(recall):.2f}, p95 {late(recall):.2f}"
    )


class Provider:
    def __init__(self, name: str, answer) -> None:
        self.name = name
        self.answer = answer

    def prefetch(self, query: str) -> str:
        return self.answer()


async def overrun(rounds: int) -> list[float]:
    release = threading.Event()
    times = []
    for _ in range(rounds):
        pool = ProviderPool(
            [
                Provider("hangs", lambda: release.wait(60) and ""),
                Provider("raises", lambda: 1 / 0),
                *(Provider(f"answers{n}", lambda: "text") for n in range(3)),
            ],
            RecallPolicy(deadline_s=DEADLINE),
        )
        began = monotonic()
        recalled = await prefetch_all("what did we decide?", pool)
        times.append(1000 * (monotonic() - began - DEADLINE))
        assert len(recalled.degraded) == 2
        assert recalled.text.count("text") == 3
    release.set()
    return sorted(times)


def facts(count: int) -> tuple[float, list[float]]:
    dice = random.Random(7)

    def sentence() -> str:
        return " ".join(word(int(5_000 ** dice.random())) for _ in range(dice.randint(6, 14)))

    facts = Facts(MemoryStore(), "bench")
    began = process_time()
    for _ in range(count):
        facts.add(sentence())
    add = 1000 * (process_time() - began) / count
    times = []
    for _ in range(200):
        query = sentence()
        began = process_time()
        facts.recall(query)
        times.append(1000 * (process_time() - began))
    return add, sorted(times)


def word(number: int) -> str:
    """A made-up word of syllables; one with digits would be read as an identifier, and in parts."""
    syllables = [consonant + vowel for consonant in "bdfgklmnprstvz" for vowel in "aeiou"]
    found = ""
    while number or not found:
        number, at = divmod(number, len(syllables))
        found += syllables[at]
    return found + "x"


def middle(times: list[float]) -> float:
    return times[len(times) // 2]


def late(times: list[float]) -> float:
    return times[int(len(times) * 0.95)]


if __name__ == "__main__":
    main()
