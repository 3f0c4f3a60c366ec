"""The token estimate against the larger of two exact counts, by kind of text found on this machine.

Prints, per kind, the mean relative error and the 5th and 95th percentile of estimate / exact, for the estimate and
for characters / 4. Run: python bench/tokens.py [DIR with corpus.jsonl files ...]
"""

import gettext
import json
import random
import sys
import sysconfig
from pathlib import Path

import numpy as np

from headgate.text.tokens import counter, estimate_tokens

LANGUAGES = ("de", "fr", "es", "ru", "uk", "zh_CN", "ja", "ko", "ar", "vi")
SIZE = 1200


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


if __name__ == "__main__":
    main()
