"""The token estimate against the larger of two exact counts, by kind of text found on this machine.

Prints, per kind, the mean relative error and the 5th and 95th percentile of estimate / exact, for the estimate and
for characters / 4. Then, for each labeled set among the folders, contexts that fill a budget of 1 000 estimated tokens
are counted exactly: the mean share of the budget that they are in each vocabulary, and the highest in either.
Run: python bench/tokens.py [DIR with corpus.jsonl files ...]
"""

import gettext
import json
import random
import sys
import sysconfig
from pathlib import Path

import numpy as np

from headgate.evaluate.labeled import sample, sets
from headgate.gateway import Headgate
from headgate.text.tokens import counter, estimate_tokens

LANGUAGES = ("de", "fr", "es", "ru", "uk", "zh_CN", "ja", "ko", "ar", "vi")
SIZE = 1200
BUDGET = 1000
QUESTIONS = 40


def pieces(files, most=300):
    rng, found = random.Random(0), []
    for file in rng.sample(sorted(files), min(len(files), 80)):
        text = file.read_text("utf-8", errors="ignore")[: 12 * SIZE]
        found += [text[i : i + SIZE] for i in range(0, len(text), SIZE) if text[i:].strip()]
    return rng.sample(found, min(len(found), most))


def translations(language, most=150):
    rng, lines = random.Random(0), []
    for file in sorted(Path("/usr/share/locale").glob(f"{language}/LC_MESSAGES/*.mo"))[:40]:
        with file.open("rb") as raw:
            catalog = gettext.GNUTranslations(raw)._catalog
        lines += [v for v in catalog.values() if isinstance(v, str) and len(v) > 40]
    rng.shuffle(lines)
    return [" ".join(lines[i : i + 5]) for i in range(0, min(len(lines), 5 * most), 5)]


def kinds(folders):
    for folder in map(Path, folders):
        for corpus in sorted(folder.rglob("corpus.jsonl")):
            rows = [json.loads(line)["text"] for line in corpus.open()]
            yield corpus.parent.name, random.Random(0).sample(rows, min(len(rows), 400))
    stdlib = Path(sysconfig.get_paths()["stdlib"])
    yield "python", pieces(list(stdlib.glob("*.py")))
    yield "c headers", pieces(list(Path("/usr/include").glob("*.h")))
    yield "json", pieces(list(Path("/usr/share").glob("*/*.json")))
    for language in LANGUAGES:
        yield language, translations(language)


def main():
    counters = [counter("cl100k_base"), counter("o200k_base")]
    print(f"{'kind':14}{'texts':>6}   estimate: error   p5   p95    chars/4: error   p5   p95")
    for kind, texts in kinds(sys.argv[1:]):
        if not texts:
            continue
        truth = np.array([max(1, *(exact(t) for exact in counters)) for t in texts])
        line = f"{kind:14}{len(texts):>6}"
        for count in (estimate_tokens, lambda t: len(t) // 4):
            ratio = np.array([count(t) for t in texts]) / truth
            low, high = np.quantile(ratio, (0.05, 0.95))
            line += f"{np.abs(ratio - 1).mean():>16.1%}{low:>7.2f}{high:>6.2f}"
        print(line)
    print(f"\n{'filled contexts':16}{'':>6}   cl100k   o200k   highest   lowest larger")
    for folder in sys.argv[1:]:
        for labeled in sets(Path(folder)):
            measure_filled(sample(labeled, QUESTIONS), counters)


def measure_filled(labeled, counters):
    """How large contexts that fill the budget are, in each vocabulary, as shares of the budget."""
    found = []
    with Headgate.open(":memory:", grade={"enabled": False}) as hg:
        hg.add(labeled.rows)
        for query in labeled.queries:
            text = hg.context(
                query["text"], budget=BUDGET, collection=query.get("collection", "main")
            ).text
            if estimate_tokens(text) >= 0.97 * BUDGET:
                found.append([exact(text) / BUDGET for exact in counters])
    if found:
        means, larger = np.mean(found, 0), np.max(found, 1)
        print(
            f"{labeled.name:16}{len(found):>6}{means[0]:>9.2f}{means[1]:>8.2f}{larger.max():>10.2f}{larger.min():>17.2f}"
        )


if __name__ == "__main__":
    main()
