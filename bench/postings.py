"""Own postings beside a search engine's: `make bench-postings DATA=DIR`.

tantivy gets the same stems in fields (title, body, speaker, date, and in conversations the lines around as two more),
each term asked in each field with the weight it has here, and phrases. So it adds finished scores of fields where we
add counts before saturation, and it has no feedback and no names. Prints evidence within 1 000 tokens, nDCG@10 and
CPU time a query, for it, for our lexical score alone and for all of ours.
"""

import sys
import time
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

import numpy as np
import tantivy

from headgate.evaluate.labeled import sets
from headgate.evaluate.retrieval import _figures
from headgate.gateway import Headgate
from headgate.rank.lexical import rarity
from headgate.stages.propagate import PropagatePolicy, propagate
from headgate.stages.retrieve import RetrievePolicy, retrieve
from headgate.stores.memory.store import MemoryStore
from headgate.text.terms import terms
from headgate.text.turns import part
from headgate.types import Candidate

DEPTH = 100
DOCUMENTS = {"title": 2.0, "body": 1.0}
TALK = {"body": 1.0, "speaker": 3.0, "date": 1.0, "near": 0.5, "far": 0.3}


def stems(text, language):
    return [str(term) for term in terms(text, language)]


def contents(chunks, language):
    """The stems of each chunk by field."""
    lines = [part(chunk.text) for chunk in chunks]
    body = [stems(line.body, language) for line in lines]
    for n, (chunk, line) in enumerate(zip(chunks, lines, strict=True)):
        around = [
            [stem for at in (n - step, n + step) if 0 <= at < len(body) for stem in body[at]]
            for step in (1, 2)
        ]
        yield {
            "title": stems(chunk.title, language),
            "date": stems(line.date, language),
            "speaker": stems(line.speaker, language),
            "body": body[n],
            "near": around[0],
            "far": around[1],
        }


class Engine:
    """tantivy over the chunks of one collection."""

    def __init__(self, view, chunks):
        self.view, self.chunks = view, chunks
        self.boosts = TALK if view.conversational else DOCUMENTS
        schema = tantivy.SchemaBuilder()
        schema.add_unsigned_field("n", stored=True)
        for name in self.boosts:
            schema.add_text_field(name, tokenizer_name="whitespace")
        self.schema = schema.build()
        index = tantivy.Index(self.schema)
        writer = index.writer(num_threads=1)
        for n, fields in enumerate(contents(chunks, view.language)):
            texts = {name: " ".join(fields[name]) for name in self.boosts}
            writer.add_document(tantivy.Document(n=n, **texts))
        writer.commit()
        index.reload()
        self.searcher = index.searcher()

    def ask(self, query):
        asked = terms(query, self.view.language)
        keys, times = np.unique(np.array(asked, np.uint64), return_counts=True)
        lift = rarity(self.view.count, self.view.frequencies(keys)) ** 0.3
        weights = times if self.view.conversational else times * lift / lift.mean()
        parts = [
            self._boosted(tantivy.Query.term_query(self.schema, field, str(key)), boost * weight)
            for key, weight in zip(keys.tolist(), weights.tolist(), strict=True)
            for field, boost in self.boosts.items()
        ]
        parts += [
            self._boosted(tantivy.Query.phrase_query(self.schema, "body", [str(a), str(b)]), 0.5)
            for a, b in pairwise(asked)
            if a != b
        ]
        found = self.searcher.search(tantivy.Query.boolean_query(parts), DEPTH).hits
        documents = [(score, self.searcher.doc(address)["n"][0]) for score, address in found]
        return [Candidate(self.chunks[n], score) for score, n in documents]

    @staticmethod
    def _boosted(query, boost):
        return tantivy.Occur.Should, tantivy.Query.boost_query(query, float(boost))


def ours(view, policy, mode):
    def ask(query):
        found = retrieve(query, view, policy)
        return propagate(found, query, view, PropagatePolicy(mode=mode)).kept

    return ask


def main(folder):
    for labeled in sets(Path(folder)):
        print(f"\n{labeled.name}: {len(labeled.rows)} passages, {len(labeled.queries)} queries")
        store = MemoryStore()
        with Headgate.open(store=store) as gate:
            gate.add(labeled.rows)
            figures, spent = defaultdict(list), defaultdict(float)
            for name in sorted({row["collection"] for row in labeled.rows}):
                view = gate.index(name)
                rivals = {
                    "tantivy, by fields": Engine(view, list(store.scan(gate.tenant, name))).ask,
                    "our lexical score": ours(view, RetrievePolicy(feedback=0), "off"),
                    "all of ours": ours(view, RetrievePolicy(), "entities"),
                }
                for query in labeled.queries:
                    if query.get("collection", "main") != name:
                        continue
                    for rival, ask in rivals.items():
                        began = time.process_time()
                        found = ask(query["text"])
                        spent[rival] += time.process_time() - began
                        labels = labeled.labels[query["_id"]]
                        figures[rival].append(
                            _figures(found, labels, [1000], talk=view.conversational)
                        )
        for rival, found in figures.items():
            evidence, ndcg = (np.mean([f[k] for f in found]) for k in ("evidence@1000", "ndcg@10"))
            cost = 1e3 * spent[rival] / len(found)
            print(
                f"{rival:20} evidence {evidence:.3f}   nDCG@10 {ndcg:.3f}   {cost:6.2f} ms a query"
            )


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python bench/postings.py DIR (a folder of labeled sets)")
    main(sys.argv[1])
