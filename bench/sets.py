"""Labeled sets for retrieval, made of installed code or of a folder of HTML pages.

    make bench-sets ARGS="code .bench/sets/code-std"                       Python's standard library
    make bench-sets ARGS="code .bench/sets/code-site openai pydantic"      installed packages
    make bench-sets ARGS="pages .bench/sets/help FOLDER"                   HTML pages, such as a program's help

code: every function is a passage, without its docstring. The first sentence of its docstring is a question that this
function answers. pages: the first paragraph below the first heading of a page asks, and what follows it answers.
Equal questions and equal passages are left out. `millgate eval retrieval` and the benchmarks that take labeled sets
read the result. Takes about ten seconds.
"""

import argparse
import ast
import importlib.util
import json
import random
import sys
import sysconfig
import textwrap
from collections import Counter
from pathlib import Path

from millgate.ingest.html import extract

PASSAGES, QUESTIONS = 5000, 150
FUNCTION = range(80, 4000)  # characters of a function
ASKED = range(25, 200)  # characters of a question
SHARED = 0.05  # of the pages: a paragraph that more of them have belongs to none
ANSWER = range(200, 1500)  # characters of an answer; the rest of a longer one is left out
SEED = 3


# Code


def source_folders(packages):
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
            docstring, body = ast.get_docstring(node), lines[node.lineno - 1 : node.end_lineno]
            if docstring:
                text = node.body[0]
                del body[text.lineno - node.lineno : text.end_lineno - node.lineno + 1]
            yield node.lineno, docstring or "", textwrap.dedent("\n".join(body))


def read_code(packages):
    rows, questions, texts = [], [], set()
    for root in source_folders(packages):
        for path in sorted(root.rglob("*.py")):
            name = path.relative_to(root).as_posix()
            if "site-packages" in name or "test" in name:
                continue
            for line, docstring, code in functions(path):
                if len(code) not in FUNCTION or code in texts:
                    continue
                texts.add(code)
                rows.append({"_id": f"{root.name}/{name}:{line}", "title": "", "text": code})
                asked = " ".join(docstring.split("\n\n")[0].split())
                if len(asked) in ASKED and len(asked.split()) >= 5:
                    questions.append((rows[-1]["_id"], asked))
    return rows, questions


# Pages


def paragraphs(path):
    """The paragraphs below the first heading."""
    _, text = extract(path.read_text("utf-8", "replace"))
    below = f"\n{text}".partition("\n# ")[2].partition("\n")[2]
    return [part.strip() for part in below.split("\n\n") if part.strip()]


def read_pages(root):
    pages = {path: paragraphs(path) for path in sorted(root.rglob("*.html"))}
    times = Counter(part for parts in pages.values() for part in set(parts))
    rows, questions, texts = [], [], set()
    for path, parts in pages.items():
        own = [part for part in parts if times[part] <= max(1, SHARED * len(pages))]
        text = "\n\n".join(own[1:])[: ANSWER.stop]
        if len(text) < ANSWER.start or text in texts:
            continue
        texts.add(text)
        rows.append({"_id": path.relative_to(root).as_posix(), "title": "", "text": text})
        asked = " ".join(own[0].split())
        if len(asked) in ASKED and not asked.startswith(("#", "-", "|", "`")):
            questions.append((rows[-1]["_id"], asked))
    return rows, questions


def save(folder, rows, questions):
    """Write some of the passages, and questions that exactly one of them answers; the number of each."""
    dice = random.Random(SEED)
    dice.shuffle(rows)
    rows = sorted(rows[:PASSAGES], key=lambda row: row["_id"])
    kept = {row["_id"] for row in rows}
    times = Counter(asked for _, asked in questions)
    once = sorted((asked, id) for id, asked in questions if id in kept and times[asked] == 1)
    chosen = dice.sample(once, min(QUESTIONS, len(once)))
    asked = [{"_id": f"q{n}", "text": text} for n, (text, _) in enumerate(chosen)]
    write(folder, rows, asked, [f"q{n}\t{id}\t1" for n, (_, id) in enumerate(chosen)])
    return len(rows), len(asked)


def write(folder, rows, asked, labels):
    """Write the three files of a labeled set."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {
        "corpus.jsonl": map(json.dumps, rows),
        "queries.jsonl": map(json.dumps, asked),
        "qrels.tsv": ["query\tpassage\tgrade", *labels],
    }
    for name, lines in files.items():
        (folder / name).write_text("\n".join(lines) + "\n", "utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    kinds = parser.add_subparsers(dest="kind", required=True)
    code = kinds.add_parser("code")
    code.add_argument("out", type=Path)
    code.add_argument("packages", nargs="*")
    pages = kinds.add_parser("pages")
    pages.add_argument("out", type=Path)
    pages.add_argument("folder", type=Path)
    given = parser.parse_args()
    made = read_code(given.packages) if given.kind == "code" else read_pages(given.folder)
    passages, asked = save(given.out, *made)
    print(f"{given.out}: {passages} passages, {asked} questions")


if __name__ == "__main__":
    main()
