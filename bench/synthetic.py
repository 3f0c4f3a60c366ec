"""Realistic text in any amount: sentences of real corpora and package docs, recombined, with a long tail of names.

Sentences keep real word statistics; each chunk takes four to seven of them, mostly from one source, and a
few made-up names drawn by Zipf's law, so that the vocabulary keeps growing as it does in real text.
"""

import json
import random
import re
import sysconfig
from itertools import accumulate
from pathlib import Path

from headgate.types import Chunk

_SENTENCE = re.compile(r"(?<=[.!?])\s+")
_SYLLABLES = [c + v for c in "bdfgklmnprstvz" for v in ("a", "e", "i", "o", "u", "an", "el", "or")]


def corpora(folder):
    """The texts of every labeled set in a folder."""
    for path in sorted(Path(folder).glob("*/corpus.jsonl")):
        with path.open() as lines:
            yield [json.loads(line)["text"] for line in lines]


def queries(folder):
    """The questions of every labeled set in a folder."""
    for path in sorted(Path(folder).glob("*/queries.jsonl")):
        with path.open() as lines:
            yield [json.loads(line)["text"] for line in lines]


def manuals(limit=400):
    """Descriptions that installed packages carry."""
    paths = sorted(Path(sysconfig.get_path("purelib")).glob("*.dist-info/METADATA"))[:limit]
    return [path.read_text(errors="replace").partition("\n\n")[2] for path in paths]


def sentences(folder):
    """Sentences by source."""
    sources = [*corpora(folder), manuals()]
    out = []
    for texts in sources:
        found = [s.strip() for text in texts for s in _SENTENCE.split(text)]
        out.append([s for s in found if 20 < len(s) < 400])
    return [found for found in out if found]


class Names:
    """Made-up names, the n-th as frequent as Zipf's law has it."""

    def __init__(self, dice, count):
        self.dice = dice
        self.names = [
            "".join(dice.choices(_SYLLABLES, k=dice.randint(2, 4))).capitalize()
            for _ in range(count)
        ]
        self.weights = list(accumulate(1 / (n + 10) for n in range(count)))

    def some(self, k):
        return self.dice.choices(self.names, cum_weights=self.weights, k=k)


def chunks(folder, count, seed=7):
    """As many chunks as asked for, the same for the same seed."""
    dice = random.Random(seed)
    sources = sentences(folder)
    names = Names(dice, max(1000, count // 4))
    for n in range(count):
        source = dice.choice(sources)
        picked = dice.choices(source, k=dice.randint(3, 5))
        picked.append(dice.choice(dice.choice(sources)))
        a, b, c = names.some(3)
        picked.insert(dice.randint(0, len(picked)), f"In {1900 + n % 120} {a} met {b} at {c}.")
        title = f"{a} {b}" if dice.random() < 0.5 else ""
        yield Chunk(f"c{n}", " ".join(picked), document=f"c{n}", title=title)
