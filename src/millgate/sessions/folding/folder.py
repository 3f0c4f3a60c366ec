"""Folder: folds a conversation message by message, and `expand` undoes it.

The laws, each of which is a property test over recorded sessions:
1. `expand` gives the conversation back byte for byte: every fold is read back before it is made.
2. What becomes of a message depends on it and those before it alone, so the provider's cache of the prefix holds.
3. A pointer names one place, and there only lines that stand in the window as it is sent.
4. Only runs of at least 20 whole lines of a tool's result are folded; the RULES have the exceptions.
5. A pointer is shorter than its lines, in bytes and in tokens.
6. If the model asks again for what was folded, or goes in a circle, it gets the full text, and folding stops.

Runs are found by blocks of 10 lines: those of a text at every tenth line are known by a hash, and every place of a new
text is looked up. Of 20 lines in a row some 10 are such a block, wherever they begin. So a conversation costs one entry
for ten lines, and its texts themselves are read again from the messages only if one is pointed to.

The rules say which texts are never folded:

    error           a failed call: what went wrong must stand where the model looks for it
    conflict        a listing of merge conflicts: a model that overlooks one commits it. Nothing points there either.
    short           a result of at most 40 lines, as of a listing: the pointer would take its place on the screen
    first reading   the first reading of a file: what is read first is edited next, and an edit copies its lines

Images, thinking, signed blocks, system prompts and a person's words are not results of tools, so none of them is
folded. A mark for the provider's cache stays on its block and decides nothing: agents move it from message to message,
and a text that was folded only while it has no mark would break the cache that the mark is for.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import orjson

from millgate.circles.finder import CircleFinder
from millgate.errors import InputError
from millgate.sessions.folding.pointer import (
    MIN_LINES,
    Lines,
    Run,
    find_pointers,
    find_run,
    read_lines,
    resolve,
    write_pointer,
)
from millgate.sessions.folding.report import Fold, FoldReport
from millgate.sessions.folding.texts import NamedText, TextReader
from millgate.text.tokens import estimate_tokens
from millgate.transcript.parts import CODE
from millgate.transcript.places import Place, replace_text, text_at

Rule = Literal["error", "conflict", "short", "first reading"]
RULES: frozenset[Rule] = frozenset(get_args(Rule))

BLOCK = (
    MIN_LINES // 2
)  # lines known by one hash: 19 in a row hold such a block, wherever they begin
PLACES = 4  # of equal blocks that are tried: more of them are boilerplate
SCREEN = 40  # lines of a result that is short: what a terminal of common height shows at once
HEAD = 400  # characters in which a result says that it failed
_FAILED = re.compile(
    r"\s{0,8}(?:<returncode>(?!0<)|exit code:? [1-9]|(?:fatal|error|[a-z_.]{0,60}(?:error|exception)):|"
    r"<tool_use_error>|traceback \(most recent)",
    re.IGNORECASE,
)
_TRACEBACK = "Traceback (most recent call last)"
_MARKERS = re.compile(r"(?<![<>])(?:<{7}|>{7}) ")  # longer rows of brackets are headings
_CONFLICTS = ("CONFLICT (", "Unmerged paths:", "both modified:", "both added:")

Edit = tuple[int, int, list[str]]
"""Lines of a text, from a place to another, and what stands there instead."""


def is_failed(part: NamedText) -> bool:
    """Whether a result tells of an error."""
    return part.is_error or _FAILED.match(part.text[:HEAD]) is not None or _TRACEBACK in part.text


def lists_conflicts(text: str) -> bool:
    """Whether a text shows a merge conflict."""
    if any(mark in text for mark in _CONFLICTS):
        return True
    # looking for plain text first is some hundred times faster
    return ("<<<<<<< " in text or ">>>>>>> " in text) and _MARKERS.search(text) is not None


@dataclass(frozen=True, slots=True)
class Clears:
    """What a request lets the server clear from the window before the model reads it."""

    everything: bool = False
    results: bool = False
    calls: bool = False
    kept_tools: frozenset[str] = frozenset()
    """Tools whose calls and results stay."""

    def may_clear(self, part: NamedText) -> bool:
        """Whether the server may clear this text."""
        may = (part.kind == "result" and self.results) or (part.kind == "call" and self.calls)
        return self.everything or (may and part.call.tool not in self.kept_tools)


def clears_of(fields: Mapping[str, Any]) -> Clears:
    """What the fields of a request let the server clear; an edit that is not known may clear everything."""
    context = fields.get("context_management")
    if fields.get("truncation") == "auto":
        return Clears(everything=True)
    if not context:
        return Clears()
    edits = context.get("edits") if isinstance(context, dict) else context
    calls, kept = False, list[frozenset[str]]()
    for edit in edits if isinstance(edits, list) else (None,):
        kind = str(edit.get("type")) if isinstance(edit, dict) else ""
        if kind.startswith("clear_tool_uses"):
            assert isinstance(edit, dict)
            calls = calls or bool(edit.get("clear_tool_inputs"))
            names = edit.get("exclude_tools")
            named = names if isinstance(names, list) else ()
            kept.append(frozenset(name for name in named if isinstance(name, str)))
        elif not kind.startswith("clear_thinking"):  # which is never pointed to
            return Clears(everything=True)
    if not kept:
        return Clears()
    return Clears(results=True, calls=calls, kept_tools=frozenset.intersection(*kept))


class _Source(NamedTuple):
    """A text in the window, by where it stands: its lines are read again when they are needed."""

    at: int
    place: Place
    name: str
    edits: Sequence[Edit]
    reads: Sequence[str]


class Folder:
    """Folds one conversation, which may grow: `extend` reads on from where it stopped.

    `start` is the first message that may be folded: what went to the provider as it was stays as it was. `clears` says
    what the server may clear, which is never pointed to.
    """

    def __init__(
        self,
        *,
        clears: Clears | None = None,
        start: int = 0,
        rules: frozenset[Rule] = RULES,
    ) -> None:
        self._clears, self._start, self._rules = clears or Clears(), start, rules
        self._reader, self._finder = TextReader(), CircleFinder()
        self._sources: list[_Source] = []
        self._numbers: dict[str, int] = {}  # by name: which source it is
        self._blocks: dict[int, list[tuple[int, int]]] = {}  # by hash: source and line
        self._edits: list[tuple[int, Place, Sequence[Edit]]] = []  # by message and place
        self._folds: list[Fold] = []
        self._folded: set[tuple[int, int]] = set()  # calls and results that were folded
        self._read_files: set[str] = set()
        self._edited: dict[str, int] = {}  # by file: the message that tells of its last edit
        self._calls: set[int] = set()
        self._repeated: list[int] = []
        # the last result that was noted, and whether it was a first reading
        self._noted = (-1, 0, False)
        self._messages: Sequence[Any] = ()  # while extending
        self._open: dict[int, Lines] = {}  # sources that were read while extending
        self._stopped: tuple[int, str] | None = None
        self.read = 0
        """How many messages are read."""

    @property
    def report(self) -> FoldReport:
        """What was folded so far."""
        at, by = self._stopped or (None, "")
        return FoldReport(tuple(self._folds), at, by, tuple(self._repeated))

    @property
    def bytes(self) -> int:
        """About how much memory it takes, the results since a person spoke included."""
        held = sum(len(step.text) for step in self._finder.run.actions)
        return held + 600 * len(self._sources) + 220 * len(self._blocks) + 900 * len(self._folds)  # fmt: skip

    def extend(self, messages: Sequence[Any]) -> None:
        """Read the messages of a conversation that are new; those read before must be the same."""
        self._messages = messages
        for at in range(self.read, len(messages)):
            self._finder.feed(at, messages[at])
            if self._folds and self._stopped is None and (circle := self._finder.circle()):
                self._stop(at, circle.describe())
            for part in self._reader.read(messages[at]):
                self._read_text(at, part)
        self.read, self._messages = len(messages), ()
        self._open.clear()

    def apply(self, messages: Sequence[Any]) -> list[Any]:
        """The messages as they are sent; those without a fold are the same objects."""
        sent = list(messages)
        for at, place, edits in self._edits:
            lines = _apply(text_at(sent[at], place).split("\n"), edits)
            sent[at] = replace_text(sent[at], place, "\n".join(lines))
        return sent

    # One text

    def _read_text(self, at: int, part: NamedText) -> None:
        lines = part.text.split("\n")
        edits: list[Edit] = []
        if part.kind == "result":
            edits = [*self._escape(lines), *self._fold_result(at, part, lines)]
            edits.sort(key=lambda edit: edit[0])
            if edits:
                self._edits.append((at, part.place, edits))
        self._learn(at, part, lines, edits)

    def _fold_result(self, at: int, part: NamedText, lines: list[str]) -> Iterator[Edit]:
        key = part.call.number, hash(part.text)
        if key in self._folded:
            self._stop(at, f"{part.name or part.call.tool} came again")
        is_first = self._note_files(at, part)
        if self._stopped is not None or at < self._start or len(lines) < MIN_LINES:
            return
        applies = {
            "short": len(lines) <= SCREEN,
            "first reading": is_first,
            "error": is_failed(part),
            "conflict": lists_conflicts(part.text),
        }
        if not any(applies[name] for name in self._rules):
            for fold in self._find_folds(at, part, lines):
                self._folded.add(key)
                self._folds.append(fold)
                yield fold.start, fold.start + fold.lines, [fold.pointer]

    def _stop(self, at: int, by: str) -> None:
        self._stopped = self._stopped or (at, by)

    def _note_files(self, at: int, part: NamedText) -> bool:
        """Remember a call, and which files it read or changed; whether it read one for the first time.

        A result may have several texts.
        """
        number, files = part.call.number, part.call.files
        if self._noted[:2] == (at, number):
            return self._noted[2]
        if not part.is_error:
            self._edited |= dict.fromkeys(map(_plain, files.edits), at)
        reads = set(map(_plain, files.reads))
        is_first = not reads <= self._read_files
        if number in self._calls or (reads and not is_first):
            self._repeated.append(at)
        self._calls.add(number)
        self._read_files |= reads
        self._noted = at, number, is_first
        return is_first

    def _learn(self, at: int, part: NamedText, lines: list[str], edits: Sequence[Edit]) -> None:
        """Remember a text, so that later ones may point to it."""
        if not part.name or len(lines) < MIN_LINES:
            return
        number = self._numbers[part.name] = len(self._sources)
        reads = tuple(map(_plain, part.call.files.reads))
        self._sources.append(_Source(at, part.place, part.name, edits, reads))
        if self._clears.may_clear(part) or lists_conflicts(part.text):
            return
        keys = _hash_lines(read_lines(_apply(lines, edits)))
        for line in range(0, len(keys) - BLOCK + 1, BLOCK):
            block = tuple(keys[line : line + BLOCK])
            places = self._blocks.setdefault(hash(block), []) if len(set(block)) > 1 else ()
            if isinstance(places, list) and len(places) < PLACES:
                places.append((number, line))

    # Finding runs

    def _find_folds(self, at: int, part: NamedText, lines: list[str]) -> Iterator[Fold]:
        """The folds of a text, from its beginning to its end."""
        here = read_lines(lines)
        keys, done = _hash_lines(here), 0
        if part.call.tool == CODE:  # its first line shows that it is none of a person's
            done = next((n + 1 for n, line in enumerate(lines) if line.strip()), 0)
        line = done
        while line <= len(keys) - BLOCK:
            places = self._blocks.get(hash(tuple(keys[line : line + BLOCK])), ())
            # a run that begins earlier was found there: its blocks stand ten lines apart
            least = max(done, line - MIN_LINES)
            runs = [
                (find_run(here, line, self._read_source(n), place, least), n) for n, place in places
            ]
            run, number = max(runs, key=lambda found: _length(found[0]), default=(None, 0))
            if run is None:
                line += 1
                continue
            fold = self._make_fold(at, part, here, run, number)
            if fold is None:  # a run is tried once, however many of its lines stand elsewhere
                line = max(line + 1, run.end - BLOCK + 1)
                continue
            yield fold
            done = line = run.end

    def _make_fold(
        self, at: int, part: NamedText, here: Lines, run: Run, number: int
    ) -> Fold | None:
        """The fold of a run; None if it is too short, or its pointer is not shorter or cannot be read back."""
        lines = here.lines[run.start : run.end]
        if len(lines) < MIN_LINES:
            return None
        source, there = self._sources[number], self._read_source(number)
        is_stale = any(self._edited.get(path, -1) > source.at for path in source.reads)
        pointer = write_pointer(run, there, source.name, is_stale=is_stale)
        saved = _saving("\n".join(lines), pointer)
        if saved <= 0 or [resolve(found, there) for _, found in find_pointers([pointer])] != [
            lines
        ]:
            return None
        return Fold(at, part.place, run.start, len(lines), saved, pointer, source.name, is_stale)

    def _read_source(self, number: int) -> Lines:
        """The lines of a source as the model sees them, read once while the conversation is extended."""
        if number not in self._open:
            source = self._sources[number]
            lines = text_at(self._messages[source.at], source.place).split("\n")
            self._open[number] = read_lines(_apply(lines, source.edits))
        return self._open[number]

    def _escape(self, lines: list[str]) -> Iterator[Edit]:
        """A space more for each line that would be read back as a pointer although it is none."""
        for at, pointer in find_pointers(lines):
            number = self._numbers.get(pointer["name"])
            if number is not None and resolve(pointer, self._read_source(number)) is not None:
                yield at, at + 1, [f"[ {lines[at][1:]}"]


def _hash_lines(lines: Lines) -> list[int]:
    return [hash(body.strip()) for body in lines.bodies]


def _length(run: Run | None) -> int:
    return 0 if run is None else run.end - run.start


def _saving(text: str, pointer: str) -> int:
    """The tokens that a pointer saves; none if it is not shorter in bytes, as JSON has them, too."""
    if len(orjson.dumps(pointer)) >= len(orjson.dumps(text.encode("utf-8", "replace").decode())):
        return 0
    return estimate_tokens(text) - estimate_tokens(pointer)


def _apply(lines: list[str], edits: Sequence[Edit]) -> list[str]:
    """The lines with some of them replaced."""
    made: list[str] = []
    last = 0
    for start, end, instead in edits:
        made += lines[last:start] + instead
        last = end
    return made + lines[last:]


def _plain(path: str) -> str:
    return path.removeprefix("./")


def fold(
    messages: Sequence[Any], *, request: Mapping[str, Any] | None = None
) -> tuple[list[Any], FoldReport]:
    """The messages of a conversation with what stands in it already folded into pointers, and what was folded.

    Messages may be those of OpenAI's chat or responses, or of Anthropic's messages. `request` holds the other fields of
    the request, if they let the server clear parts of the window.

        sent, report = millgate.fold(messages)
        assert millgate.expand(sent) == messages
    """
    _check(messages)
    folder = Folder(clears=clears_of(request or {}))
    folder.extend(messages)
    return folder.apply(messages), folder.report


def expand(messages: Sequence[Any]) -> list[Any]:
    """The messages as they were before `fold`, byte for byte."""
    _check(messages)
    reader, expanded = TextReader(), list(messages)
    known: dict[str, list[str]] = {}  # by name: its lines
    for at, message in enumerate(messages):
        for part in reader.read(message):
            lines = part.text.split("\n")
            edits = list(_unfold(lines, known)) if part.kind == "result" else ()
            if edits:
                whole = "\n".join(_apply(lines, edits))
                expanded[at] = replace_text(expanded[at], part.place, whole)
            if part.name:
                known[part.name] = lines
    return expanded


def _unfold(lines: list[str], known: Mapping[str, list[str]]) -> Iterator[Edit]:
    """The lines that pointers stand for."""
    for at, pointer in find_pointers(lines):
        source = known.get(pointer["name"])
        found = resolve(pointer, read_lines(source)) if source else None
        if found is not None:
            yield at, at + 1, [f"[{lines[at][2:]}"] if pointer["spaces"] else found


def _check(messages: object) -> None:
    if not isinstance(messages, Sequence) or isinstance(messages, str | bytes):
        raise InputError(
            f"messages must be a list, not {type(messages).__name__}",
            hint='pass the list itself, such as body["messages"]',
        )
