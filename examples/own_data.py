"""Measure on your own data: a corpus, questions, and which document answers each, in three files."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

CORPUS = {
    "refunds": "Refunds are paid within 14 days.",
    "parcels": "Parcels leave at noon.",
    "hours": "The office opens at nine.",
}
QUESTIONS = {"how long do refunds take?": "refunds", "when do parcels leave?": "parcels"}


def write_lines(path: Path, rows: list[dict[str, str]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    write_lines(folder / "corpus.jsonl", [{"_id": i, "text": t} for i, t in CORPUS.items()])
    write_lines(folder / "queries.jsonl", [{"_id": q, "text": q} for q in QUESTIONS])
    labels = [f"{question}\t{document}\t1\n" for question, document in QUESTIONS.items()]
    (folder / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(labels))

    # the same as: millgate eval retrieval FOLDER --json
    command = [sys.executable, "-m", "millgate", "eval", "retrieval", name, "--json"]
    report = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)

for figure in ("passages", "queries", "ndcg@10", "context_evidence@1000"):
    print(figure, report[figure])
