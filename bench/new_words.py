"""Words without end: whether the tables of words stop growing.

    python bench/new_words.py [--words 600000]

Texts of words that were never met before are indexed, named and asked for, in English and in German, as a service does
that runs for months. After each part the anonymous memory of the process is printed. It fails where the last third of
the run adds more than 2 MB.
"""

import argparse
import gc
import os
import random
import sys

from workload import status

from headgate.index.segment import build
from headgate.text.names import names
from headgate.text.terms import terms
from headgate.types import Chunk

PARTS = 24
WORDS = 100  # of a text
LETTERS = "abcdefghiklmnoprstuvwz"


def new_text(rng, small_words):
    """A text of words that were never met, some of them names, and of function words that tell its language."""
    fresh = ["".join(rng.choices(LETTERS, k=rng.randint(6, 12))) for _ in range(WORDS)]
    fresh[::10] = [word.capitalize() for word in fresh[::10]]
    return " ".join(fresh + small_words * 8)


def feed(rng, count, at):
    for small_words in (["the", "of", "and"], ["und", "der", "nicht", "für"]):
        chunks = [
            Chunk(f"{at}-{n}", new_text(rng, small_words)) for n in range(count // WORDS // 2)
        ]
        build(chunks, range(len(chunks)))
        for chunk in chunks:
            terms(chunk.text, "english+german")
            names(chunk.text)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--words", type=int, default=600_000)
    given = parser.parse_args()
    rng, held = random.Random(7), []
    for at in range(PARTS):
        feed(rng, given.words // PARTS, at)
        gc.collect()
        held.append(status(os.getpid(), "RssAnon") / 1024)
        print(f"{(at + 1) * given.words // PARTS:>9,} words   {held[-1]:6.1f} MB", flush=True)
    grown = held[-1] - max(held[: PARTS * 2 // 3])
    print(
        f"the tables take {held[-1] - held[0]:+.1f} MB; the last third added {max(grown, 0):.1f} MB"
    )
    sys.exit(grown > 2)


if __name__ == "__main__":
    main()
