"""Keep: what left a window as rows for a collection of its session, and which of it a question gets back.

A row is a message, or a part of one: what a person said, what the model said, a call with its result. Its id follows
from its text, so a message that leaves twice is kept once. Secrets of known forms are taken out, as in traces.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Any

from millgate.pipeline.trace_upkeep import KEPT
from millgate.sessions.compaction.account import Account, Item
from millgate.sessions.compaction.window import Message
from millgate.text.fence import fence, quote
from millgate.text.redact import redact
from millgate.text.terms import terms
from millgate.text.wanted import is_reply
from millgate.transcript.parts import Part
from millgate.types import Context, Step
from millgate.types.notes import Fate, NoteCode, Stage

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
INSTRUCTIONS = "What the user said, oldest first; what was asked for may be done by now:"
TODOS = "Still to do:"
SPEAKERS = ("User", "Assistant")
NOT_PUT_BACK = "not_put_back"  # the fact of a step that says why a question got nothing back


def collection_of(session: str, key: str = "") -> str:
    """The name of a session's collection. Callers with a key have collections of their own."""
    return f"{KEPT}@{key}:{session}" if key else f"{KEPT}:{session}"


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
    """The texts of a message, each with who said it."""
    if message.said:
        yield message.at, "User", message.said
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


def leave_out_unneeded(context: Context) -> Context:
    """A context as it is if its question needs it; else an empty one, whose trace says why."""
    reason, trace = why_unneeded(context), context.trace
    if not reason:
        return replace(context, held_weight=None)  # the words of the question were compared here
    candidates = tuple(
        c
        if c.dropped
        else c.with_note(Stage.COMPACTION, Fate.DROP, NoteCode.NOT_NEEDED, subject=reason)
        for c in trace.candidates
    )
    kept = sum(not c.dropped for c in trace.candidates)
    step = Step(Stage.COMPACTION, 0.0, kept, 0, kept, facts={NOT_PUT_BACK: reason})
    trace = replace(trace, steps=(*trace.steps, step), candidates=candidates)
    return replace(context, text="", chunks=(), token_estimate=0, trace=trace, texts=(), sources=(), confidences={})  # fmt: skip


def why_unneeded(context: Context) -> str:
    """Why a question does not need what was found for it; "" if it does.

    It does if one piece has most words of the question, and few have as many: "Please run the tests again" finds
    something in every session, and nothing that stands out. One word alone tells little ("Yes", "Continue"), unless it
    is asked for.
    """
    query, candidates = context.trace.request.query, context.trace.candidates
    asked = set(terms(query))
    if not asked or is_reply(query):
        return "the question has too few words to look for"
    shares = [len(asked.intersection(terms(c.chunk.text))) / len(asked) for c in candidates]
    kept = (share for share, c in zip(shares, candidates, strict=True) if not c.dropped)
    best, highest = max(kept, default=0.0), max(shares, default=0.0)
    if highest < NEEDED:
        return "nothing that left the window has most words of the question"
    if best < NEEDED:
        note = candidates[shares.index(highest)].notes[-1]
        return f"what has most words of the question was left out by {note.stage}: {note.reason}"
    alike = sum(share >= best for share in shares)
    if alike > MOST_PIECES:
        return f"{alike} messages have as many words of the question, and none stands out"
    return ""


def compose_instructions(
    told: Account, secret: bytes, count: Callable[[str], int], *, budget: int, redacts: bool = True
) -> str:
    """A fenced block of the instructions and open to-dos that are gone, the newest if not all fit; "" if none are.

    They are quoted although they are a person's own words, who may have pasted what looks like the end of a block.
    """
    gone = told.owed
    newest_first = [item for item in reversed(gone) if item.kind == "instruction"]
    chosen: set[Item] = set()
    block = ""
    for item in (*newest_first, *(item for item in gone if item.kind == "todo")):
        longer = _lay_out([one for one in gone if one in chosen or one is item], secret, redacts=redacts)  # fmt: skip
        if count(longer) <= budget:
            block = longer
            chosen.add(item)
    return block


def _lay_out(items: Sequence[Item], secret: bytes, *, redacts: bool) -> str:
    lines: list[str] = []
    for title, kind in ((INSTRUCTIONS, "instruction"), (TODOS, "todo")):
        found = [redact(item.text) if redacts else item.text for item in items if item.kind == kind]
        lines += [title, *(f"- {quote(text)}" for text in found)] if found else []
    return fence("\n".join(lines), secret, notice=NOTICE)
