"""Retrieval in LangChain and LlamaIndex, and in Millgate: the same passages, static vectors, questions and process.

    make bench-peers ARGS="DIR"                    retrievers alone: nDCG@10 and CPU a query
    make bench-peers ARGS="DIR --chain"            inside one LangChain chain that fills 1 000 tokens

DIR is a folder of labeled sets; `make bench-sets` makes one. The peers are set up as their documentation shows: BM25
and vectors, joined by reciprocal ranks. The retrievers also answer questions over 20 000 chunks of recombined text
(--size), where time alone is measured. CPU includes the embedding of the query; everything runs on one thread.
With --chain the LangChain retriever runs with LangChain's redundancy filter, and with Millgate's compressor in its
place. Printed are the share of a question's evidence in the prompt, the share of tokens that an earlier passage of the
prompt holds already, and CPU a question. Each set is asked as it is, and with every third passage stored twice.
Takes about ten minutes for three sets, as much again with --chain.
"""

import argparse
import math
import os
import time
import warnings
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before numpy: threads would add CPU time

from bench.fixtures import texts

from millgate.evaluate.labeled import sets
from millgate.gateway import Millgate
from millgate.integrations.langchain import MillgateCompressor, MillgateRetriever
from millgate.models.static import StaticEmbedder
from millgate.pipeline.stages.propagate import propagate
from millgate.pipeline.stages.retrieve import retrieve
from millgate.text.fingerprint import WindowIndex
from millgate.text.tokens import estimate_tokens

QUESTIONS = 60
CHAIN_QUESTIONS = 30
TIMED = 36  # questions on the large collection: a peer takes a second for one
DEPTH = 20
BUDGET = 1000
COPY = "-copy"


# Retrievers


def millgate(rows):
    gate = Millgate.open(":memory:", embed={"model": "static"})
    gate.add(rows)
    view = gate.index(rows[0]["collection"])
    settings = gate.settings

    def ask(query):
        vector = gate.embed(query)
        found = retrieve(query, view, settings.retrieve, vector=vector)
        return [c.chunk.document for c in propagate(found, query, view, settings.propagate).kept]

    return ask


def ensemble(rows):
    """LangChain's EnsembleRetriever over BM25 and static vectors, and the embeddings it uses."""
    from langchain_classic.retrievers import EnsembleRetriever
    from langchain_community.retrievers import BM25Retriever
    from langchain_core.documents import Document
    from langchain_core.embeddings import Embeddings
    from langchain_core.vectorstores import InMemoryVectorStore

    static = StaticEmbedder.load()

    class Static(Embeddings):
        def embed_documents(self, texts):
            return static.embed(texts).tolist()

        def embed_query(self, text):
            return static.embed([text])[0].tolist()

    documents = [Document(_titled(row), metadata={"id": row["id"]}) for row in rows]
    words = BM25Retriever.from_documents(documents, preprocess_func=lambda t: t.lower().split())
    words.k = DEPTH
    embeddings = Static()
    vectors = InMemoryVectorStore(embeddings)
    vectors.add_documents(documents)
    both = EnsembleRetriever(
        retrievers=[words, vectors.as_retriever(search_kwargs={"k": DEPTH})], weights=[0.5, 0.5]
    )
    return both, embeddings


def langchain(rows):
    both, _ = ensemble(rows)
    return lambda query: [d.metadata["id"] for d in both.invoke(query)]


def llamaindex(rows):
    from llama_index.core import VectorStoreIndex
    from llama_index.core.embeddings import BaseEmbedding
    from llama_index.core.llms import MockLLM
    from llama_index.core.retrievers import QueryFusionRetriever
    from llama_index.core.schema import TextNode
    from llama_index.retrievers.bm25 import BM25Retriever

    static = StaticEmbedder.load()

    class Static(BaseEmbedding):
        def _get_text_embedding(self, text):
            return static.embed([text])[0].tolist()

        def _get_query_embedding(self, query):
            return static.embed([query])[0].tolist()

        async def _aget_query_embedding(self, query):
            return self._get_query_embedding(query)

    nodes = [TextNode(id_=row["id"], text=_titled(row)) for row in rows]
    index = VectorStoreIndex(nodes, embed_model=Static())
    both = QueryFusionRetriever(
        [
            index.as_retriever(similarity_top_k=DEPTH),
            BM25Retriever.from_defaults(nodes=nodes, similarity_top_k=DEPTH),
        ],
        llm=MockLLM(),
        num_queries=1,
        use_async=False,
        mode="reciprocal_rerank",
        similarity_top_k=DEPTH,
    )
    return lambda query: [n.node.node_id for n in both.retrieve(query)]


def _titled(row):
    return f"{row['title']}. {row['text']}" if row["title"] else row["text"]


def retrievers(rows, question):
    """Each retriever that is installed, after it has answered one question."""
    for make in (millgate, langchain, llamaindex):
        try:
            ask = make(rows)
        except ImportError as error:
            print(f"{make.__name__:12} not installed: {error}")
            continue
        ask(question)
        yield make.__name__, ask


def timed(ask, queries):
    """What was found for each query, and CPU milliseconds a query."""
    began = time.process_time()
    found = [ask(query) for query in queries]
    return found, 1e3 * (time.process_time() - began) / len(queries)


def ndcg(found, labels):
    gain = sum((2 ** labels.get(d, 0) - 1) / math.log2(n + 2) for n, d in enumerate(found[:10]))
    ideal = sorted(labels.values(), reverse=True)[:10]
    return gain / sum((2**g - 1) / math.log2(n + 2) for n, g in enumerate(ideal))


def first_collection(labeled, questions):
    """The rows of a set's first collection, and some of the questions about them."""
    name = labeled.rows[0]["collection"]
    rows = [row for row in labeled.rows if row["collection"] == name]
    asked = [q for q in labeled.queries if q.get("collection", "main") == name]
    return rows, asked[:questions]


def compare_quality(folder):
    for labeled in sets(Path(folder)):
        rows, asked = first_collection(labeled, QUESTIONS)
        print(f"\n{labeled.name}: {len(rows)} passages, {len(asked)} questions", flush=True)
        for name, ask in retrievers(rows, asked[0]["text"]):
            found, spent = timed(ask, [q["text"] for q in asked])
            gains = [ndcg(f, labeled.labels[q["_id"]]) for f, q in zip(found, asked, strict=True)]
            mean = sum(gains) / len(gains)
            print(f"{name:12} nDCG@10 {mean:.3f}   {spent:8.2f} ms a query", flush=True)


def compare_speed(folder, size):
    rows = [{**row, "collection": "main"} for row in texts.rows(folder, size)]
    queries = texts.questions(folder, TIMED)
    print(f"\n{size} chunks of recombined text, {len(queries)} questions", flush=True)
    for name, ask in retrievers(rows, queries[0]):
        print(f"{name:12} {timed(ask, queries)[1]:8.2f} ms a query", flush=True)


# Inside a chain


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

    both, embeddings = ensemble(rows)
    pipeline = DocumentCompressorPipeline(
        transformers=[EmbeddingsRedundantFilter(embeddings=embeddings)]
    )
    return ContextualCompressionRetriever(base_compressor=pipeline, base_retriever=both)


def compressed(rows):
    from langchain_classic.retrievers import ContextualCompressionRetriever

    both, _ = ensemble(rows)
    return ContextualCompressionRetriever(
        base_compressor=MillgateCompressor(budget=BUDGET), base_retriever=both
    )


def whole(rows):
    gate = Millgate.open(":memory:", embed={"model": "static"})
    gate.add(rows)
    return MillgateRetriever(gate=gate, budget=BUDGET, collection=rows[0]["collection"])


CHAINS = {
    "Ensemble, redundancy filter": filtered,
    "Ensemble, Millgate's compressor": compressed,
    "Millgate's retriever": whole,
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


def count_repeated(packed):
    """The tokens that an earlier document of the prompt holds too, and all tokens."""
    again = total = 0
    for at, document in enumerate(packed):
        tokens = estimate_tokens(document.page_content)
        before = WindowIndex.of([each.page_content for each in packed[:at]])
        again += tokens * float(before.coverage([document.page_content])[0]) if at else 0
        total += tokens
    return again, total


def source_of(document):
    """The labeled passage that a document shows, or is a copy or a chunk of."""
    id = str(document.metadata.get("document") or document.metadata["id"])
    return id.removesuffix(COPY)


def measure_chain(name, make, rows, asked, labels):
    from langchain_core.runnables import RunnableLambda

    chain = make(rows) | RunnableLambda(pack)
    chain.invoke(asked[0]["text"])
    answers, spent = timed(chain.invoke, [query["text"] for query in asked])
    shares = [
        len({source_of(d) for d in packed} & labels[query["_id"]].keys())
        / len(labels[query["_id"]])
        for packed, query in zip(answers, asked, strict=True)
    ]
    again, total = map(sum, zip(*map(count_repeated, answers), strict=True))
    print(
        f"  {name:34} evidence {sum(shares) / len(shares):.3f}   repeated {again / max(total, 1):6.1%}"
        f"   tokens {total / len(asked):5.0f}   {spent:7.1f} ms",
        flush=True,
    )


def compare_chains(folder):
    for labeled in sets(Path(folder)):
        rows, asked = first_collection(labeled, CHAIN_QUESTIONS)
        for title, stored in (("", rows), (", every third passage twice", with_copies(rows))):
            print(f"{labeled.name}{title}: {len(stored)} passages, {len(asked)} questions")
            for name, make in CHAINS.items():
                measure_chain(name, make, stored, asked, labeled.labels)


def main():
    warnings.simplefilter("ignore")  # deprecation warnings of the peers
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", help="a folder of labeled sets")
    parser.add_argument("--chain", action="store_true")
    parser.add_argument("--size", type=int, default=20_000)
    given = parser.parse_args()
    if given.chain:
        compare_chains(given.folder)
    else:
        compare_quality(given.folder)
        compare_speed(given.folder, given.size)


if __name__ == "__main__":
    main()
