"""The same chats in other forms: does what is found depend on how a line is written? python bench/chat_forms.py DIR...

Each set of chats is asked as it stands, and with its lines written in other forms. Prints for each form the labeled
evidence that `context()` shows within 1 000 tokens, nDCG@10, recall@10, and how many answerable questions come back
empty. A form without dates has room for more lines in the same budget.
"""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

from headgate.evaluate.labeled import sample, sets
from headgate.evaluate.retrieval import _figures, _rank, _share
from headgate.gateway import Headgate
from headgate.text.turns import part

QUESTIONS = 40
BUDGET = 1000


FORMS = {
    "as it stands": None,
    "[date] name:": lambda t: {"text": f"[{t.date}] {t.speaker.lower()}: {t.body}"},
    "date - Name:": lambda t: {"text": f"{t.date} - {t.speaker}: {t.body}"},
    "<Name>": lambda t: {"text": f"<{t.speaker}> {t.body}"},
    "**Name:**": lambda t: {"text": f"**{t.speaker}:** {t.body}"},
    "Name:": lambda t: {"text": f"{t.speaker}: {t.body}"},
    "metadata": lambda t: {
        "text": t.body,
        "metadata": {"speaker": t.speaker, "time": t.date},
    },
    "bare, told": lambda t: {"text": t.body, "metadata": {"kind": "conversation"}},
}


def write(labeled, form):
    if form is None:
        return labeled
    rows = []
    for row in labeled.rows:
        turn = part(row["text"])
        rows.append({**row, **form(turn)} if turn.speaker else row)
    return replace(labeled, rows=rows)


def measure(labeled):
    found = []
    with Headgate.open(":memory:") as hg:
        hg.add(labeled.rows)
        for query in labeled.queries:
            labels, collection = labeled.labels[query["_id"]], query.get("collection", "main")
            ranking, _ = _rank(hg, query["text"], collection)
            given = hg.context(query["text"], budget=BUDGET, collection=collection)
            shown = _share({chunk.document for chunk in given.chunks}, labels)
            figures = _figures(ranking, labels, (), talk=True)
            found.append((shown, figures["ndcg@10"], figures["recall@10"], float(not given.chunks)))
    return np.mean(found, 0)


def main(*folders):
    for labeled in (sample(one, QUESTIONS) for f in folders for one in sets(Path(f))):
        print(f"{labeled.name:16}{'evidence':>10}{'nDCG@10':>10}{'recall@10':>10}{'empty':>8}")
        for name, form in FORMS.items():
            row = measure(write(labeled, form))
            print(f"{name:16}" + "".join(f"{value:10.3f}" for value in row), flush=True)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: python bench/chat_forms.py DIR... (labeled sets of chats)")
    main(*sys.argv[1:])
