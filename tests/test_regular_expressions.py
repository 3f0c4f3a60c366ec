"""Every regular expression of the package, found by looking, takes time in proportion to the text."""

import ast
import importlib
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest
from tests.hostile import grows_faster, pumped, repeats_that_go_back

import millgate
from millgate.text.lazy_pattern import LazyPattern

pytestmark = pytest.mark.slow  # times every pattern, and imports every framework

CALLS = {"compile", "search", "match", "fullmatch", "sub", "subn", "split", "findall", "finditer"}
ANCHORED = {"match", "fullmatch", "pattern"}
# Patterns that see only what the operator wrote: names of environment variables.
TRUSTED = {"millgate.settings.load"}
# What may go back into a repeated group, because it reads no more than this.
SHORT = {"millgate.text.wanted": "80 characters", "millgate.text.names": "20 000 characters"}


ROOT = Path(millgate.__file__).parent
# what lies in the package: one test each, since what is imported for one need not be for the others
PACKAGES = sorted(path.stem for path in ROOT.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists())  # fmt: skip


def modules(package):
    found = sorted((ROOT / package).rglob("*.py")) or [ROOT / f"{package}.py"]
    for path in found:
        name = ".".join(path.relative_to(ROOT.parent).with_suffix("").parts)
        if not name.endswith("__main__"):
            yield importlib.import_module(name.removesuffix(".__init__"))


def patterns_in(value):
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, LazyPattern):
        yield value.compile()
    elif isinstance(value, Mapping):
        yield from (p for item in value.values() for p in patterns_in(item))
    elif isinstance(value, tuple | list | frozenset | set):
        yield from (p for item in value for p in patterns_in(item))


def written_in(module):
    """Patterns that a function writes as a literal, which no global holds."""
    source = Path(module.__file__ or "")
    for node in ast.walk(ast.parse(source.read_text("utf-8"))):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id == "re"
            and node.func.attr in CALLS
            and isinstance(node.args[0], ast.Constant)
        ):
            yield re.compile(node.args[0].value)


def calls_on(module):
    """Which methods the module calls on each of its globals."""
    called = {}
    for node in ast.walk(ast.parse(Path(module.__file__ or "").read_text("utf-8"))):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            called.setdefault(node.value.id, set()).add(node.attr)
    return called


@cache
def found(package):
    """Each pattern once: its module, itself, and whether it is only ever tried at the start of a text."""
    known = {}
    for module in modules(package):
        if module.__name__ in TRUSTED:
            continue
        called = calls_on(module)
        for name, value in vars(module).items():
            anchored = (
                isinstance(value, re.Pattern | LazyPattern) and called.get(name, {""}) <= ANCHORED
            )
            for pattern in patterns_in(value):
                key = (pattern.pattern, pattern.flags)
                known.setdefault(key, (module.__name__, pattern, anchored))
        for pattern in written_in(module):
            known.setdefault((pattern.pattern, pattern.flags), (module.__name__, pattern, False))
    return sorted(known.values(), key=lambda item: (item[0], str(item[1].pattern)))


over_packages = pytest.mark.parametrize("package", PACKAGES)


def test_the_search_finds_the_patterns_of_the_package():
    assert {"knowledge", "guard", "text"} <= {*PACKAGES}
    assert len(found("text")) >= 20
    assert any(name == "millgate.text.fence" for name, *_ in found("text"))


@over_packages
def test_time_grows_with_the_text_and_no_faster(package):
    for name, pattern, anchored in found(package):
        is_text = isinstance(pattern.pattern, str)
        shown = pattern if is_text else re.compile(pattern.pattern.decode("latin-1"))

        def work(text, pattern=pattern, anchored=anchored, is_text=is_text):
            data = text if is_text else text.encode()
            return pattern.match(data) if anchored else pattern.sub(data[:0], data)

        for make in pumped(shown):
            assert not grows_faster(work, make), (name, pattern, repr(make(40)))


@over_packages
def test_no_group_is_repeated_without_end_and_kept_to_go_back_into(package):
    # For each time around, the engine keeps 70 to 140 bytes: a hundred times the text. A possessive repeat keeps none.
    kept = [(name, p) for name, p, _ in found(package) if name not in SHORT and [*repeats_that_go_back(p)]]  # fmt: skip
    assert kept == []


def test_the_check_sees_a_group_that_is_kept():
    assert list(repeats_that_go_back(re.compile(r"a(?:b|(?:[.-]\w+)*)")))
    assert not list(repeats_that_go_back(re.compile(rb"a(?:[.-]\w+)*+b(?:cd){,9}[ef]*")))


@pytest.mark.parametrize(
    "pattern",
    [
        r"([<＜‹〈]\s*)(?=[/／]?\s*ref\b)",
        r"(?m)^(#{1,6})[ \t]+(\S[^\n]*?)[ \t]*#*$",
        r"\s+$",
        r"<[^>]*>",
    ],
)
def test_the_check_sees_patterns_that_are_slow(pattern):
    compiled = re.compile(pattern)
    # a busy machine may hide it once
    looks = (make for _ in range(3) for make in pumped(compiled))
    assert any(grows_faster(lambda t: compiled.sub("", t), make) for make in looks)
