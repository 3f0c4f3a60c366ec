"""Build a labeled set from a list of packages: python bench/package_set.py OUT FILE

FILE is a list of descriptions in Debian's form, plain: Packages, Translation-de and so on. The first line of a
description is a question, and what follows it the answer. The folder OUT can be given to `headgate eval retrieval`.
"""

import random
import re
import sys
from pathlib import Path

from code_set import ASKED, save

MOST = 3_000  # packages that are taken, by lot
LEAST = 100  # characters of an answer
BUILT = ("-dbg", "-dev", "-doc")  # parts of another package, described in the same words
DESCRIPTION = re.compile(
    r"^Description(?:-[a-z]{2}(?:_[A-Z]{2})?)?: (.+)\n((?: .*\n?)+)", re.MULTILINE
)


def read(stanza):
    """The name of a package, the first line of its description, and the rest; None where one is missing."""
    name, found = re.match(r"Package: (\S+)", stanza), DESCRIPTION.search(stanza)
    if not name or not found or name[1].endswith(BUILT) or "<trans>" in found[0]:
        return None
    lines = [line[1:] for line in found[2].splitlines()]
    return name[1], found[1], "\n".join("" if line == "." else line for line in lines).strip()


def collect(path):
    stanzas = path.read_text("utf-8").split("\n\n")
    random.Random(1).shuffle(stanzas)
    rows, questions, known = [], [], set()
    for name, asked, answer in filter(None, map(read, stanzas)):
        if len(answer) < LEAST or {asked, answer} & known:
            continue
        known |= {asked, answer}
        rows.append({"_id": name, "title": "", "text": answer})
        if len(asked) in ASKED:
            questions.append((name, asked))
        if len(rows) == MOST:
            break
    return rows, questions


def main(out, file):
    passages, asked = save(out, *collect(Path(file)))
    print(f"{out}: {passages} packages, {asked} questions")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python bench/package_set.py OUT FILE")
    main(*sys.argv[1:])
