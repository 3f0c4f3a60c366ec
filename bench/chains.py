"""One LangChain chain, three retrievers: `make bench-chains DATA=DIR`.

EnsembleRetriever (BM25 and static vectors) with LangChain's redundancy filter, the same with Headgate's compressor, and
Headgate's retriever with the same vectors. The chain packs what comes, in order, into BUDGET tokens. Prints for each
set the share of a question's evidence that is inside, the share of packed tokens that repeat what is packed before
them, and CPU milliseconds a question; first for the set as it is, then with every third passage stored twice, as
mirrors and new versions do it. One process, one thread.
"""

import os
import sys
import time
import warnings
from pathlib import Path

os.environ.setdefault(
    "OMP_NUM_THREADS", "1"
)  # before numpy: threads would add to everyone's CPU time

import peers

from headgate.evaluate.labeled import sets
from headgate.gateway import Headgate
from headgate.integrations.langchain import HeadgateCompressor, HeadgateRetriever
from headgate.text.fingerprint import WindowIndex
from headgate.text.tokens import estimate_tokens

BUDGET = 1000
QUERIES = 30
COPY = "-copy"


def with_copies(rows):
    """The rows, every third one twice."""
    copies = [
        {**row, "id": row["id"] + COPY, "text": f"Last changed in May.\n{row['text']}"}
        for row in rows[::3]
    ]
    return [*rows, *copies]


def filtered(rows):
    from langchain_classic.retrievers import ContextualCompressionRetriever
    from langchain_classic.retrievers.document_compressors import DocumentCompressorPipeline
    from langchain_community.document_transformers import EmbeddingsRedundantFilter

    both, embeddings = peers.ensemble(rows)
    pipeline = DocumentCompressorPipeline(
        transformers=[EmbeddingsRedundantFilter(embeddings=embeddings)]
    )
    return ContextualCompressionRetriever(base_compressor=pipeline, base_retriever=both)


def compressed(rows):
    from langchain_classic.retrievers import ContextualCompressionRetriever

    both, _ = peers.ensemble(rows)
    return ContextualCompressionRetriever(
        base_compressor=HeadgateCompressor(budget=BUDGET), base_retriever=both
    )


def headgate(rows):
    gate = Headgate.open(":memory:", embed={"model": "static"})
    gate.add(rows)
    return HeadgateRetriever(gate=gate, budget=BUDGET, collection=rows[0]["collection"])


WAYS = {
    "Ensemble, redundancy filter": filtered,
    "Ensemble, Headgate's compressor": compressed,
    "Headgate's retriever": headgate,
}


def pack(documents):
    """The documents that fit, in order: what a chain would put into the prompt."""
    packed, used = [], 0
    for document in documents:
        tokens = estimate_tokens(document.page_content)
        if used + tokens <= BUDGET:
            packed.append(document)
            used += tokens
    return packed


def repeated(packed):
    """The tokens that stand in an earlier document of the prompt too, and all tokens."""
    again = total = 0
    for at, document in enumerate(packed):
        tokens = estimate_tokens(document.page_content)
        before = WindowIndex.of([each.page_content for each in packed[:at]])
        again += tokens * float(before.coverage([document.page_content])[0]) if at else 0
        total += tokens
    return again, total


def source(document):
    """The labeled passage that a document shows, copies and chunks included."""
    id = str(document.metadata.get("document") or document.metadata["id"])
    return id.removesuffix(COPY)


def measure(name, make, rows, asked, labels):
    from langchain_core.runnables import RunnableLambda

    chain = make(rows) | RunnableLambda(pack)
    chain.invoke(asked[0]["text"])
    began = time.process_time()
    answers = [chain.invoke(query["text"]) for query in asked]
    spent = 1e3 * (time.process_time() - began) / len(asked)
    shares = [
        len({source(d) for d in packed} & labels[query["_id"]].keys()) / len(labels[query["_id"]])
        for packed, query in zip(answers, asked, strict=True)
    ]
    again, total = map(sum, zip(*map(repeated, answers), strict=True))
    print(
        f"  {name:34} evidence {sum(shares) / len(shares):.3f}   repeated {again / max(total, 1):6.1%}"
        f"   tokens {total / len(asked):5.0f}   {spent:7.1f} ms",
        flush=True,
    )


def main(folder):
    for labeled in sets(Path(folder)):
        first = labeled.rows[0]["collection"]
        rows = [row for row in labeled.rows if row["collection"] == first]
        asked = [q for q in labeled.queries if q.get("collection", "main") == first][:QUERIES]
        for title, stored in (("", rows), (", every third passage twice", with_copies(rows))):
            print(f"{labeled.name}{title}: {len(stored)} passages, {len(asked)} questions")
            for name, make in WAYS.items():
                measure(name, make, stored, asked, labeled.labels)


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # of packages that retire
    if len(sys.argv) != 2:
        sys.exit("usage: python bench/chains.py DIR (a folder of labeled sets)")
    main(sys.argv[1])
