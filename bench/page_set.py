"""Build a labeled set from a folder of HTML pages, such as a program's help: python bench/page_set.py OUT FOLDER

The first paragraph below the first heading of a page is a question, and what follows it the answer. Paragraphs that
many pages share, such as links at the top, are left out. The folder OUT can be given to `headgate eval retrieval`.
"""

import sys
from collections import Counter
from pathlib import Path

from code_set import ASKED, save

from headgate.ingest.html import extract

SHARED = 0.05  # of the pages: what more of them have belongs to none
ANSWER = range(200, 1500)  # characters of an answer; the rest of a longer one is left out


def paragraphs(path):
    """The paragraphs below the first heading."""
    _, text = extract(path.read_text("utf-8", "replace"))
    below = text.partition("\n# ")[2].partition("\n")[2]
    return [part.strip() for part in below.split("\n\n") if part.strip()]


def collect(root):
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


def main(out, folder):
    passages, asked = save(out, *collect(Path(folder)))
    print(f"{out}: {passages} pages, {asked} questions")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python bench/page_set.py OUT FOLDER")
    main(*sys.argv[1:])
