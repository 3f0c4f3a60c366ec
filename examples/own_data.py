"""Measure on your own data: a corpus, questions, and which documents answer them, in three files."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

CORPUS = {"a": "Refunds are paid within 14 days.", "b": "Parcels leave at noon.", "c": "The office opens at nine."}  # fmt: skip
QUESTIONS = {"q1": ("how long do refunds take?", "a"), "q2": ("when do parcels leave?", "b")}

with tempfile.TemporaryDirectory() as folder:
    rows = [{"_id": id, "title": "", "text": text} for id, text in CORPUS.items()]
    Path(folder, "corpus.jsonl").write_text("\n".join(map(json.dumps, rows)))
    asked = [{"_id": id, "text": question} for id, (question, _) in QUESTIONS.items()]
    Path(folder, "queries.jsonl").write_text("\n".join(map(json.dumps, asked)))
    right = [f"{id}\t{document}\t1" for id, (_, document) in QUESTIONS.items()]
    Path(folder, "qrels.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *right]))
    command = [sys.executable, "-m", "headgate.cli", "eval", "retrieval", folder, "--json"]
    report = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
print({name: report[name] for name in ("passages", "queries", "ndcg@10", "evidence@1000")})
