"""Quality of retrieval on labeled sets: `make bench-quality DATA=DIR`.

Every set with one configuration, without a model and (where the package is installed) with MiniLM, beside plain
BM25 and reciprocal rank fusion measured in the same run. Prints evidence within 1 000 tokens and nDCG@10.
"""

import sys
from importlib.util import find_spec
from pathlib import Path

from headgate.evaluate.retrieval import evaluate, sets
from headgate.models.embed import PACKAGE

FIGURES = ("evidence@1000", "ndcg@10", "context_evidence@1000")


def rows(labeled, embedder):
    figures = evaluate(labeled, embedder=embedder, budgets=[1000])
    yield ("headgate" if embedder == "none" else f"headgate + {embedder}"), figures
    for name, baseline in figures["baselines"].items():
        if embedder == "none" or name != "bm25":
            yield name if embedder == "none" else f"{name} + {embedder}", baseline


def main(folder):
    embedders = ["none", *(["minilm"] if find_spec(PACKAGE) else [])]
    for labeled in sets(Path(folder)):
        print(f"\n{labeled.name}: {len(labeled.rows)} passages, {len(labeled.queries)} queries")
        print(f"{'':24}" + "".join(f"{name:>24}" for name in FIGURES))
        for embedder in embedders:
            for name, figures in rows(labeled, embedder):
                shown = [f"{figures[f]:.3f}" if f in figures else "" for f in FIGURES]
                print(f"{name:24}" + "".join(f"{value:>24}" for value in shown))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python bench/quality.py DIR (a folder of labeled sets)")
    main(sys.argv[1])
