"""Mutants: small mistakes put into the source, one at a time, and the share that the tests of that package notice.

    make bench-mutants [ARGS="--sample 60 --seed 7"]                  drawn from the whole source: 1 hour
    make bench-mutants ARGS="--package memory --sample 20"            of one package or module: 10 minutes

A mutant changes one comparison, one arithmetic or boolean operator, or negates one condition. The tests of the package
(tests/PACKAGE, or those in TESTS) run against a copy of the source. A mutant that they do not notice survives and is
printed. The tests run once on the source as it is, since tests that fail there would notice everything; tests that
then take several times as long are given up, and count as having noticed. It fails if fewer than 85 % are noticed.
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
SOURCE = ROOT / "src" / "millgate"
SWAPS = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Add: ast.Sub, ast.Sub: ast.Add,
    ast.Mult: ast.Div, ast.Div: ast.Mult, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip
TESTS = {
    "service": ("tests/service", "tests/proxy", "tests/wrap", "tests/dashboard"),
    "cli": ("tests/cli", "tests/evaluate", "tests/wrap"),
    "gateway": ("tests/test_gateway.py", "tests/test_cancellation.py"),
    "types": ("tests/test_types.py", "tests/test_window.py"),
    "settings": (
        "tests/test_settings.py",
        "tests/test_settings_found.py",
        "tests/test_settings_page.py",
    ),
}  # packages whose tests are not in tests/PACKAGE
LEAST_S, TIMES = (
    300,
    5,
)  # tests are given up after this many seconds, or this many times what they take without a mutant
# loading every plugin that is installed takes longer than the tests of most modules
ALONE = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
PLUGINS = ("-p", "pytest_asyncio.plugin", "-p", "_hypothesis_pytestplugin")


def places(tree):
    """Every place for one mistake: the node, and what to do to it."""
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


def packages():
    """Every package and module of the source that has tests."""
    names = sorted({path.relative_to(SOURCE).parts[0].removesuffix(".py") for path in SOURCE.rglob("*.py")})  # fmt: skip
    return [name for name in names if all((ROOT / tests).exists() for tests in tests_of(name))]


def all_places(package):
    """Every (package, file, number of the place in it)."""
    home = SOURCE / package
    files = sorted(home.rglob("*.py")) if home.is_dir() else [home.with_suffix(".py")]
    return [(package, path, n) for path in files for n, _ in enumerate(places(ast.parse(path.read_text())))]  # fmt: skip


def draw(chosen, count, seed):
    """`count` mutants of each of these packages, or, if none is named, of all packages together."""
    pools = [(f"{seed} {package}", all_places(package)) for package in chosen]
    pools = pools or [(seed, [place for package in packages() for place in all_places(package)])]
    drawn = [p for seed, pool in pools for p in random.Random(seed).sample(pool, min(count, len(pool)))]  # fmt: skip
    return groupby(sorted(drawn, key=lambda place: place[0]), key=lambda place: place[0])


def tests_of(package):
    """The tests of a package: a folder, or a file if the package is one module."""
    folder = ROOT / "tests" / package
    return TESTS.get(package) or [
        f"tests/{package}" if folder.is_dir() else f"tests/test_{package}.py"
    ]


def own_tests(path, tests):
    """The tests of one module, if it has files of its own: they notice most mistakes, and sooner."""
    name = f"test_{path.stem}*.py"
    return [str(found) for folder in tests for found in (ROOT / folder).rglob(name)]


def is_noticed(path, number, tests, most_s):
    """Whether the tests fail once the mistake is made: first those of the module, then those of the package."""
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
    print(f"{'noticed ' if noticed else 'SURVIVED'} {where:40} {how:8} {before[:80]}", flush=True)
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
    parser.add_argument("--package", action="append", default=[], help="a folder or module of src/millgate")  # fmt: skip
    parser.add_argument("--tests", nargs="*", help="tests to run (default: those of the package)")
    parser.add_argument("--sample", type=int, default=20)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--least", type=float, default=0.85, help="share that must be noticed")
    args = parser.parse_args()
    noticed = total = 0
    for package, drawn in draw(args.package, args.sample, args.seed):
        tests = args.tests or tests_of(package)
        began = time.monotonic()
        if fail(ROOT / "src", tests):
            sys.exit(f"{' '.join(tests)}: these tests fail without any mistake")
        most_s = max(LEAST_S, TIMES * (time.monotonic() - began))
        for _, path, number in drawn:
            total += 1
            noticed += is_noticed(path, number, tests, most_s)
    print(f"{noticed} of {total} noticed, {noticed / max(total, 1):.0%}")
    sys.exit(noticed < args.least * total)


if __name__ == "__main__":
    main()
