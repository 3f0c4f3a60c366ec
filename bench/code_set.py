"""Build a labeled set of code from installed packages: python bench/code_set.py OUT [PACKAGE ...]

Every function is a passage, without its docstring; the first sentence of a docstring is a question, and its function
the answer. What several functions say, as a blocking one and its async twin do, asks for none of them, and of functions
with the same text one is there. Without packages the standard library is read. The folder can be given to `headgate
eval retrieval`.
"""

import ast
import importlib.util
import json
import random
import sys
import sysconfig
import textwrap
from collections import Counter
from pathlib import Path

PASSAGES, QUESTIONS = 5000, 150
LENGTH = range(80, 4000)  # characters of a function
ASKED = range(25, 200)  # characters of a question
SEED = 3


def roots(packages):
    if not packages:
        return [Path(sysconfig.get_paths()["stdlib"])]
    found = [importlib.util.find_spec(name) for name in packages]
    missing = [n for n, s in zip(packages, found, strict=True) if s is None or s.origin is None]
    if missing:
        sys.exit(f"not installed: {', '.join(missing)}")
    return [Path(spec.origin).parent for spec in found]


def functions(path):
    """The functions of a file: their first line, their docstring, and their source without it."""
    try:
        source = path.read_text("utf-8")
        tree = ast.parse(source)
    except (OSError, UnicodeDecodeError, SyntaxError, ValueError):
        return
    lines = source.splitlines()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            said, body = ast.get_docstring(node), lines[node.lineno - 1 : node.end_lineno]
            if said:
                text = node.body[0]
                del body[text.lineno - node.lineno : text.end_lineno - node.lineno + 1]
            yield node.lineno, said or "", textwrap.dedent("\n".join(body))


def collect(folders):
    rows, questions, texts = [], [], set()
    for root in folders:
        for path in sorted(root.rglob("*.py")):
            name = path.relative_to(root).as_posix()
            if "site-packages" in name or "test" in name:
                continue
            for line, said, code in functions(path):
                if len(code) not in LENGTH or code in texts:
                    continue
                texts.add(code)
                rows.append({"_id": f"{root.name}/{name}:{line}", "title": "", "text": code})
                asked = " ".join(said.split("\n\n")[0].split())
                if len(asked) in ASKED and len(asked.split()) >= 5:
                    questions.append((rows[-1]["_id"], asked))
    return rows, questions


def save(out, rows, questions):
    """Write some of the passages, and of the questions that ask for one of these alone; how many of each."""
    dice = random.Random(SEED)
    dice.shuffle(rows)
    rows = sorted(rows[:PASSAGES], key=lambda row: row["_id"])
    kept = {row["_id"] for row in rows}
    times = Counter(asked for _, asked in questions)
    once = sorted((asked, id) for id, asked in questions if id in kept and times[asked] == 1)
    chosen = dice.sample(once, min(QUESTIONS, len(once)))
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    asked = [{"_id": f"q{n}", "text": text} for n, (text, _) in enumerate(chosen)]
    labels = [f"q{n}\t{id}\t1" for n, (_, id) in enumerate(chosen)]
    write = {
        "corpus.jsonl": [json.dumps(row) for row in rows],
        "queries.jsonl": [json.dumps(one) for one in asked],
        "qrels.tsv": ["query\tpassage\tgrade", *labels],
    }
    for name, content in write.items():
        (folder / name).write_text("\n".join(content) + "\n", "utf-8")
    return len(rows), len(asked)


def main(out, *packages):
    passages, asked = save(out, *collect(roots(packages)))
    print(f"{out}: {passages} functions, {asked} questions")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: python bench/code_set.py OUT [PACKAGE ...]")
    main(*sys.argv[1:])
