"""Injected: what Millgate itself put into windows of late, so that memory does not learn from its own words.

An agent that reads a block and then remembers what it read would store the same text again, as if it were new. A text
repeats injected text if each of its sentences stands word for word in one injected piece; citations, and words around
it that only frame a quotation ("according to the notes"), aside. One other word, number or "not" makes it new: a
correction is never lost. Texts are kept per tenant, newest last, up to a limit; what other processes injected is read
from their stored traces. All tenants share the lock, and requests take it on the event loop, so nothing is read while
it is held.
"""

from collections import OrderedDict
from collections.abc import Iterable
from threading import Lock

import numpy as np

from millgate.protocols import TraceStore
from millgate.text.hashes import Tokens
from millgate.text.lazy_pattern import lazy_compile
from millgate.text.stopwords import ENGLISH
from millgate.text.words import tokens
from millgate.types import Trace
from millgate.types.notes import Fate, Stage

TENANTS_HELD = 64
MAX_CHARS = 200_000  # of injected text per tenant: the blocks of some hundred requests
TRACES_READ = 50  # of other processes, if the newest stored trace is not one of ours
STATEMENT = 3  # words, as subject, verb and object; fewer state nothing on their own

_SENTENCE = lazy_compile(r"(?<=[.!?;:。！？])\s+|\n+")
_CITATION = lazy_compile(r"\[\d+\]")
_NEGATIONS = frozenset(
    """no nor not only cannot can't couldn't didn't doesn't don't hadn't hasn't haven't isn't aren't mustn't shan't
    shouldn't wasn't weren't won't wouldn't""".split()  # noqa: SIM905 - a paragraph reads better
)
_FRAMING = (ENGLISH - _NEGATIONS) | frozenset(
    """according answer assistant citation cited cites context document documents fact facts found millgate know known
    memory mentioned mentions note noted notes recall recalled reference remember remembered said say says source
    sources state stated states tells told user""".split()  # noqa: SIM905
)
_BETWEEN = np.zeros(1, np.uint32).tobytes()  # no word's hash, so that no sentence spans two pieces


class Injected:
    """The texts that were injected of late, by tenant. Safe to share between threads."""

    def __init__(self, traces: TraceStore) -> None:
        self._traces = traces
        self._lock = Lock()
        # tenant -> a shown text -> its tokens, read at the first question
        self._held: OrderedDict[str, OrderedDict[str, bytes]] = OrderedDict()
        self._seen: dict[str, OrderedDict[str, None]] = {}

    def add(self, trace: Trace) -> None:
        """Remember what the block of a request showed."""
        with self._lock:
            self._add(trace)

    def contains(self, tenant: str, text: str) -> bool:
        """Whether all that the text says was injected."""
        held = self._tokens(tenant)
        parts = (part for part in _SENTENCE.split(_CITATION.sub(" ", text)) if tokens(part))
        sentences = [part for part in parts if not is_framing(part)]
        stated = any(len(tokens(part)) >= STATEMENT for part in sentences)
        return stated and all(_stands_in(part, held) for part in sentences)

    def _tokens(self, tenant: str) -> bytes:
        """The tokens of all that was injected, newest first."""
        fresh = self._read_traces(tenant)
        with self._lock:
            for trace in fresh:
                self._add(trace)
            texts = dict(self._held.get(tenant, {}))
        unread = [text for text, read in texts.items() if not read]
        if unread:
            parts = Tokens.of(unread).split()
            fresh_tokens = dict(zip(unread, (part.tobytes() for part in parts), strict=True))
            texts |= fresh_tokens
            with self._lock:
                held = self._held.get(tenant, OrderedDict())
                held.update((text, read) for text, read in fresh_tokens.items() if text in held)
        return _BETWEEN.join(reversed(texts.values()))

    def _read_traces(self, tenant: str) -> list[Trace]:
        """The traces that other processes have stored since the last look, oldest first."""
        newest = self._traces.traces(tenant, limit=1)
        with self._lock:
            seen = set(self._seen.get(tenant, ()))
        if not newest or newest[0].id in seen:
            return []
        stored = reversed(self._traces.traces(tenant, limit=TRACES_READ))
        found = (self._traces.trace(tenant, one.id) for one in stored if one.id not in seen)
        return [trace for trace in found if trace is not None]

    def _add(self, trace: Trace) -> None:
        tenant = trace.request.tenant
        seen = self._seen.setdefault(tenant, OrderedDict())
        seen[trace.id] = None
        if len(seen) > 2 * TRACES_READ:
            seen.popitem(last=False)
        held = self._held.setdefault(tenant, OrderedDict())
        for text in shown_texts(trace):
            held.setdefault(text, b"")
        chars = sum(map(len, held))
        while chars > MAX_CHARS:
            chars -= len(held.popitem(last=False)[0])
        self._held.move_to_end(tenant)
        if len(self._held) > TENANTS_HELD:
            gone, _ = self._held.popitem(last=False)
            del self._seen[gone]


def shown_texts(trace: Trace) -> Iterable[str]:
    """The texts that the block of a request showed; none if the trace was stored without text."""
    for candidate in trace.candidates:
        last = candidate.notes[-1] if candidate.notes else None
        if last and last.stage is Stage.COMPOSE and last.fate is Fate.KEEP and candidate.chunk.text:
            yield candidate.chunk.text


def is_framing(text: str) -> bool:
    """Whether the text only frames a quotation, or says nothing at all."""
    return _FRAMING.issuperset(tokens(text))


def _stands_in(sentence: str, held: bytes) -> bool:
    """Whether the sentence stands there word for word, but for words at its ends that frame a quotation."""
    says = [at for at, word in enumerate(tokens(sentence)) if word not in _FRAMING]
    sought = Tokens.of([sentence]).values[says[0] : says[-1] + 1].tobytes()
    at = held.find(sought)
    while at % 4 and at >= 0:  # a match that begins inside a hash is none
        at = held.find(sought, at + 1)
    return at >= 0
