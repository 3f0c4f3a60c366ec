"""Headgate beside LangChain's EnsembleRetriever and LlamaIndex's fusion retriever: `make bench-peers DATA=DIR`.

Same passages, same static vectors, same questions, one process, one thread: nDCG@10 on the labeled sets, and CPU time
a query (embedding the query included for all) there and on SIZE chunks of recombined text (20 000 unless said). Peers
are set up as their documentation shows: BM25 and vectors, joined by reciprocal ranks.
"""

import math
import os
import random
import sys
import time
from pathlib import Path

os.environ.setdefault(
    "OMP_NUM_THREADS", "1"
)  # before numpy: threads would add to everyone's CPU time

import synthetic

from headgate.evaluate.labeled import sets
from headgate.gateway import Headgate
from headgate.models.static import StaticEmbedder
from headgate.stages.propagate import propagate
from headgate.stages.retrieve import retrieve

QUERIES = 60
TIMED = 12  # questions on the large collection, where a peer takes a second for one
DEPTH = 20


def ndcg(found, labels):
    gain = sum((2 ** labels.get(d, 0) - 1) / math.log2(n + 2) for n, d in enumerate(found[:10]))
    ideal = sorted(labels.values(), reverse=True)[:10]
    return gain / sum((2**g - 1) / math.log2(n + 2) for n, g in enumerate(ideal))


def headgate(rows):
    gate = Headgate.open(":memory:", embed={"model": "static"})
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

    class Same(Embeddings):
        def embed_documents(self, texts):
            return static.embed(texts).tolist()

        def embed_query(self, text):
            return static.embed([text])[0].tolist()

    documents = [
        Document(
            f"{r['title']}. {r['text']}" if r["title"] else r["text"], metadata={"id": r["id"]}
        )
        for r in rows
    ]
    words = BM25Retriever.from_documents(documents, preprocess_func=lambda t: t.lower().split())
    words.k = DEPTH
    embeddings = Same()
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

    class Same(BaseEmbedding):
        def _get_text_embedding(self, text):
            return static.embed([text])[0].tolist()

        def _get_query_embedding(self, query):
            return static.embed([query])[0].tolist()

        async def _aget_query_embedding(self, query):
            return self._get_query_embedding(query)

    nodes = [
        TextNode(id_=r["id"], text=f"{r['title']}. {r['text']}" if r["title"] else r["text"])
        for r in rows
    ]
    index = VectorStoreIndex(nodes, embed_model=Same())
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


def peers(rows, question):
    """Each peer that is installed, ready to be asked: it has answered one question."""
    for peer in (headgate, langchain, llamaindex):
        try:
            ask = peer(rows)
        except ImportError as error:
            print(f"{peer.__name__:12} not installed: {error}")
            continue
        ask(question)
        yield peer.__name__, ask


def timed(ask, queries):
    """What was found for each query, and CPU milliseconds a query."""
    began = time.process_time()
    found = [ask(query) for query in queries]
    return found, 1e3 * (time.process_time() - began) / len(queries)


def quality(folder):
    for labeled in sets(Path(folder)):
        first = labeled.rows[0]["collection"]
        rows = [r for r in labeled.rows if r["collection"] == first]
        asked = [q for q in labeled.queries if q.get("collection", "main") == first][:QUERIES]
        print(f"\n{labeled.name}: {len(rows)} passages, {len(asked)} queries", flush=True)
        for name, ask in peers(rows, asked[0]["text"]):
            found, spent = timed(ask, [q["text"] for q in asked])
            gains = [ndcg(f, labeled.labels[q["_id"]]) for f, q in zip(found, asked, strict=True)]
            mean = sum(gains) / len(gains)
            print(f"{name:12} nDCG@10 {mean:.3f}   {spent:8.2f} ms a query", flush=True)


def speed(folder, size):
    chunks = synthetic.chunks(folder, size)
    rows = [{"id": c.id, "text": c.text, "title": c.title, "collection": "main"} for c in chunks]
    dice = random.Random(1)
    queries = [
        q for found in synthetic.queries(folder) for q in dice.sample(found, min(TIMED, len(found)))
    ]
    print(f"\n{size} chunks of recombined text, {len(queries)} queries", flush=True)
    for name, ask in peers(rows, queries[0]):
        print(f"{name:12} {timed(ask, queries)[1]:8.2f} ms a query", flush=True)


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit("usage: python bench/peers.py DIR [SIZE] (a folder of labeled sets)")
    quality(sys.argv[1])
    speed(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 20_000)
