"""The code in README and docs runs, offline, as a reader would run it, and the pages speak only of what exists.

Each ```python block runs in a namespace of its own, in an empty folder. Where a ```text block follows it, that is
what it must print.
"""

import importlib.util
import re
import subprocess
import sys
import tomllib
from contextlib import suppress
from functools import cache
from pathlib import Path

import click
import pytest
from tests.scripts import run_code
from tests.waiting import MOST_S

from millgate import Millgate
from millgate.cli import app
from millgate.settings import Settings

ROOT = Path(__file__).parent.parent
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "examples").rglob("*.md")),
]
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]
BLOCK = re.compile(
    r"^```python\n(?P<code>.*?)^```\n(?:\s*^```text\n(?P<printed>.*?)^```)?", re.DOTALL | re.MULTILINE
)  # fmt: skip

BLOCKS = [
    pytest.param(found["code"], found["printed"], id=f"{name}:{page.read_text()[: found.start()].count(chr(10)) + 1}")
    for name, page in zip(NAMES, PAGES, strict=True)
    for found in BLOCK.finditer(page.read_text())
]  # fmt: skip

over_pages = pytest.mark.parametrize("page", PAGES, ids=NAMES)


@pytest.mark.parametrize(("code", "printed"), BLOCKS)
def test_the_code_on_the_page_runs_and_prints_what_it_says(code, printed, tmp_path):
    done = run_code(code, tmp_path)
    assert done.returncode == 0, done.stderr
    if printed is not None:
        assert done.stdout == printed


SHELL = re.compile(r"The same from the command line:\n\n```sh\n(.*?)^```", re.DOTALL | re.MULTILINE)


def test_the_command_line_of_a_first_day_shows_what_was_dropped_and_why(tmp_path):
    (script,) = SHELL.findall((ROOT / "docs/start.md").read_text())
    command = f'millgate() {{ "{sys.executable}" -W error -m millgate "$@"; }}\nset -e\n{script}'
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=MOST_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "added 3 documents" in done.stdout + done.stderr
    assert re.search(r"drop +policy +penalize +0\.000 +already in the window", done.stdout)
    assert re.search(r"keep +\[1\] +steps ", done.stdout)


# -- links -----------------------------------------------------------------------------------------

LINK = re.compile(r"\]\((?!https?:|mailto:)([^)#\s]*)(?:#([^)\s]+))?\)")


@cache
def anchors(page: Path) -> frozenset[str]:
    """The anchors that a browser of repositories gives to a page's headings."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    heads = re.findall(r"^#+ +(.+?) *$", text, re.MULTILINE)
    return frozenset(re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads)


@over_pages
def test_every_link_leads_to_a_file_and_a_heading(page):
    gone = []
    for to, anchor in LINK.findall(page.read_text()):
        target = (page.parent / to).resolve() if to else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            gone.append(f"{to}#{anchor}")
    assert gone == []


# -- sentences -------------------------------------------------------------------------------------

LONGEST = 30  # words; a reader who is new to the field loses the subject of a longer sentence
GENERATED = {"api.md", "commands.md", "errors.md", "http.md", "metrics.md", "settings.md"}
HISTORY = {"CHANGELOG.md"}
HAND_WRITTEN = [page for page in PAGES if page.name not in GENERATED | HISTORY]


def prose(page: Path) -> list[str]:
    """The paragraphs and list items of a page; a piece of code or a link counts as the words that a reader sees."""
    text = re.sub(r"^```.*?^```\s*$", "\n", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"^(?: {4}|\t|\s*\||#|!\[|<).*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"`[^`]*`", "code", text)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    paragraphs = re.split(r"\n\s*\n|\n\s*(?:[-*]|\d+\.) ", text)
    return [" ".join(paragraph.split()) for paragraph in paragraphs]


@pytest.mark.parametrize("page", HAND_WRITTEN, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_sentence_is_longer_than_thirty_words(page):
    sentences = [s for text in prose(page) for s in re.split(r"(?<=[.!?])[\s*)\"]+(?=\S)", text)]
    counts = {
        sentence: len(re.findall(r"[^\W_]+(?:['’.,-][^\W_]+)*", sentence)) for sentence in sentences
    }
    long = [f"{count} words: {sentence}" for sentence, count in counts.items() if count > LONGEST]
    assert not long, "cut these sentences in two:\n" + "\n".join(long)


# -- names -----------------------------------------------------------------------------------------

COMMAND = re.compile(r"(?:^\$ |^|`|[|] )millgate ((?:[a-z]+)(?: [^`\n#|&]*)?)", re.MULTILINE)
CODE = re.compile(r"```(?:bash|sh|console)\n(.*?)^```|`(millgate [^`\n]+)`", re.DOTALL | re.MULTILINE)  # fmt: skip


def said_commands(page: Path) -> list[str]:
    blocks = [block or line for block, line in CODE.findall(page.read_text())]
    return [found.strip() for block in blocks for found in COMMAND.findall(block)]


def find_mistake(words: list[str]) -> str:
    """What the command line does not know of a command that a page shows, or nothing."""
    context = click.Context(app, info_name="millgate")
    command: click.Command = app
    left = iter(words)
    for word in left:
        if word == "--":
            return ""
        if word.startswith("--"):
            options = {name: each for each in command.params for name in (*each.opts, *each.secondary_opts)}  # fmt: skip
            name, given, _ = word.partition("=")
            option = options.get(name)
            if option is None and name not in ("--help", "--version"):
                return f"{command.name} has no option {name}"
            if isinstance(option, click.Option) and not option.is_flag and not given:
                next(left, "")  # its value
        elif isinstance(command, click.Group):
            found = command.get_command(context, word.split("|")[0])
            if found is None:
                return f"no command {word}"
            command, context = found, click.Context(found, info_name=word, parent=context)
    return ""


@over_pages
def test_every_command_on_a_page_exists_with_its_options(page):
    mistakes = {line: find_mistake(line.split()) for line in said_commands(page)}
    assert {line: what for line, what in mistakes.items() if what} == {}


# files, a logger, an entry point group, and what PostgreSQL is told of a transaction
FILES_AND_MORE = re.compile(
    r"\bmillgate\.(?:db|toml|jsonl|svg|py|request|tenant|directory|dialects|memory)\b\S*"
)
MODULE = re.compile(r"\bmillgate(?:\.[a-z_0-9]+)+(?:\.[A-Z]\w+)?")


@over_pages
def test_every_module_on_a_page_exists(page):
    text = re.sub(FILES_AND_MORE, "", page.read_text())
    gone = [name for name in set(MODULE.findall(text)) if not exists(name)]
    assert gone == []


def exists(name: str) -> bool:
    """Whether a dotted name is a module, or an attribute of one."""
    with suppress(ModuleNotFoundError):
        if importlib.util.find_spec(name):  # which imports no framework
            return True
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for part in parts[cut:]:
            if not hasattr(found, part):
                return False
            found = getattr(found, part)
        return True
    return False


VARIABLE = re.compile(r"\bMILLGATE_([A-Z_]*[A-Z])\b")


@over_pages
def test_every_variable_on_a_page_is_a_setting(page):
    gone = [name for name in set(VARIABLE.findall(page.read_text())) if not is_setting(name)]
    assert gone == []


# an extra, or the package by its name behind an installer; `wheel`s and paths have a dot before the bracket
OF_PYPI = re.compile(
    r"(?<![.\w])millgate\[[a-z]|\b(?:install|uv add|uvx|pipx run) millgate(?![\w.])"
)
TOLD = [*PAGES, *sorted((ROOT / "src").rglob("*.py")), *sorted((ROOT / "examples").rglob("*.py"))]


@pytest.mark.parametrize("file", TOLD, ids=lambda file: str(file.relative_to(ROOT)))
def test_nobody_is_told_to_install_the_package_of_another_project(file):
    assert OF_PYPI.findall(file.read_text()) == []


@cache
def hook_script() -> str:
    """The plugin's shell script, which has variables of its own."""
    scripts = sorted((ROOT / "plugins").rglob("*.sh"))
    assert scripts
    return "".join(script.read_text() for script in scripts)


def is_setting(variable: str) -> bool:
    # a file of settings, and the server that tests ask
    if variable in ("CONFIG", "TEST_POSTGRES") or f"MILLGATE_{variable}" in hook_script():
        return True
    fields = Settings.model_fields
    for part in variable.lower().split("__"):
        if part not in fields:
            return False
        kind = fields[part].annotation
        fields = getattr(kind, "model_fields", None) or {}
        if not fields:
            return True
    return True


# -- files, targets, settings and rooms ------------------------------------------------------------

over_present_pages = pytest.mark.parametrize(
    "page", [page for page in PAGES if page.name not in HISTORY], ids=lambda page: str(page.relative_to(ROOT))
)  # fmt: skip
PLACES = [ROOT, ROOT / "src/millgate"]


@over_present_pages
def test_every_python_file_on_a_page_exists(page):
    named = set(re.findall(r"`((?:\w+/)+\w+\.py)`", page.read_text()))
    gone = [name for name in named if not any((place / name).exists() for place in PLACES)]
    assert gone == []


@over_present_pages
def test_every_make_target_on_a_page_exists(page):
    targets = {*re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)}
    targets |= {f"bench-{file.stem}" for file in (ROOT / "bench").iterdir()} | {"bench-NAME"}
    named = set(re.findall(r"(?:`|^)make ([\w-]+)", page.read_text(), re.MULTILINE))
    assert named <= targets


@over_present_pages
def test_every_setting_on_a_page_exists(page):
    named = set(re.findall(r"`([a-z_]+(?:\.[a-z_]+)+)(?:`| = )", page.read_text()))
    # an attribute in Python, a file, and methods of an open Millgate, which the pages call gate
    others = ("guard.report", "proxy.db", *(f"gate.{name}" for name in dir(Millgate)))
    settings = [name for name in named if not name.startswith(others)]
    gone = [
        name
        for name in settings
        if name.split(".")[0] in Settings.model_fields
        and not is_setting(name.upper().replace(".", "__"))
    ]
    assert gone == []


def test_the_rooms_of_the_architecture_are_those_that_import_linter_holds():
    config = tomllib.loads((ROOT / "pyproject.toml").read_text())
    layers = config["tool"]["importlinter"]["contracts"][0]["layers"]
    held = [{name.strip(" ()") for name in layer.split("|")} for layer in layers if layer != "__main__"]  # fmt: skip
    rows = re.findall(r"^\| (\d+) \| `(\w+)`", (ROOT / "docs/ARCHITECTURE.md").read_text(), re.MULTILINE)  # fmt: skip
    told = [{room for number, room in rows if int(number) == n} for n in range(1, len(held) + 1)]
    assert told == held
