"""Redact: how often ordinary text is taken for a secret, by kind, over the files of some folders.

python bench/redact.py FOLDER...
"""

import re
import sys
from collections import Counter
from pathlib import Path

from headgate.text.redact import redact

SUFFIXES = {".py", ".md", ".txt", ".jsonl", ".rst"}
PLACEHOLDER = re.compile(r"\[redacted ([\w-]+) [0-9a-f]{6}\]")


def main(folders: list[str]) -> None:
    chars, found = 0, Counter()
    for folder in folders:
        for file in sorted(Path(folder).rglob("*")):
            if file.suffix in SUFFIXES and file.is_file():
                text = file.read_text("utf-8", "replace")
                chars += len(text)
                found.update(PLACEHOLDER.findall(redact(text)))
    print(f"{chars:,} characters, {sum(found.values())} taken for secrets: {dict(found)}")


if __name__ == "__main__":
    main(sys.argv[1:])
