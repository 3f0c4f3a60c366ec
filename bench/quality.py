"""Quality of retrieval on labeled sets: `make bench-quality DATA=DIR`.

Every set with one configuration, without a model and (where the package is installed) with MiniLM, beside plain
BM25 and reciprocal rank fusion measured in the same run. Prints evidence within 1 000 tokens and nDCG@10; then, at
every budget, what of the ranking's evidence `context()` gives: beside the ranking packed by four characters a token,
and beside the ranking counted and framed as `context()` does it.
"""

import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from headgate.evaluate.labeled import sets
from headgate.evaluate.retrieval import BUDGETS, evaluate
from headgate.models.embed import PACKAGE

FIGURES = ("evidence@1000", "ndcg@10", "context_evidence@1000")
WAYS = {
    "evidence": "the ranking, four characters a token",
    "framed_evidence": "the ranking, counted and framed",
    "context_evidence": "through context()",
}


def rows(figures, embedder):
    yield ("headgate" if embedder == "none" else f"headgate + {embedder}"), figures
    for name, baseline in figures["baselines"].items():
        if embedder == "none" or name != "bm25":
            yield name if embedder == "none" else f"{name} + {embedder}", baseline


def main(folder):
    embedders = {"none": "none"}
    if find_spec(PACKAGE):
        from build_onnx import installed, write_encoder

        built = Path(tempfile.mkdtemp(prefix="minilm-"))
        write_encoder(installed(), built)
        embedders["minilm"] = str(built)
    for labeled in sets(Path(folder)):
        print(f"\n{labeled.name}: {len(labeled.rows)} passages, {len(labeled.queries)} queries")
        print(f"{'':24}" + "".join(f"{name:>24}" for name in FIGURES))
        runs = {name: evaluate(labeled, embedder=model) for name, model in embedders.items()}
        measured = {name: run.figures() for name, run in runs.items()}
        for embedder, whole in measured.items():
            for name, figures in rows(whole, embedder):
                shown = [f"{figures[f]:.3f}" if f in figures else "" for f in FIGURES]
                print(f"{name:24}" + "".join(f"{value:>24}" for value in shown))
        for embedder, whole in measured.items():
            print(f"evidence within {', '.join(map(str, BUDGETS))} tokens, embedder {embedder}")
            for way, said in WAYS.items():
                print(f"  {said:40}" + " ".join(f"{whole[f'{way}@{b}']:.3f}" for b in BUDGETS))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python bench/quality.py DIR (a folder of labeled sets)")
    main(sys.argv[1])
