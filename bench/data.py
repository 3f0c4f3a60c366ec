"""Labeled sets and streams for a machine that has only this repository, in .bench/data (`make data`).

    make data                                          about twenty seconds
    millgate eval retrieval .bench/data/retrieval      what they are for
    millgate eval guard .bench/data/streams.jsonl

    retrieval/docs        the pages of docs/ by section; 56 questions written for them, 10 that they do not answer
    retrieval/python      Python's own reference, as its `help()` has it; 50 questions and 10
    retrieval/chat        a conversation of two people, written for this; 30 questions and 5
    retrieval/code-std    functions of Python's standard library, asked by their docstrings (bench/sets.py)
    streams.jsonl         loops, counting loops, repetitions that end by themselves, and clean texts

The questions are in bench/labeled, each with the words of its answer. What it names as `page` is searched for them: the
sections that hold them are its evidence. A question whose answer is gone from its page is left out and named. Nothing
was fitted on these sets; they are small, and written by people who know how Millgate ranks: read them as a check that
it works here, and docs/figures.md for the public sets. Streams are cut from the same texts by a seeded script, and
repeat units of them. No model wrote them, and models loop in more ways.
"""

import json
import random
import re
import sys
from itertools import pairwise
from pathlib import Path
from pydoc_data.topics import topics

from bench import sets

from millgate.evaluate.shown import Piece, holds_answer

LABELED = Path(__file__).with_name("labeled")
DOCS = Path(__file__).parents[1] / "docs"
# written by docs/generate.py, or full of the words of every other page
LEFT_OUT = {"api", "commands", "errors", "figures", "http", "metrics", "settings", "README"}
PIECE = 1200  # characters of a piece of Python's reference
SEED = 11


# Retrieval


def read_docs():
    """Name of a page -> its sections as (title, text)."""
    pages = {}
    for path in sorted(DOCS.glob("*.md")):
        if path.stem not in LEFT_OUT:
            parts = re.split(r"^#{1,3} (.+)$", path.read_text("utf-8"), flags=re.M)[1:]
            headed = zip(parts[::2], parts[1::2], strict=True)
            pages[path.stem] = [(head, text.strip()) for head, text in headed if text.strip()]
    return pages


def read_python():
    """Name of a topic -> its text in pieces of whole paragraphs, as (title, text); the title is its heading."""
    return {name: [*cut_topic(text)] for name, text in topics.items()}


def cut_topic(text):
    head, piece = "", ""
    for paragraph in text.split("\n\n"):
        first, _, rule = paragraph.strip("\n").partition("\n")
        if re.fullmatch(r"(\*+|=+|-+)", rule):
            if piece:
                yield head, piece
            head, piece = first, ""
        elif len(piece) + len(paragraph) > PIECE and piece:
            yield head, piece
            piece = paragraph
        else:
            piece = f"{piece}\n\n{paragraph}" if piece else paragraph
    if piece:
        yield head, piece


def read_questions(name):
    lines = (LABELED / f"{name}.jsonl").read_text("utf-8").splitlines()
    return [{"_id": f"q{number}", **json.loads(line)} for number, line in enumerate(lines)]


def label_pages(name, pages):
    """The rows of some pages, each text once, and by question the rows of its page that hold its answer."""
    ids, rows, labels = {}, [], {}
    for page, sections in pages.items():
        for number, (title, text) in enumerate(sections):
            if (title, text) not in ids:
                ids[title, text] = f"{page}/{number}"
                rows.append({"_id": ids[title, text], "title": title, "text": text})
    questions = read_questions(name)
    for question in questions:
        labels[question["_id"]] = [
            ids[title, text]
            for title, text in pages.get(question.get("page"), ())
            if holds_answer([Piece("", "", text, whole=True, score=1)], question["answers"])
        ]
    return rows, questions, labels


def label_chat():
    lines = (LABELED / "chat.txt").read_text("utf-8").splitlines()
    rows = [{"_id": f"line{n}", "title": "", "text": line} for n, line in enumerate(lines, 1)]
    questions = read_questions("chat")
    labels = {q["_id"]: [f"line{q['line']}"] if "line" in q else [] for q in questions}
    return rows, questions, labels


def write_set(folder, rows, questions, labels):
    """Write a set; questions that have an answer, but no passage that holds it, are left out and named."""
    gone = [q for q in questions if not labels[q["_id"]] and q.get("answerable", True)]
    for question in gone:
        print(f"{folder.name}: no section holds the answer to {question['text']!r}", file=sys.stderr)  # fmt: skip
    kept = [question for question in questions if question not in gone]
    asked = [{k: q[k] for k in ("_id", "text", "answers", "answerable") if k in q} for q in kept]
    lines = [f"{id}\t{row}\t1" for id, found in labels.items() for row in found]
    sets.write(folder, rows, asked, lines)
    say(folder, len(rows), asked)


def say(folder, passages, asked):
    unanswerable = sum(question.get("answerable") is False for question in asked)
    print(f"{folder}: {passages} passages, {len(asked) - unanswerable} questions, {unanswerable} without an answer")  # fmt: skip


# Streams


def write_streams(path, texts):
    """Write streams of every kind, drawn from some texts."""
    dice = random.Random(SEED)
    kinds = {"clean": (make_clean, 150), "loop": (make_loop, 150), "near": (make_counting, 40), "mid": (make_passing, 40)}  # fmt: skip
    with path.open("w", encoding="utf-8") as file:
        for kind, (make, count) in kinds.items():
            for number in range(count):
                text, label = make(dice, texts)
                label = {"loop": None, "near": None, "mid": []} | label
                row = {"id": f"{kind}{number}", "kind": kind, "label": label}
                file.write(json.dumps({**row, "chunks": cut_tokens(text)}) + "\n")
    print(f"{path}: {sum(count for _, count in kinds.values())} streams")


def draw(dice, texts, least, most):
    """Some characters of one of the texts, from the beginning of a line."""
    text = dice.choice([text for text in texts if len(text) > 2 * least])
    starts = [0, *(found.end() for found in re.finditer(r"\n+", text) if found.end() < len(text) - least)]  # fmt: skip
    start = dice.choice(starts)
    return text[start : start + dice.randint(least, most)]


def make_clean(dice, texts):
    return draw(dice, texts, 600, 2500), {}


def make_loop(dice, texts):
    """A text that ends in at least six copies of a unit, as an answer does that goes on to its token limit."""
    unit = make_unit(dice, texts)
    period = len(unit)
    length = max(6 * period, dice.randint(800, 3000))
    text = draw(dice, texts, 100, 1200) + "\n"
    onset, text = len(text), text + (unit * (length // period + 1))[:length]
    while onset and text[onset - 1] == text[onset - 1 + period]:
        onset -= 1  # the text before happens to end as the unit does
    size = len(text) - onset
    loop = {"onset": onset, "period": period, "repeats": size / period, "len": size}
    return text, {"loop": loop}


def make_unit(dice, texts):
    """What a loop repeats: a few words, a sentence, or a paragraph, and never something that repeats itself."""
    least, most = dice.choice([(6, 20), (21, 100), (101, 300), (301, 600)])
    while True:
        unit = draw(dice, texts, least, most).strip() + dice.choice([" ", "\n"])
        letters = sum(sign.isalpha() for sign in unit)
        if letters > 0.6 * len(unit) and unit not in (unit + unit)[1:-1]:
            return unit


def make_counting(dice, texts):
    """A list that counts on and on."""
    words = " ".join(draw(dice, texts, 60, 120).split()[:6])
    text = draw(dice, texts, 100, 600) + "\n"
    first = dice.randint(1, 50)
    lines = [f"{number}. {words} {number}\n" for number in range(first, first + 60)]
    return text + "".join(lines), {"near": {"onset": len(text), "period": len(lines[-1])}}


def make_passing(dice, texts):
    """A sentence that comes twice in a text that goes on."""
    unit = make_unit(dice, texts)[:140]
    before = draw(dice, texts, 300, 900) + "\n"
    after = "\n" + draw(dice, texts, 300, 900)
    run = {"start": len(before), "end": len(before) + 2 * len(unit), "period": len(unit)}
    return before + 2 * unit + after, {"mid": [run]}


def cut_tokens(text):
    """The text in pieces about as long as a model's tokens."""
    cuts = [found.start() for found in re.finditer(r"\s?\w{1,6}|\s?[^\w\s]|\s", text)]
    return [text[start:end] for start, end in pairwise([*cuts, len(text)])]


def main():
    out = Path(sys.argv[1] if len(sys.argv) > 1 else ".bench/data")
    docs, python, chat = read_docs(), read_python(), label_chat()
    folder = out / "retrieval"
    write_set(folder / "docs", *label_pages("docs", docs))
    write_set(folder / "python", *label_pages("python", python))
    write_set(folder / "chat", *chat)
    passages, asked = sets.save(folder / "code-std", *sets.read_code(()))
    print(f"{folder / 'code-std'}: {passages} passages, {asked} questions")
    pages = ["\n\n".join(text for _, text in sections) for sections in docs.values()]
    write_streams(out / "streams.jsonl", [*pages, *topics.values()])


if __name__ == "__main__":
    main()
