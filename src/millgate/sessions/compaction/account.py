"""Account: what left a window in a compaction, and which of it the window that is left still says.

A path, an identifier or a number is still said if it stands there, a path also by its file's name. A sentence (an
instruction, a decision, a to-do, an error) is still said if one sentence there has most of its words: summaries write
sentences anew, so words are compared and not their order.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

from millgate.sessions.compaction.items import (
    KINDS,
    Item,
    Kind,
    find_items,
    find_names,
    find_todos,
    sentences,
)
from millgate.sessions.compaction.notice import Compaction
from millgate.sessions.compaction.window import Message, Window
from millgate.text.table import count_of
from millgate.text.terms import terms_of
from millgate.text.tokens import estimate_tokens

# Share of a sentence's words, function words left out, that one sentence of the window has if it still says it.
SAID = 0.6
MOST_ITEMS = 500  # of one kind that are told of one compaction; a window of 170 000 tokens has some 300 identifiers
MOST_PLACES = (
    1_000  # of a name in a text that are looked at: only malice writes more that are no whole word
)
SENTENCES: tuple[Kind, ...] = ("instruction", "decision", "todo", "error")
MOST_CARRIED = (
    100  # that a compaction lost and that are put back after the next one too; the newest of them
)
LASTING: tuple[Kind, ...] = (
    "instruction",
    "todo",
)  # what a person or a plan wants done: put back without a question
MOST_CLEARED = 10**9  # that a service is believed to have cleared: a larger number is a fault
_WORD = re.compile(r"\w")
_DIGITS = re.compile(r"\d{3,}")  # of a number: a summary may write its unit in another way
_ASKS = ("?", "？", "؟")


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
        todos = not any(
            item.kind == "todo" for item in lost
        )  # a newer list stands for an older one
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
    texts = [*_texts_of(after), *shown]
    gone = frozenset(_find_gone(items, texts))
    return Account(found.way, tokens, items, gone, turn, carried=tuple(_find_gone(carried, texts)))


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


def _texts_of(window: Window) -> list[str]:
    texts = [part.text for message in window.messages for part in message.parts]
    return [window.preamble, *texts]


def _find_gone(items: Sequence[Item], texts: Sequence[str]) -> Iterator[Item]:
    whole = "\n".join(texts)
    named = (item for item in items if item.kind not in SENTENCES)
    yield from (item for item in named if not _is_named(item, whole))
    said = [item for item in items if item.kind in SENTENCES]
    if said:
        still = _still_said([item.text for item in said], texts)
        yield from (item for item, is_said in zip(said, still, strict=True) if not is_said)


def _is_named(item: Item, text: str) -> bool:
    if _stands_in(item.text, text):
        return True
    name = item.text.rstrip("/").rpartition("/")[2]
    return item.kind == "path" and len(name) > 3 and _stands_in(name, text)


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
