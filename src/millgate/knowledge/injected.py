"""Injected: what Millgate itself put into windows of late, so that memory does not learn from its own words.

An agent that reads a block and then remembers what it read would store the same text again, as if it were new. A text
repeats injected text if each of its sentences stands word for word in one injected piece; citations, and words around
it that only frame a quotation ("according to the notes"), aside. One other word, number or "not" makes it new: a
correction is never lost. Texts are kept per tenant, newest last, up to a limit; what other processes injected is read
from their stored traces. All tenants share the lock, and requests take it on the event loop, so nothing is read while
it is held.
"""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from functools import lru_cache
from threading import Lock

from millgate.protocols import TraceStore
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


class Injected:
    """The texts that were injected of late, by tenant. Safe to share between threads."""

    def __init__(self, traces: TraceStore) -> None:
        self._traces = traces
        self._lock = Lock()
        self._held: OrderedDict[str, OrderedDict[str, None]] = OrderedDict()
        self._seen: dict[str, OrderedDict[str, None]] = {}

    def add(self, trace: Trace) -> None:
        """Remember what the block of a request showed."""
        tenant = trace.request.tenant
        with self._lock:
            seen = self._seen.setdefault(tenant, OrderedDict())
            seen[trace.id] = None
            if len(seen) > 2 * TRACES_READ:
                seen.popitem(last=False)
            held = self._held.setdefault(tenant, OrderedDict())
            held.update(dict.fromkeys(shown_texts(trace)))
            chars = sum(map(len, held))
            while chars > MAX_CHARS:
                chars -= len(held.popitem(last=False)[0])
            self._held.move_to_end(tenant)
            if len(self._held) > TENANTS_HELD:
                gone, _ = self._held.popitem(last=False)
                del self._seen[gone]

    def contains(self, tenant: str, text: str) -> bool:
        """Whether all that the text says was injected."""
        parts = map(tokens, _SENTENCE.split(_CITATION.sub(" ", text)))
        sentences = [words for words in parts if not _FRAMING.issuperset(words)]
        if not any(len(words) >= STATEMENT for words in sentences):
            return False
        self._read_traces(tenant)
        with self._lock:
            held = list(self._held.get(tenant, ()))
        said = "\n".join(map(_words_of, held))
        return all(_frame_off(words) in said for words in sentences)

    def _read_traces(self, tenant: str) -> None:
        """Remember the traces that other processes have stored since the last look, oldest first."""
        newest = self._traces.traces(tenant, limit=1)
        with self._lock:
            seen = set(self._seen.get(tenant, ()))
        if newest and newest[0].id not in seen:
            for stored in reversed(self._traces.traces(tenant, limit=TRACES_READ)):
                trace = None if stored.id in seen else self._traces.trace(tenant, stored.id)
                if trace is not None:
                    self.add(trace)


def shown_texts(trace: Trace) -> Iterable[str]:
    """The texts that the block of a request showed; none if the trace was stored without text."""
    for candidate in trace.candidates:
        last = candidate.notes[-1] if candidate.notes else None
        if last and last.stage is Stage.COMPOSE and last.fate is Fate.KEEP and candidate.chunk.text:
            yield candidate.chunk.text


def is_framing(text: str) -> bool:
    """Whether the text only frames a quotation, or says nothing at all."""
    return _FRAMING.issuperset(tokens(text))


@lru_cache(maxsize=4_096)
def _words_of(text: str) -> str:
    """The words of a text, each between two spaces. Most texts are asked about again and again."""
    return f" {' '.join(tokens(text))} "


def _frame_off(words: Sequence[str]) -> str:
    """The words of a sentence without those at its ends that frame a quotation."""
    says = [at for at, word in enumerate(words) if word not in _FRAMING]
    return f" {' '.join(words[says[0] : says[-1] + 1])} "
