"""The token estimate against two exact counts: what texts count that fill a budget of 1 000 estimated tokens.

    make bench-tokens [ARGS="DIR ..."]      3 minutes; DIR holds labeled sets, or folders with a corpus.jsonl

By kind of text found on this machine and in the folders, and of random text: the mean share of the budget in cl100k
and o200k, then of the larger count the lowest share, the one that 95 % stay under and the highest, and the mean error
of characters / 4. Then the same for real contexts, for each labeled set among the folders.
"""

import argparse
import gettext
import json
import random
import string
import sysconfig
from pathlib import Path

import numpy as np

from millgate.evaluate.labeled import sample, sets
from millgate.gateway import Millgate
from millgate.text.tokens import RunningTokens, counter, estimate_tokens

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
    for folder in folders:
        for corpus in sorted(folder.rglob("corpus.jsonl")):
            rows = [json.loads(line)["text"] for line in corpus.open()]
            yield corpus.parent.name, random.Random(0).sample(rows, min(len(rows), 400))
    stdlib = Path(sysconfig.get_paths()["stdlib"])
    yield "python", pieces(list(stdlib.glob("*.py")))
    yield "c headers", pieces(list(Path("/usr/include").glob("*.h")))
    yield "json", pieces(list(Path("/usr/share").glob("*/*.json")))
    for language in LANGUAGES:
        yield language, translations(language)
    yield from random_texts()


def random_texts():
    """Texts without words, and one of letter pairs that are cheap in English."""
    rng = random.Random(0)
    for name, chars in (
        ("random letters", string.ascii_lowercase),
        ("random digits", string.digits),
        ("random marks", string.punctuation),
        ("random base64", string.ascii_letters + string.digits + "+/"),
        ("random DNA", "ACGT"),
        ("random emoji", "".join(map(chr, range(0x1F300, 0x1F650)))),
        ("invisible", "".join(map(chr, range(0x200B, 0x2010)))),
        ("acacac...", ["ac"]),
    ):
        yield name, ["".join(rng.choices(chars, k=90_000))]


def fill(texts):
    """Texts joined by lines and cut so that each fills the budget."""
    text, found = "", []
    for more in texts:
        text += more.strip() + "\n"
        while (sizes := RunningTokens(text))[len(text)] >= BUDGET:
            end = sizes.reach(0, BUDGET)
            found.append(text[:end])
            text = text[end:]
    return found[:QUESTIONS]


def describe(name, texts, counters):
    """How large texts that fill the budget are, in each vocabulary, as shares of the budget."""
    if not texts:
        return
    shares = np.array([[exact(text) / BUDGET for exact in counters] for text in texts])
    means, larger = shares.mean(0), shares.max(1)
    naive = np.array([len(text) / 4 for text in texts]) / (larger * BUDGET)
    print(
        f"{name:16}{len(texts):>6}{means[0]:>9.2f}{means[1]:>8.2f}{larger.min():>9.2f}"
        f"{np.quantile(larger, 0.95):>7.2f}{larger.max():>9.2f}{np.abs(naive - 1).mean():>10.0%}"
    )


def contexts(labeled):
    """Contexts for the questions of a set, of which those that fill the budget."""
    with Millgate.open(":memory:", grade={"enabled": False}) as gate:
        gate.add(labeled.rows)
        for query in labeled.queries:
            text = gate.context(
                query["text"], budget=BUDGET, collection=query.get("collection", "main")
            ).text
            if estimate_tokens(text) >= 0.97 * BUDGET:
                yield text


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="*", type=Path, metavar="DIR")
    folders = parser.parse_args().folders
    counters = [counter("cl100k_base"), counter("o200k_base")]
    heading = f"{'':>6}   cl100k   o200k   lowest   95 %  highest   chars/4"
    print(f"{'texts':16}{heading}")
    for kind, texts in kinds(folders):
        describe(kind, fill(texts), counters)
    print(f"\n{'contexts':16}{heading}")
    for folder in folders:
        for labeled in sets(folder) if any(folder.rglob("qrels.tsv")) else ():
            describe(labeled.name, [*contexts(sample(labeled, QUESTIONS))], counters)


if __name__ == "__main__":
    main()
