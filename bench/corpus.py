"""Clean text of many kinds, gathered from what is installed, generated where the machine has none.

Each kind is a list of texts (files, clipped), about SIZE characters in all. Nothing is downloaded and the
generated part is the same on every machine; the gathered part differs with what is installed.
"""

import base64
import gzip
import random
import sys
import sysconfig
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

SIZE = 2_400_000  # characters a kind
CLIP = 60_000  # characters a file
FOUND = {  # kind -> endings of files
    "python": (".py",),
    "javascript": (".js", ".mjs"),
    "c": (".c", ".h"),
    "markdown": (".md",),
    "rst": (".rst",),
    "json": (".json",),
    "csv": (".csv", ".tsv"),
    "html": (".html", ".htm", ".svg"),
    "xml": (".xml",),
    "text": (".txt", "copyright"),
    "perl": (".pl", ".pm"),
    "manual": (".1.gz", ".3.gz", ".8.gz"),
}


def gather(kind: str, folders: Sequence[Path] = ()) -> list[str]:
    """Files of a kind, in an order that mixes them, so that no package dominates."""
    where = folders or roots()
    paths = sorted(p for root in where for end in FOUND[kind] for p in root.rglob(f"*{end}"))
    random.Random(kind).shuffle(paths)
    texts, total = [], 0
    for path in paths:
        text = read(path)
        if len(text) > 500:
            texts.append(text[:CLIP])
            total += len(texts[-1])
        if total > SIZE:
            break
    return texts


def roots() -> list[Path]:
    """Where text is looked for."""
    named = [sysconfig.get_path("stdlib"), sysconfig.get_path("purelib"), "/usr/include"]
    named += ["/usr/share/doc", "/usr/share/man", "/usr/share/perl", "/usr/share/nodejs"]
    named += ["/usr/lib/node_modules", "/usr/share/xml", "/usr/share/javascript"]
    return [path for name in dict.fromkeys(named) if (path := Path(name)).is_dir()]


def read(path: Path) -> str:
    """A file's text; nothing when it cannot be read."""
    try:
        data = path.read_bytes()
        if path.suffix == ".gz":
            data = gzip.decompress(data)
        return data.decode("utf-8")[: CLIP * 4]
    except (OSError, UnicodeDecodeError, EOFError, zlib.error):
        return ""


# Generated kinds

WORDS = [
    "river",
    "gate",
    "water",
    "board",
    "keeper",
    "field",
    "spring",
    "level",
    "flood",
    "meadow",
    "canal",
    "sluice",
    "stone",
    "bridge",
    "weir",
    "valley",
    "farmer",
    "winter",
    "harvest",
    "measure",
    "signal",
    "channel",
    "basin",
    "ditch",
    "bank",
    "mill",
    "wheel",
    "current",
    "reed",
    "heron",
    "storm",
]


def sentence(rng: random.Random) -> str:
    words = [rng.choice(WORDS) for _ in range(rng.randint(4, 14))]
    return " ".join(words).capitalize() + rng.choice([". ", ". ", "; ", "? "])


def tables(rng: random.Random) -> str:
    columns = rng.randint(2, 6)
    lines = ["| " + " | ".join(rng.choice(WORDS).ljust(10) for _ in range(columns)) + " |"]
    lines.append("|" + "|".join("-" * 12 for _ in range(columns)) + "|")
    for _ in range(rng.randint(3, 30)):
        cells = (
            rng.choice([rng.choice(WORDS), str(rng.randint(0, 999)), ""]) for _ in range(columns)
        )
        lines.append("| " + " | ".join(cell.ljust(10) for cell in cells) + " |")
    return "\n".join(lines) + "\n\n" + sentence(rng) + "\n\n"


def latex(rng: random.Random) -> str:
    rows = " \\\\\n".join(
        " & ".join(f"{rng.uniform(0, 9):.2f}" for _ in range(4)) for _ in range(rng.randint(3, 12))
    )
    return (
        f"\\section{{{rng.choice(WORDS).title()}}}\n{sentence(rng)}\n"
        f"\\begin{{equation}}\n  E_{{{rng.randint(1, 9)}}} = \\sum_{{i=0}}^{{n}} \\frac{{x_i^{rng.randint(2, 5)}}}{{{rng.randint(2, 99)}}}\n"
        f"\\end{{equation}}\n\\begin{{tabular}}{{rrrr}}\n{rows} \\\\\n\\end{{tabular}}\n\n{sentence(rng)}\n\n"
    )


def log(rng: random.Random) -> str:
    level = rng.choice(["INFO", "INFO", "INFO", "DEBUG", "WARN"])
    when = f"2031-0{rng.randint(1, 9)}-{rng.randint(10, 28)} {rng.randint(10, 23)}:{rng.randint(10, 59)}:{rng.randint(10, 59)}"
    where = f"{rng.choice(WORDS)}.{rng.choice(WORDS)}"
    return f"{when} {level} [{where}] request {rng.randrange(10**8)} took {rng.randint(1, 900)} ms status 200\n"


def hexdump(rng: random.Random) -> str:
    lines = []
    start = rng.randrange(1 << 24) & ~15
    for row in range(64):
        data = rng.randbytes(16) if rng.random() < 0.7 else bytes(16)
        shown = "".join(chr(b) if 32 <= b < 127 else "." for b in data)
        lines.append(f"{start + 16 * row:08x}  {data.hex(' ')}  |{shown}|")
    return "\n".join(lines) + "\n"


def encoded(rng: random.Random) -> str:
    data = rng.randbytes(rng.randint(200, 3000)) + bytes(rng.randint(0, 400)) + rng.randbytes(100)
    return base64.encodebytes(data).decode() + "\n"


def cjk(rng: random.Random) -> str:
    common = [
        chr(0x4E00 + int(rng.paretovariate(0.6) * 37) % 20_000) for _ in range(rng.randint(8, 40))
    ]
    return "".join(common) + rng.choice("。，！？、\n")


def emoji(rng: random.Random) -> str:
    faces = "😀😂🌟🔥👍🎉🚀❤️🐍🍎🏔️👩‍💻"
    return sentence(rng) + "".join(rng.choice(faces) for _ in range(rng.randint(1, 6))) + "\n"


def art(rng: random.Random) -> str:
    width, height = rng.randint(20, 70), rng.randint(4, 14)
    box = ["┌" + "─" * width + "┐"]
    for _ in range(height):
        row = [" "] * width
        for _ in range(rng.randint(0, 8)):
            row[rng.randrange(width)] = rng.choice("/\\|_-*+#o.")
        box.append("│" + "".join(row) + "│")
    box.append("└" + "─" * width + "┘")
    return "\n".join(box) + "\n" + "=" * width + "\n\n" + sentence(rng) + "\n"


def records(rng: random.Random) -> str:
    return (
        f'{{"id": {rng.randrange(10**6)}, "name": "{rng.choice(WORDS)}", "tags": ["{rng.choice(WORDS)}", '
        f'"{rng.choice(WORDS)}"], "values": [{rng.randint(0, 9)}, {rng.randint(0, 9)}, {rng.randint(0, 9)}], "ok": true}},\n'
    )


MADE = {
    "tables": tables,
    "latex": latex,
    "logs": log,
    "hex dumps": hexdump,
    "base64": encoded,
    "cjk": cjk,
    "emoji": emoji,
    "ascii art": art,
    "records": records,
}


def generate(kind: str) -> list[str]:
    """Texts of a generated kind, the same on every machine."""
    rng, texts, total = random.Random(kind), [], 0
    while total < SIZE:
        parts, size = [], 0
        while size < CLIP:
            parts.append(MADE[kind](rng))
            size += len(parts[-1])
        texts.append("".join(parts))
        total += size
    return texts


def corpus() -> Iterator[tuple[str, list[str]]]:
    """Every kind with its texts; kinds the machine has nothing of are left out."""
    for kind in FOUND:
        texts = gather(kind)
        if texts:
            yield kind, texts
    for kind in MADE:
        yield kind, generate(kind)


if __name__ == "__main__":
    for kind, texts in corpus():
        sys.stdout.write(f"{kind:12} {len(texts):5} texts {sum(map(len, texts)) / 1e6:6.2f} MB\n")
