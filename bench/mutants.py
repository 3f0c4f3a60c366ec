"""A sample of mutants: small mistakes put into the source, one at a time, and whether the tests of that room notice.

    python bench/mutants.py --room memory --sample 20     of one room
    python bench/mutants.py --sample 60 --seed 7          of all rooms together

A mutant changes one comparison, one arithmetic or boolean operator, or negates one condition. The tests of the room
(tests/ROOM, or those in HOMES) run against a copy of the source; a mutant that they do not notice survives and is
printed. Tests that fail without any mistake would notice everything, so they run once on the source as it is; tests
that take several times as long as then will never end, and have noticed it.
"""

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from itertools import groupby
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "headgate"
SWAPS = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Add: ast.Sub, ast.Sub: ast.Add,
    ast.Mult: ast.Div, ast.Div: ast.Mult, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip
ROOMS = (
    "text", "memory", "graph", "guard", "ingest", "index", "cli", "stores", "service", "relevance", "explain", "xray",
    "models", "types", "settings", "rank", "stages", "operations", "gateway", "evaluate", "pipeline", "integrations",
    "errors", "forks", "lazy", "notes", "spending", "wiring",
)  # fmt: skip
HOMES = {
    "service": ("tests/service", "tests/proxy", "tests/wrap", "tests/dashboard"),
    "cli": ("tests/cli", "tests/evaluate", "tests/wrap"),
    "gateway": ("tests/test_gateway.py", "tests/test_doors.py", "tests/test_cancellation.py"),
    "types": ("tests/test_types.py", "tests/test_window.py"),
    "settings": (
        "tests/test_settings.py",
        "tests/test_settings_found.py",
        "tests/test_settings_page.py",
    ),
}  # rooms whose tests stand elsewhere than in tests/ROOM
LEAST_S, TIMES = 300, 5  # tests are given up after so many seconds, or so many times what they take
# loading every plugin that is installed takes longer than the tests of most modules
ALONE = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
PLUGINS = ("-p", "pytest_asyncio.plugin", "-p", "_hypothesis_pytestplugin")


def places(tree):
    """Every place where one mistake can be made: the node, and what to do to it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and type(node.ops[0]) in SWAPS:
            yield node, "compare"
        elif isinstance(node, ast.BinOp | ast.BoolOp) and type(node.op) in SWAPS:
            yield node, "operate"
        elif isinstance(node, ast.If | ast.IfExp | ast.While):
            yield node, "negate"


def change(node, how):
    if how == "compare":
        node.ops[0] = SWAPS[type(node.ops[0])]()
    elif how == "operate":
        node.op = SWAPS[type(node.op)]()
    else:
        node.test = ast.UnaryOp(ast.Not(), node.test)


def all_places(room):
    """Every (room, file, number of the place in it)."""
    home = SOURCE / room
    files = sorted(home.rglob("*.py")) if home.is_dir() else [home.with_suffix(".py")]
    return [(room, path, n) for path in files for n, _ in enumerate(places(ast.parse(path.read_text())))]  # fmt: skip


def draw(rooms, count, seed):
    """So many mutants of each of these rooms, or, without any, of all rooms together."""
    pools = [(f"{seed} {room}", all_places(room)) for room in rooms]
    pools = pools or [(seed, [place for room in ROOMS for place in all_places(room)])]
    drawn = [p for seed, pool in pools for p in random.Random(seed).sample(pool, min(count, len(pool)))]  # fmt: skip
    return groupby(sorted(drawn, key=lambda place: place[0]), key=lambda place: place[0])


def home(room):
    """The tests of a room: a folder, or a file where the room is one module."""
    return [f"tests/{room}" if (ROOT / "tests" / room).is_dir() else f"tests/test_{room}.py"]


def own_tests(path, tests):
    """The tests of one module, where it has files of its own: they notice most mistakes, and sooner."""
    name = f"test_{path.stem}*.py"
    return [str(found) for folder in tests for found in (ROOT / folder).rglob(name)]


def is_noticed(path, number, tests, most_s):
    """Whether the tests fail once the mistake is made: first those of the module, then those of the room."""
    tree = ast.parse(path.read_text())
    node, how = list(places(tree))[number]
    line, before = node.lineno, ast.unparse(node).splitlines()[0]
    change(node, how)
    ast.fix_missing_locations(tree)
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "src"
        shutil.copytree(ROOT / "src", copy)  # with what is compiled already, all but the one file
        (copy / path.relative_to(ROOT / "src")).write_text(ast.unparse(tree))
        own = own_tests(path, tests)
        noticed = bool(own) and fail(copy, own, most_s)
        noticed = noticed or fail(copy, tests, most_s)
    where = f"{path.relative_to(SOURCE)}:{line}"
    print(f"{'killed  ' if noticed else 'SURVIVED'} {where:40} {how:8} {before[:80]}", flush=True)
    return noticed


def fail(source, tests, most_s=None):
    """Whether some tests fail on a source; those that never end do."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *PLUGINS, *tests],
            cwd=ROOT, env={**os.environ, **ALONE, "PYTHONPATH": str(source)}, capture_output=True,
            check=False, timeout=most_s,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return True
    return done.returncode != 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--room", action="append", default=[], help="a folder or module of src/headgate")  # fmt: skip
    parser.add_argument("--tests", nargs="*", help="tests to run (default: those of the room)")
    parser.add_argument("--sample", type=int, default=20)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--least", type=float, default=0.85, help="share that must be killed")
    args = parser.parse_args()
    killed = total = 0
    for room, drawn in draw(args.room, args.sample, args.seed):
        tests = args.tests or HOMES.get(room) or home(room)
        began = time.monotonic()
        if fail(ROOT / "src", tests):
            sys.exit(f"{' '.join(tests)}: these tests fail without any mistake")
        most_s = max(LEAST_S, TIMES * (time.monotonic() - began))
        for _, path, number in drawn:
            total += 1
            killed += is_noticed(path, number, tests, most_s)
    print(f"{killed} of {total} killed, {killed / max(total, 1):.0%}")
    sys.exit(killed < args.least * total)


if __name__ == "__main__":
    main()
