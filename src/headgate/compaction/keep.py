"""Keep: what left a window as rows for a collection of its session, and the block of rules that are gone.

A row is a message, or a part of one: what a person said, what the model said, a call with its result. Its id follows
from its text, so a message that leaves twice is kept once. Secrets of known forms are taken out, as in traces.
"""

from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b
from typing import Any

from headgate.compaction.account import Account
from headgate.compaction.items import Item, find_items
from headgate.compaction.window import Message
from headgate.guard.parts import Part
from headgate.text.fence import fence, quote
from headgate.text.redact import redact
from headgate.text.terms import terms
from headgate.types import Context

PREFIX = "session"
# Characters of one result that are kept; of a longer one both ends. The agent can read the file again; what it cannot
# have again is what was said.
RESULT_CHARS = 8_000
RESULTS = "/results"
NEEDED = 0.6  # share of the words of a question: two of three. A half gives the same in `make bench-compaction`
MOST_PIECES = (
    4  # of one block: the first is what was asked for, and each further one costs its tokens
)
MOST_ROWS = 5_000  # of one compaction: a window has some hundred messages
NOTICE = "said earlier in this session, before its window was compacted"
RULES = "What the user asked for, and still holds:"
TODOS = "Still to do:"
SPEAKERS = ("User", "Assistant")


def collection_of(session: str, key: str = "") -> str:
    """The name of a session's collection. Callers with a key have collections of their own."""
    return f"{PREFIX}@{key}:{session}" if key else f"{PREFIX}:{session}"


def results_of(collection: str) -> str:
    """The name of the collection beside it that holds the results of tools.

    They are large, and an agent can have most of them again: only who asks for them gets them.
    """
    return f"{collection}{RESULTS}"


def rows_of(
    lost: Sequence[Message], session: str, collection: str, *, redacts: bool = True
) -> Iterator[dict[str, Any]]:
    """The rows for what left a window, each with its collection."""
    calls: dict[str, Part] = {}
    texts = ((at, kind, text) for m in lost for at, kind, text in _texts_of(m, calls))
    for _, (at, speaker, said) in zip(range(MOST_ROWS), texts, strict=False):
        text = redact(said) if redacts else said
        id = blake2b(text.encode("utf-8", "replace"), digest_size=12).hexdigest()
        metadata = {"session": session, "message": at}
        # the speaker is the title: in the text it would hide that the window has all the rest of it
        where = collection if speaker in SPEAKERS else results_of(collection)
        yield {"id": id, "text": text, "title": speaker, "collection": where, "metadata": metadata}


def _texts_of(message: Message, calls: dict[str, Part]) -> Iterator[tuple[int, str, str]]:
    """The texts of a message, each with who said it. A rule is a text of its own: it is put back alone."""
    if message.said:
        rules = [item.text for item in find_items(message) if item.kind == "rule"]
        rest = message.said
        for rule in rules:
            rest = rest.replace(rule, "")
            yield message.at, "User", rule
        if rest.strip():
            yield message.at, "User", rest.strip()
    for part in message.parts:
        if part.kind == "call":
            calls[part.id] = part
        elif part.kind == "result" and part.text.strip():
            call = calls.get(part.id)
            asked = f"Result of {call.tool} {redact(call.text)[:100]}" if call else "Result"
            yield message.at, asked, _shorten(part.text)
        elif part.kind == "text" and part.text.strip():
            yield message.at, "Assistant", part.text


def _shorten(text: str) -> str:
    half = RESULT_CHARS // 2
    return text if len(text) <= RESULT_CHARS else f"{text[:half]}\n[...]\n{text[-half:]}"


def is_needed(context: Context) -> bool:
    """Whether a turn needs what was found for it: one piece has most words of the question, and few have as many.

    "Please run the tests again" finds something in every session, and nothing that stands out. One word alone tells
    little ("Yes", "Continue"), unless it is asked for.
    """
    query = context.trace.request.query
    asked = set(terms(query))
    if not asked or (len(asked) == 1 and "?" not in query):
        return False
    candidates = context.trace.candidates
    shares = [len(asked.intersection(terms(c.chunk.text))) / len(asked) for c in candidates]
    kept = (share for share, c in zip(shares, candidates, strict=True) if not c.dropped)
    best = max(kept, default=0.0)
    return best >= NEEDED and sum(share >= best for share in shares) <= MOST_PIECES


def compose_rules(
    told: Account, secret: bytes, count: Callable[[str], int], *, budget: int, redacts: bool = True
) -> str:
    """A fenced block of the rules and open to-dos that are gone, the newest first if not all fit; "" if none are.

    The rules are a person's own words, so the block says that they hold. They are quoted all the same: a person may
    have pasted what looks like the end of a block.
    """
    rules, todos = told.list_gone("rule"), told.list_gone("todo")
    chosen: list[Item] = []
    for item in [*reversed(rules), *reversed(todos)]:
        if count(_lay_out([*chosen, item], secret, redacts=redacts)) <= budget:
            chosen.append(item)
    return _lay_out(chosen, secret, redacts=redacts) if chosen else ""


def _lay_out(items: Sequence[Item], secret: bytes, *, redacts: bool) -> str:
    lines: list[str] = []
    for title, kind in ((RULES, "rule"), (TODOS, "todo")):
        found = sorted((item for item in items if item.kind == kind), key=lambda item: item.at)
        if found:
            lines += [title, *(f"- {quote(redact(i.text) if redacts else i.text)}" for i in found)]
    return fence("\n".join(lines), secret, notice=NOTICE)
