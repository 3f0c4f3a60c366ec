"""The ranking over PostgreSQL is the ranking over SQLite, score by score."""

import random

from millgate.gateway import Millgate

TOPICS = ["refund", "parcel", "invoice", "voucher", "address", "password", "battery", "warranty"]


def rows():
    rng = random.Random(3)
    for n in range(120):
        words = [*rng.choices(TOPICS, k=4), *rng.choices(["takes", "needs", "the", "card", "Berlin", "14", "days"], k=12)]  # fmt: skip
        yield {"id": f"d{n}", "title": rng.choice(["", "Help", "Orders"]), "text": " ".join(words)}


def ranked(gate, query):
    trace = gate.context(query, budget=600).trace
    return [(c.chunk, c.score, [(note.code, note.score) for note in c.notes]) for c in trace.candidates]  # fmt: skip


def test_every_candidate_and_score_is_the_same(postgres_url, tmp_path):
    questions = ["how long does a refund take?", "voucher for a parcel in Berlin", "battery warranty", "14 days"]  # fmt: skip
    with (
        Millgate.open(tmp_path / "kb") as sqlite,
        Millgate.open(f"{postgres_url}?cache={tmp_path / 'cache'}") as postgres,
    ):
        for gate in (sqlite, postgres):
            gate.add(rows())
            gate.remove(documents=["d3", "d4"])
            gate.add([{"id": "d5", "text": "A refund takes 14 days in Berlin."}])
        for question in questions:
            found = ranked(sqlite, question)
            assert found
            assert ranked(postgres, question) == found
