"""Account: what left a window in a compaction, and which of it the window that is left still says.

What a window says is found as items. An instruction is a sentence of a person that asks nothing: in any language, since
people say little in an agent's session, and which of it holds for good is not for a list of words to decide. Texts of
tools never give instructions or decisions: they are data, and may be hostile. Paths are those that the agent or a
person named; the thousands that a listing shows are not counted. Each kind is found by one plain pattern, and no model
is asked.

A path, an identifier or a number is still said if it stands there, a path also by its file's name. A sentence (an
instruction, a decision, a to-do, an error) is still said if one sentence there has most of its words: summaries write
sentences anew, so words are compared and not their order.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import islice
from typing import Any, Literal, get_args

from millgate.sessions.compaction.window import Compaction, Message, Window
from millgate.text.table import count_of
from millgate.text.terms import terms_of
from millgate.text.tokens import estimate_tokens
from millgate.transcript.parts import Part, parse_arguments

Kind = Literal["instruction", "path", "todo", "decision", "identifier", "number", "error"]
KINDS: tuple[Kind, ...] = get_args(Kind)
SENTENCES: tuple[Kind, ...] = ("instruction", "decision", "todo", "error")
LASTING: tuple[Kind, ...] = ("instruction", "todo")
"""What a person or a plan wants done: put back without a question."""

# Share of a sentence's words, function words left out, that one sentence of the window has if it still says it.
SAID = 0.6
MOST_SENTENCE = 400  # characters; a longer one is a pasted text
MOST_TEXT = 50_000  # characters of one message's words in which items are looked for
# items of one kind in one message: a pasted document has more sentences than a person says
MOST_OF_MESSAGE = 40
MOST_TODOS = 100
MOST_ITEMS = 500  # of one kind that are told of one compaction; a window of 170 000 tokens has some 300 identifiers
MOST_PLACES = (
    1_000  # of a name in a text that are looked at: only malice writes more that are no whole word
)
MOST_CARRIED = (
    100  # that a compaction lost and that are put back after the next one too; the newest of them
)
MOST_CLEARED = 10**9  # that a service is believed to have cleared: a larger number is a fault

_DECISION = re.compile(
    r"\b(?:decided|decision|chose|chosen|settled on|agreed|went with|going with|go with|opted|instead of|rather than"
    r"|(?:we|I)(?:['’]ll| will) use|let['’]?s use|the plan is)\b",
    re.IGNORECASE,
)
_TODO = re.compile(
    r"^[ \t]{0,20}(?:[-*] \[ \]|(?:[-*] )?TODO:?)[ \t]{1,4}(\S.{0,390})", re.MULTILINE
)
_ENDINGS = (
    "py|pyi|ipynb|js|jsx|mjs|cjs|ts|tsx|vue|svelte|rs|go|java|kt|scala|c|h|cc|cpp|hpp|cs|rb|php|pl|sh|bash|zsh|ps1|ex|exs"
    "|erl|hs|ml|swift|m|sql|md|rst|txt|json|jsonl|yaml|yml|toml|ini|cfg|conf|env|lock|xml|html|css|scss|csv|tsv|log|db"
    "|proto|tf|gradle|heex|dockerfile"
)
_PATH = re.compile(
    r"(?<![\w/.@:~-])(?:(?:~|\.{1,2})?/)?(?:[\w.@+-]{1,100}/){1,30}[\w.@+-]{1,100}(?<![.,:])"
    rf"|(?<![\w/.@:-])[\w.-]{{0,99}}\w\.(?:{_ENDINGS})(?![\w/(-])"
)
_URL = re.compile(r"\b[a-z][a-z0-9+.-]{1,15}://[^\s<>\"'`)\]]{3,300}")
_IDENTIFIER = re.compile(
    r"(?<![\w./@-])(?:"
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
    r"|(?=[0-9a-f]{0,39}[a-f])(?=[0-9a-f]{0,39}\d)[0-9a-f]{7,64}"
    r"|[A-Z][A-Z0-9]{1,9}-\d{1,7}"
    r"|[A-Za-z_]{1,60}(?:_[A-Za-z0-9]{1,60}){1,10}"
    r"|[a-z]{1,40}[A-Z][A-Za-z0-9]{1,60}"
    r"|(?:[A-Z][a-z0-9]{1,40}){2,8}"
    r"|[A-Za-z]{1,40}(?:[.-][A-Za-z0-9]{1,40}){0,6}[.-](?=\w{0,40}\d)\w{1,40}"
    r")(?![\w/@])"
)
_NUMBER = re.compile(
    r"(?<![\w./:,-])[$€£]?\d(?:[\d,_]{0,20}\d)?(?:\.\d{1,12}){0,3}(?: ?(?:%|ms|s|min|h|[KMGT]i?B|kB|px|tokens|rows|USD|EUR))?(?![\w/])"
)
_ERROR = re.compile(
    r"(?:Error|Exception)(?: ?[:(])|\b(?:error(?:\[\w{1,12}\])?|fatal|panic): |^FAILED ",
    re.MULTILINE,
)
_CODE = re.compile(r"^```[^\n]{0,100}\n.*?^```", re.DOTALL | re.MULTILINE)
_SENTENCE_END = re.compile(r"(?<=[.!?])[ \t]{1,4}|(?<=[。！？])|\n")
_MARK = re.compile(r"^[ \t]{0,20}(?:[-*+•>#]{1,6}|\d{1,3}[.)])[ \t]{1,4}")
_TODO_TOOL = re.compile(r"todo|plan", re.IGNORECASE)
_PLACE = re.compile(r"path|file|dir|folder|cwd|command|cmd|patch|url", re.IGNORECASE)
_DONE = ("completed", "complete", "done", "cancelled", "canceled", "deleted")
_TODO_FIELDS = ("content", "step", "task", "title", "description", "text")
_WORD = re.compile(r"\w")
_DIGITS = re.compile(r"\d{3,}")  # of a number: a summary may write its unit in another way
_ASKS = ("?", "？", "؟")


@dataclass(frozen=True, slots=True)
class Item:
    """One thing that a window says, and the message in which it says so first."""

    kind: Kind
    text: str
    at: int
    speaker: str = ""
    """Who said it: human, model or tool."""


@dataclass(frozen=True, slots=True)
class Account:
    """What left a window: each thing that it said, and whether it is gone."""

    way: str
    tokens: int
    """How many tokens left the window."""
    items: tuple[Item, ...] = field(default=(), repr=False)
    gone: frozenset[Item] = field(default=frozenset(), repr=False)
    turn: int = 0
    """The call of the session before which it happened; 0 if that is not known."""
    by_service: str = ""
    """What the service says that it cleared itself; empty if the client compacted its window."""
    carried: tuple[Item, ...] = field(default=(), repr=False)
    """Instructions and to-dos that an earlier compaction lost, and that the window does not say either."""

    @property
    def counts(self) -> dict[Kind, tuple[int, int]]:
        """For each kind how many things left, and how many of them are gone."""
        left, gone = Counter(i.kind for i in self.items), Counter(i.kind for i in self.gone)
        return {kind: (left[kind], gone[kind]) for kind in KINDS if left[kind]}

    @property
    def id(self) -> str:
        """By which the same compaction is known if the client sends its request again."""
        names = "\n".join(f"{item.kind} {item.at} {item.text}" for item in self.items)
        told = f"{self.way} {self.tokens} {len(self.gone)}\n{names}"
        return blake2b(told.encode("utf-8", "replace"), digest_size=8).hexdigest()

    def list_gone(self, *kinds: Kind) -> list[Item]:
        """What is gone of these kinds, kind by kind, in the order in which it was said."""
        gone = [item for item in self.items if item in self.gone]
        return [item for kind in kinds for item in gone if item.kind == kind]

    @property
    def owed(self) -> tuple[Item, ...]:
        """The instructions and to-dos that no window says any more, those of earlier compactions first.

        What was put back after an earlier compaction left the window with this one, if the agent did not keep it.
        """
        lost = self.list_gone(*LASTING)
        # a newer list stands for an older one
        todos = all(item.kind != "todo" for item in lost)
        said = {item.text for item in lost}
        earlier = (i for i in self.carried if i.text not in said and (todos or i.kind != "todo"))
        return (*earlier, *lost)[-MOST_CARRIED:]

    def describe(self) -> str:
        """`compaction at turn 41: 96,000 tokens left the window, 14 of 17 paths and 1 of 3 instructions are gone`."""
        if self.by_service:
            return self.by_service
        where = f"compaction at turn {self.turn}" if self.turn else "compaction"
        gone = [f"{n} of {count_of(left, kind.replace('todo', 'to-do'))}" for kind, (left, n) in self.counts.items() if n]  # fmt: skip
        told = f"{_join(gone)} are gone" if gone else "nothing that it named is gone"
        return f"{where}: {self.tokens:,} tokens left the window, {told}"


def account_service(edits: Sequence[Mapping[str, Any]]) -> tuple[Account, int] | None:
    """What a service says that it cleared from the window for an answer, and how many results of tools were among it.

    The client goes on sending all of it, so it is said with each answer, and for the whole window.
    """
    results, turns, tokens = (
        sum(min(n, MOST_CLEARED) for edit in edits if isinstance(n := edit.get(name), int) and n > 0)
        for name in ("cleared_tool_uses", "cleared_thinking_turns", "cleared_input_tokens")
    )  # fmt: skip
    named = [count_of(results, "tool result")] if results else []
    named += [count_of(turns, "turn") + " of thinking"] if turns else []
    if not named:
        return None
    told = f"the service cleared {_join(named)} ({tokens:,} tokens)"
    return Account("service", tokens, by_service=told), results


def account(
    found: Compaction,
    after: Window,
    *,
    turn: int = 0,
    carried: Sequence[Item] = (),
    shown: Sequence[str] = (),
) -> Account:
    """What left a window, and which of it the later one does not say.

    `carried` are instructions and to-dos that an earlier compaction lost. `shown` is what the model sees beside the
    window: blocks that were put back stand in the messages of some agents.
    """
    items = tuple(_find_all(found.lost))
    tokens = sum(estimate_tokens(part.text) for message in found.lost for part in message.parts)
    said = (part.text for message in after.messages for part in message.parts)
    texts = [after.preamble, *said, *shown]
    gone = frozenset(_find_gone(items, texts))
    return Account(found.way, tokens, items, gone, turn, carried=tuple(_find_gone(carried, texts)))


def find_items(message: Message) -> Iterator[Item]:
    """What a message says, without the to-dos of its calls."""
    if message.said:
        yield from _find_in_words(message, message.said, "human")
    for part in message.parts:
        if part.kind == "text":
            yield from _find_in_words(message, part.text, "model")
        elif part.kind == "call":
            yield from _take(message, "path", _find_paths(_places_of(part)), "model")
        elif part.kind == "result":
            yield from _take(message, "error", _find_errors(part.text[:MOST_TEXT]), "tool")


def _find_in_words(message: Message, text: str, speaker: str) -> Iterator[Item]:
    text = text[:MOST_TEXT]
    told = (s for s in sentences(text) if 8 <= len(s) <= MOST_SENTENCE and not s.endswith(("?", "？")))  # fmt: skip
    if speaker == "human":
        yield from _take(message, "instruction", told, speaker)
    else:
        yield from _take(message, "decision", filter(_DECISION.search, told), speaker)
    yield from _take(message, "todo", (found[1].strip() for found in _TODO.finditer(text)), speaker)
    urls = (found.rstrip(".,;:") for found in _URL.findall(text))
    text = _URL.sub(" ", text)
    yield from _take(message, "path", _find_paths(text), speaker)
    yield from _take(message, "identifier", urls, speaker)
    text = _PATH.sub(" ", text)
    yield from _take(message, "identifier", _IDENTIFIER.findall(text), speaker)
    numbers = _NUMBER.findall(_IDENTIFIER.sub(" ", text))
    yield from _take(message, "number", (one for one in numbers if len(one) > 2), speaker)


def _take(message: Message, kind: Kind, texts: Iterable[str], speaker: str) -> Iterator[Item]:
    for text in islice(dict.fromkeys(texts), MOST_OF_MESSAGE):
        yield Item(kind, text, message.at, speaker)


def sentences(text: str) -> Iterator[str]:
    """The sentences and lines of a text, without the marks of lists and without blocks of code."""
    pieces = (_MARK.sub("", piece) for piece in _SENTENCE_END.split(_CODE.sub("\n", text)))
    return filter(None, map(str.strip, pieces))


def find_names(text: str) -> Iterator[str]:
    """The paths and identifiers in a text; a path by its last part, since summaries shorten paths."""
    text = text[:MOST_TEXT]
    yield from map(_name_of, _find_paths(text))
    yield from _IDENTIFIER.findall(_PATH.sub(" ", text))


def _name_of(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]


def _find_paths(text: str) -> Iterator[str]:
    """The paths in a text. `and/or` and `trim/1` are none: a relative one has an ending, or three parts and more."""
    for path in _PATH.findall(text):
        name = path.rpartition("/")[2]
        if not name.isdigit() and (path[0] in "/~." or "." in name[1:] or path.count("/") > 1):
            yield path


def _places_of(call: Part) -> str:
    """The arguments of a call that may name files: paths and commands, and not the text that is written."""
    arguments = parse_arguments(call.arguments)
    if not isinstance(arguments, dict):
        return arguments[:MOST_TEXT] if isinstance(arguments, str) else ""
    named = (value for name, value in arguments.items() if _PLACE.search(str(name)))
    texts = (" ".join(map(str, one)) if isinstance(one, list) else str(one) for one in named)
    return "\n".join(texts)[:MOST_TEXT]


def _find_errors(text: str) -> Iterator[str]:
    """The lines that tell of an error."""
    end = -1
    for found in _ERROR.finditer(text):
        if found.start() > end:
            begin = text.rfind("\n", 0, found.start()) + 1
            end = text.find("\n", found.end())
            end = len(text) if end < 0 else end
            if line := text[max(begin, found.start() - 200) : min(end, found.end() + 200)].strip():
                yield line


def find_todos(part: Part) -> list[str] | None:
    """The open to-dos of a call that writes the agent's list of them; None if it is another call."""
    if part.kind != "call" or not _TODO_TOOL.search(part.tool):
        return None
    arguments = parse_arguments(part.arguments)
    values = arguments.values() if isinstance(arguments, dict) else ()
    lists = (one for one in values if isinstance(one, list) and one and all(isinstance(row, dict) for row in one))  # fmt: skip
    found = next(lists, None)
    if found is None:
        return None
    left = (row for row in found if str(row.get("status", "")).lower() not in _DONE)
    texts = (next((row[name] for name in _TODO_FIELDS if isinstance(row.get(name), str)), "") for row in left)  # fmt: skip
    return [text.strip()[:MOST_SENTENCE] for text in texts if text.strip()][:MOST_TODOS]


def _find_all(lost: Sequence[Message]) -> Iterator[Item]:
    """Each thing once, where it was said first; of the agent's to-dos those of its last list."""
    counts = Counter[Kind]()
    seen = set[tuple[Kind, str]]()
    todos: list[Item] = []
    for message in lost:
        for part in message.parts:
            if (listed := find_todos(part)) is not None:
                todos = [Item("todo", text, message.at, "model") for text in listed]
        for item in find_items(message):
            if (item.kind, item.text) not in seen and counts[item.kind] < MOST_ITEMS:
                seen.add((item.kind, item.text))
                counts[item.kind] += 1
                yield item
    yield from (todo for todo in todos if ("todo", todo.text) not in seen)


def _find_gone(items: Sequence[Item], texts: Sequence[str]) -> Iterator[Item]:
    whole = "\n".join(texts)
    yield from (i for i in items if i.kind not in SENTENCES and not _is_named(i, whole))
    if said := [item for item in items if item.kind in SENTENCES]:
        still = _still_said([item.text for item in said], texts)
        yield from (item for item, is_said in zip(said, still, strict=True) if not is_said)


def _is_named(item: Item, text: str) -> bool:
    name = _name_of(item.text)
    is_file = item.kind == "path" and len(name) > 3
    return _stands_in(item.text, text) or (is_file and _stands_in(name, text))


def _stands_in(name: str, text: str) -> bool:
    """Whether a name stands in a text as a whole word."""
    at = text.find(name)
    for _ in range(MOST_PLACES):
        if at < 0:
            break
        before, behind = text[at - 1 : at], text[at + len(name) : at + len(name) + 1]
        if not (_WORD.match(before) or _WORD.match(behind)):
            return True
        at = text.find(name, at + len(name))
    return False


def _still_said(wanted: Sequence[str], texts: Iterable[str]) -> list[bool]:
    """For each sentence, whether one sentence of the texts has most of its words, and all of its names and numbers.

    Who asks "Which port does staging use?" does not say that it is 7443, so a question says no statement.
    """
    lines = list(dict.fromkeys(line for text in texts for line in sentences(text)))
    where: defaultdict[int, set[int]] = defaultdict(set)
    for at, found in enumerate(terms_of([line[:2_000] for line in lines])):
        for term in found:
            where[term].add(at)
    still = []
    for sentence, found in zip(wanted, terms_of(wanted), strict=True):
        terms, names = set(found), [*find_names(sentence), *_DIGITS.findall(sentence)]
        hits = Counter(at for term in terms for at in where.get(term, ()))
        alike = (lines[at] for at, held in hits.items() if held >= SAID * len(terms))
        still.append(any(_says(line, sentence, names) for line in alike))
    return still


def _says(line: str, sentence: str, names: Sequence[str]) -> bool:
    is_asked = line.endswith(_ASKS) and not sentence.endswith(_ASKS)
    return not is_asked and all(_stands_in(name, line) for name in names)


def _join(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
