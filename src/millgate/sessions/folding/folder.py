"""Folder: folds a conversation message by message, and `expand` undoes it.

The laws, each of which is a property test over recorded sessions:
1. `expand` gives the conversation back byte for byte: every fold is read back before it is made.
2. What becomes of a message depends on it and those before it alone, so the provider's cache of the prefix holds.
3. A pointer names one place, and there only lines that stand in the window as it is sent.
4. Only runs of at least 20 whole lines of a tool's result are folded; `rules` has the exceptions.
5. A pointer is shorter than its lines, in bytes and in tokens.
6. If the model asks again for what was folded, or goes in a circle, it gets the full text, and folding stops.

Runs are found by blocks of 10 lines: those of a text at every tenth line are known by a hash, and every place of a new
text is looked up. Of 20 lines in a row some 10 are such a block, wherever they begin. So a conversation costs one entry
for ten lines, and its texts themselves are read again from the messages only if one is pointed to.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from millgate.circles.finder import CircleFinder
from millgate.errors import InputError
from millgate.sessions.folding.lines import Lines, Run, extend
from millgate.sessions.folding.pointer import (  # fmt: skip
    MIN_LINES,
    Pointer,
    find_pointers,
    read_pointer,
    read_shown,
    resolve,
    write_pointer,
)
from millgate.sessions.folding.report import Fold, FoldReport
from millgate.sessions.folding.rules import (  # fmt: skip
    RULES,
    SCREEN,
    Clears,
    Rule,
    clears_of,
    is_failed,
    lists_conflicts,
)
from millgate.sessions.folding.texts import NamedText, TextReader
from millgate.text.tokens import estimate_tokens
from millgate.transcript.places import Place, replace_text, text_at

BLOCK = (
    MIN_LINES // 2
)  # lines known by one hash: 19 lines in a row hold such a block, wherever they begin
PLACES = 4  # of equal blocks that are tried: more of them are boilerplate

Edit = tuple[int, int, str]
"""Lines of a text, from a place to another, and the line that stands there instead."""


@dataclass(frozen=True, slots=True)
class _Source:
    """A text in the window, by where it stands: its lines are read again when they are needed."""

    at: int
    place: Place
    name: str
    edits: tuple[Edit, ...]
    reads: tuple[str, ...]

    def shown(self, messages: Sequence[Any]) -> Lines:
        """Its lines as the model sees them."""
        lines = text_at(messages[self.at], self.place).split("\n")
        return read_shown(_apply(lines, self.edits))


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
        self._edits: dict[int, list[tuple[Place, tuple[Edit, ...]]]] = {}  # by message
        self._folds: list[Fold] = []
        self._folded: set[tuple[int, int]] = set()  # calls and results that were folded
        self._read_files: set[str] = set()
        self._calls: set[int] = set()
        self._repeated: list[int] = []
        self._noted = (
            -1,
            0,
            False,
        )  # the last result that was noted, and whether it was a first reading
        self._edited: dict[str, int] = {}  # by file: the message that tells of its last edit
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
            self._read(at, messages[at])
        self.read, self._messages = len(messages), ()
        self._open.clear()

    def apply(self, messages: Sequence[Any]) -> list[Any]:
        """The messages as they are sent; those without a fold are the same objects."""
        sent = list(messages)
        for at, edits in self._edits.items():
            for path, changed in edits:
                lines = _apply(text_at(sent[at], path).split("\n"), changed)
                sent[at] = replace_text(sent[at], path, "\n".join(lines))
        return sent

    # One message

    def _read(self, at: int, message: object) -> None:
        self._finder.feed(at, message)
        circle = self._finder.circle() if self._folds and self._stopped is None else None
        if circle is not None:
            self._stopped = at, circle.describe()
        for part in self._reader.read(message):
            lines = part.text.split("\n")
            edits = self._fold_result(at, part, lines) if part.kind == "result" else ()
            if edits:
                self._edits.setdefault(at, []).append((part.place, edits))
            self._learn(at, part, lines, edits)

    def _fold_result(self, at: int, part: NamedText, lines: list[str]) -> tuple[Edit, ...]:
        """What is changed in a result: texts that only read like pointers, and the folds."""
        edits = list(self._escape(lines))
        key = part.call, hash(part.text)
        if key in self._folded and self._stopped is None:
            self._stopped = at, f"{part.name or part.tool} came again"
        is_first = self._note_files(at, part)
        if self._is_folded(at, part, len(lines), is_first=is_first):
            found = list(self._find_folds(at, part, lines))
            if found:
                self._folded.add(key)
                self._folds += found
                edits += [(fold.start, fold.start + fold.lines, fold.pointer) for fold in found]
        return tuple(sorted(edits))

    def _is_folded(self, at: int, part: NamedText, lines: int, *, is_first: bool) -> bool:
        """Whether a result may be folded: law 4, and law 6."""
        if self._stopped is not None or at < self._start or lines < MIN_LINES:
            return False
        applies = {
            "short": lines <= SCREEN,
            "first reading": is_first,
            "error": is_failed(part),
            "conflict": lists_conflicts(part.text),
        }
        return not any(applies[name] for name in self._rules)

    def _note_files(self, at: int, part: NamedText) -> bool:
        """Remember a call, and which files it read or changed; whether it read one for the first time.

        A result may have several texts.
        """
        if self._noted[:2] == (at, part.call):
            return self._noted[2]
        if not part.is_error:
            self._edited |= {_plain(path): at for path in part.files.edits}
        reads = {_plain(path) for path in part.files.reads}
        is_first = not reads <= self._read_files
        if part.call in self._calls or (reads and not is_first):
            self._repeated.append(at)
        self._calls.add(part.call)
        self._read_files |= reads
        self._noted = at, part.call, is_first
        return is_first

    def _learn(self, at: int, part: NamedText, lines: list[str], edits: tuple[Edit, ...]) -> None:
        """Remember a text, so that later ones may point to it."""
        if not part.name or len(lines) < MIN_LINES:
            return
        number = self._numbers[part.name] = len(self._sources)
        reads = tuple(map(_plain, part.files.reads))
        self._sources.append(_Source(at, part.place, part.name, edits, reads))
        if self._clears.may_clear(part) or lists_conflicts(part.text):
            return
        shown = read_shown(_apply(lines, edits))
        keys = [hash(body.strip()) for body in shown.bodies]
        for line in range(0, len(keys) - BLOCK + 1, BLOCK):
            block = tuple(keys[line : line + BLOCK])
            if len(set(block)) > 1:
                places = self._blocks.setdefault(hash(block), [])
                if len(places) < PLACES:
                    places.append((number, line))

    # Finding runs

    def _find_folds(self, at: int, part: NamedText, lines: list[str]) -> Iterator[Fold]:
        """The folds of a text, from its beginning to its end."""
        here = read_shown(lines)
        keys = [hash(body.strip()) for body in here.bodies]
        done = line = _first_line(lines) if part.is_report else 0
        while line <= len(keys) - BLOCK:
            places = self._blocks.get(hash(tuple(keys[line : line + BLOCK])))
            found = None if places is None else self._longest(here, line, done, places)
            if found is None:
                line += 1
                continue
            run, number = found
            fold = self._make_fold(at, part, here, run, number)
            if fold is None:  # a run is tried once, however many of its lines stand elsewhere
                line = max(line + 1, run.end - BLOCK + 1)
                continue
            yield fold
            done = line = run.end

    def _longest(
        self, here: Lines, line: int, least: int, places: Sequence[tuple[int, int]]
    ) -> tuple[Run, int] | None:
        """The longest run around a line, and its source; None if the lines there differ after all."""
        best, longest = None, 0
        for number, place in places:
            # a run that begins earlier was found there: its blocks stand ten lines apart
            run = extend(here, line, self._read_source(number), place, max(least, line - MIN_LINES))
            if run is not None and run.end - run.start > longest:
                best, longest = (run, number), run.end - run.start
        return best

    def _make_fold(
        self, at: int, part: NamedText, here: Lines, run: Run, number: int
    ) -> Fold | None:
        """The fold of a run; None if it is too short, or its pointer is not shorter or cannot be read back."""
        if run.end - run.start < MIN_LINES:
            return None
        source, there = self._sources[number], self._read_source(number)
        is_stale = any(self._edited.get(path, -1) > source.at for path in source.reads)
        pointer = write_pointer(run, there, source.name, is_stale=is_stale)
        lines = here.lines[run.start : run.end]
        saved = _saving("\n".join(lines), pointer)
        read = read_pointer(pointer)
        if saved <= 0 or read is None or resolve(read, there) != lines:
            return None
        return Fold(at, part.place, run.start, len(lines), saved, pointer, source.name, is_stale)

    def _read_source(self, number: int) -> Lines:
        """The lines of a source, read once while the conversation is extended."""
        found = self._open.get(number)
        if found is None:
            found = self._open[number] = self._sources[number].shown(self._messages)
        return found

    # Texts that read like pointers

    def _escape(self, lines: list[str]) -> Iterator[Edit]:
        """A space more for each line that would be read back as a pointer although it is none."""
        for at, pointer in find_pointers(lines):
            number = self._numbers.get(pointer.name)
            if number is not None and resolve(pointer, self._read_source(number)) is not None:
                yield at, at + 1, f"[ {lines[at][1:]}"


def _saving(text: str, pointer: str) -> int:
    """The tokens that a pointer saves; none if it is not shorter in bytes, as JSON has them, too."""
    if len(orjson.dumps(pointer)) >= len(orjson.dumps(text.encode("utf-8", "replace").decode())):
        return 0
    return estimate_tokens(text) - estimate_tokens(pointer)


def _apply(lines: list[str], edits: Sequence[Edit]) -> list[str]:
    """The lines with some of them replaced."""
    if not edits:
        return lines
    made: list[str] = []
    last = 0
    for start, end, line in edits:
        made += lines[last:start]
        made.append(line)
        last = end
    return made + lines[last:]


def _first_line(lines: Sequence[str]) -> int:
    """Where the lines begin behind the first one that is not blank."""
    return next((at + 1 for at, line in enumerate(lines) if line.strip()), 0)


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
    reader = TextReader()
    known: dict[str, list[str]] = {}  # by name: its lines
    expanded = list(messages)
    for at, message in enumerate(messages):
        for part in reader.read(message):
            lines = part.text.split("\n")
            if part.kind == "result":
                whole = _expand(lines, known)
                if whole is not None:
                    expanded[at] = replace_text(expanded[at], part.place, "\n".join(whole))
            if part.name:
                known[part.name] = lines
    return expanded


def _check(messages: object) -> None:
    if not isinstance(messages, Sequence) or isinstance(messages, str | bytes):
        raise InputError(
            f"messages must be a list, not {type(messages).__name__}",
            hint='pass the list itself, such as body["messages"]',
        )


def _expand(lines: list[str], known: Mapping[str, list[str]]) -> list[str] | None:
    """The lines with those that pointers stand for; None if there is no pointer."""
    edits: list[tuple[int, list[str]]] = []
    for at, pointer in find_pointers(lines):
        found = _resolve(pointer, known)
        if found is not None:
            edits.append((at, [f"[{lines[at][2:]}"] if pointer.spaces else found))
    if not edits:
        return None
    made: list[str] = []
    last = 0
    for at, found in edits:
        made += lines[last:at] + found
        last = at + 1
    return made + lines[last:]


def _resolve(pointer: Pointer, known: Mapping[str, list[str]]) -> list[str] | None:
    lines = known.get(pointer.name)
    return resolve(pointer, read_shown(lines)) if lines else None
