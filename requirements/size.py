"""How much Python a reader must understand: tokens for each room, and whether they stay below the number agreed on.

    python requirements/size.py             fails above `max_tokens` in pyproject.toml
    python requirements/size.py --rooms     one line for each room, the largest first

A token is a name, number, string or operator, as Python's tokenizer cuts them. Comments, docstrings and layout are
free, so neither explanations nor short lines cost anything. Who adds must take away, or raise the number and say why.
"""

import ast
import io
import sys
import tokenize
import tomllib
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "millgate"
LAYOUT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


def count_tokens(text: str) -> int:
    """The tokens of a module without comments, docstrings and layout."""
    docstrings = {
        (node.lineno, node.col_offset)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    }
    found = tokenize.generate_tokens(io.StringIO(text).readline)
    return sum(one.type not in LAYOUT and one.start not in docstrings for one in found)


def count_rooms(source: Path) -> Counter[str]:
    """The tokens of each room; modules at the top level are one."""
    rooms: Counter[str] = Counter()
    for path in source.rglob("*.py"):
        parts = path.relative_to(source).parts
        rooms[parts[0] if len(parts) > 1 else "(top level)"] += count_tokens(
            path.read_text("utf-8")
        )
    return rooms


def main() -> None:
    """Print the sum, and fail if it is above the number agreed on."""
    rooms = count_rooms(SOURCE)
    if "--rooms" in sys.argv:
        for room, tokens in rooms.most_common():
            print(f"{room:16}{tokens:9,}")
    tokens = sum(rooms.values())
    config = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    most = config["tool"]["millgate"]["max_tokens"]
    print(f"{tokens:,} tokens of Python; at most {most:,}")
    if tokens > most:
        sys.exit("take something away, or raise max_tokens in pyproject.toml and say why")


if __name__ == "__main__":
    main()
