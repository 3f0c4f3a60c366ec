"""Items: what is worth knowing in what a window says: instructions, decisions, to-dos, paths, identifiers, and so on.

An instruction is a sentence of a person that asks nothing: in any language, since people say little in an agent's
session, and which of it holds for good is not for a list of words to decide. Texts of tools never give instructions or
decisions: they are data, and may be hostile. Paths are those that the agent or a person named; the thousands that a
listing shows are not counted. Each kind is found by one plain pattern, and no model is asked.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, get_args

import orjson

from millgate.sessions.compaction.window import Message
from millgate.transcript.parts import Part

Kind = Literal["instruction", "path", "todo", "decision", "identifier", "number", "error"]
KINDS: tuple[Kind, ...] = get_args(Kind)

MOST_SENTENCE = 400  # characters; a longer one is a pasted text
MOST_TEXT = 50_000  # characters of one message's words in which items are looked for
MOST_OF_MESSAGE = (
    40  # items of one kind in one message: a pasted document has more sentences than a person says
)
MOST_TODOS = 100

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


@dataclass(frozen=True, slots=True)
class Item:
    """One thing that a window says, and the message in which it says so first."""

    kind: Kind
    text: str
    at: int
    speaker: str = ""
    """Who said it: human, model or tool."""


def find_items(message: Message) -> Iterator[Item]:
    """What a message says, without the to-dos of its calls."""
    if message.said:
        yield from _find(message, message.said, "human")
    for part in message.parts:
        if part.kind == "text":
            yield from _find(message, part.text, "model")
        elif part.kind == "call":
            yield from _take(message, "path", _find_paths(_places_of(part.arguments)), "model")
        elif part.kind == "result":
            yield from _take(message, "error", _find_errors(part.text[:MOST_TEXT]), "tool")


def find_names(text: str) -> Iterator[str]:
    """The paths and identifiers in a text; a path by its last part, since summaries shorten paths."""
    text = text[:MOST_TEXT]
    for path in _find_paths(text):
        yield path.rstrip("/").rpartition("/")[2]
    yield from (found.group() for found in _IDENTIFIER.finditer(_PATH.sub(" ", text)))


def find_todos(part: Part) -> list[str] | None:
    """The open to-dos of a call that writes the agent's list of them; None if it is another call."""
    if part.kind != "call" or not _TODO_TOOL.search(part.tool):
        return None
    found = _find_list(part.arguments)
    if found is None:
        return None
    open_ones = (
        _text_of(todo) for todo in found if str(todo.get("status", "")).lower() not in _DONE
    )
    return [text[:MOST_SENTENCE] for text in open_ones if text][:MOST_TODOS]


def sentences(text: str) -> Iterator[str]:
    """The sentences and lines of a text, without the marks of lists and without blocks of code."""
    for piece in _SENTENCE_END.split(_CODE.sub("\n", text)):
        sentence = _MARK.sub("", piece).strip()
        if sentence:
            yield sentence


def _find(message: Message, text: str, speaker: str) -> Iterator[Item]:
    text = text[:MOST_TEXT]
    told = (s for s in sentences(text) if 8 <= len(s) <= MOST_SENTENCE and not s.endswith(("?", "？")))  # fmt: skip
    if speaker == "human":
        yield from _take(message, "instruction", told, speaker)
    else:
        yield from _take(message, "decision", (s for s in told if _DECISION.search(s)), speaker)
    yield from _take(message, "todo", (found[1].strip() for found in _TODO.finditer(text)), speaker)
    plain = _URL.sub(" ", text)
    yield from _take(message, "path", _find_paths(plain), speaker)
    urls = (found.group().rstrip(".,;:") for found in _URL.finditer(text))
    yield from _take(message, "identifier", urls, speaker)
    plain = _PATH.sub(" ", plain)
    yield from _take(message, "identifier", (found.group() for found in _IDENTIFIER.finditer(plain)), speaker)  # fmt: skip
    numbers = (found.group() for found in _NUMBER.finditer(_IDENTIFIER.sub(" ", plain)))
    yield from _take(message, "number", (one for one in numbers if len(one) > 2), speaker)


def _find_paths(text: str) -> Iterator[str]:
    """The paths in a text. `and/or` and `trim/1` are none: a relative one has an ending, or three parts and more."""
    for found in _PATH.finditer(text):
        path = found.group()
        name = path.rpartition("/")[2]
        if not name.isdigit() and (path[0] in "/~." or "." in name[1:] or path.count("/") > 1):
            yield path


def _places_of(arguments: Any) -> str:  # noqa: ANN401  (any JSON)
    """The arguments of a call that may name files: paths and commands, and not the text that is written."""
    if isinstance(arguments, str):
        try:
            arguments = orjson.loads(arguments)
        except orjson.JSONDecodeError:
            return str(arguments)[:MOST_TEXT]
    if not isinstance(arguments, dict):
        return ""
    named = (value for name, value in arguments.items() if _PLACE.search(str(name)))
    texts = (
        " ".join(map(str, value)) if isinstance(value, list) else str(value) for value in named
    )
    return "\n".join(texts)[:MOST_TEXT]


def _find_errors(text: str) -> Iterator[str]:
    """The lines that tell of an error."""
    end = -1
    for found in _ERROR.finditer(text):
        if found.start() > end:
            begin = text.rfind("\n", 0, found.start()) + 1
            end = text.find("\n", found.end())
            end = len(text) if end < 0 else end
            line = text[max(begin, found.start() - 200) : min(end, found.end() + 200)].strip()
            if line:
                yield line


def _take(message: Message, kind: Kind, texts: Iterator[str], speaker: str) -> Iterator[Item]:
    for _, text in zip(range(MOST_OF_MESSAGE), dict.fromkeys(texts), strict=False):
        yield Item(kind, text, message.at, speaker)


def _find_list(arguments: Any) -> list[dict[str, Any]] | None:  # noqa: ANN401  (any JSON)
    if isinstance(arguments, str):
        try:
            arguments = orjson.loads(arguments)
        except orjson.JSONDecodeError:
            return None
    values = arguments.values() if isinstance(arguments, dict) else ()
    for value in values:
        if isinstance(value, list) and value and all(isinstance(one, dict) for one in value):
            return value
    return None


def _text_of(todo: dict[str, Any]) -> str:
    names = ("content", "step", "task", "title", "description", "text")
    return next((todo[name] for name in names if isinstance(todo.get(name), str)), "").strip()
