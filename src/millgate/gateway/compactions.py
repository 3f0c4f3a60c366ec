"""Compactions: what left the windows of an agent's sessions, told from traces, kept in collections, put back."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import orjson

from millgate.calls.loop import async_version
from millgate.errors import NotFound
from millgate.gateway.documents import Documents
from millgate.gateway.traces import Traces
from millgate.gateway.wiring import Components
from millgate.text.fence import fence_secret
from millgate.types import Context, Request, Step, Trace, Window
from millgate.types.notes import Stage

if TYPE_CHECKING:
    from millgate.sessions.compaction.account import Account
    from millgate.sessions.compaction.window import Message
    from millgate.sessions.conversation import Conversation, Conversations

MOST_CHUNKS = (
    20_000  # of one session; beyond it the older half goes. A compaction leaves some hundred
)


@dataclass(frozen=True, slots=True)
class CompactionRecord:
    """One compaction of a session: when, in words and in numbers, and what is gone if texts are kept."""

    trace: str
    created: float
    reason: str
    """`compaction at turn 41: 96,000 tokens left the window, 14 of 17 paths and 1 of 3 rules are gone`."""
    facts: dict[str, float | str] = field(default_factory=dict, hash=False)
    gone: tuple[tuple[str, str], ...] = ()
    """The kind and the text of each thing that is gone: ("instruction", "Never touch the migrations.")."""


class Compactions(Documents, Traces):
    """The compactions of a tenant's sessions."""

    def compactions(self, session: str) -> list[CompactionRecord]:
        """The compactions of a session that went through the proxy, oldest first, as far as its traces are kept.

        For example: `for one in gate.compactions("monday"): print(one.reason, one.gone)`.

        `gate.context(question, collection="session:monday")` finds what was said in them, if `compaction.mode` was
        "keep" or "inject".
        """
        rows = self.traces(limit=max(1, self.settings.trace.keep))
        ids = [row.id for row in rows if row.compaction and row.session == session]
        found: dict[object, CompactionRecord] = {}
        for id in reversed(ids):
            trace = self.trace(id)
            for step in trace.steps:
                if step.stage is Stage.COMPACTION:
                    # a client that asks again after an error sends the same window again
                    found.setdefault(step.facts.get("id"), _record(trace, step))
        return list(found.values())

    def _last_compacted(self) -> tuple[str, str]:
        """The session that was compacted last and the id of its client's key; NotFound if no trace tells of one."""
        rows = self.traces(limit=max(1, self.settings.trace.keep))
        found = next((row for row in rows if row.compaction), None)
        if found is None:
            raise NotFound(
                "no compaction is traced", hint="name the session, or set compaction.mode = 'keep'"
            )
        return found.session, found.cost.key if found.cost else ""

    acompactions = async_version(compactions)


class LostMessages:
    """What left the windows of sessions: keeps it, and finds what a question needs of it. For the proxy and adapters.

    `build` makes a context, which may be changed before its trace is stored.
    """

    def __init__(
        self,
        gate: Documents,
        components: Components,
        build: Callable[[Request, Callable[[Context], Context]], Context],
        abuild: Callable[[Request, Callable[[Context], Context]], Awaitable[Context]],
    ) -> None:
        self._gate, self._components = gate, components
        self._build, self._abuild = build, abuild

    def keep(self, lost: "Sequence[Message]", session: str, *, key: str = "") -> int:
        """Keep what left a window in the collection of its session; how many messages are new there."""
        from millgate.sessions.compaction.keep import collection_of, rows_of  # noqa: PLC0415  (few compact)

        gate, store = self._gate, self._components.store
        now, collection = self._components.clock(), collection_of(session, key)
        self._halve_if_full(collection)
        rows = list(rows_of(lost, session, collection, redacts=gate.settings.redact))
        known = {
            name: store.digests(gate.tenant, name, [row["id"] for row in rows])
            for name in {row["collection"] for row in rows}
        }
        fresh = (row for row in rows if row["id"] not in known[row["collection"]])
        stamped = ({**row, "metadata": {**row["metadata"], "kept": now}} for row in fresh)
        return gate.add(stamped, collection=collection).documents

    def compose_instructions(self, told: "Account", *, budget: int) -> str:
        """A fenced block of the instructions and to-dos that a compaction lost; "" if it lost none."""
        from millgate.sessions.compaction.keep import compose_instructions  # noqa: PLC0415  (as above)

        components, gate = self._components, self._gate
        secret = fence_secret(components.store.secret(gate.tenant))
        redacts = gate.settings.redact
        return compose_instructions(told, secret, components.count, budget=budget, redacts=redacts)

    async def acontext_for(self, question: Request) -> Context:
        """What a question needs of what was kept; nothing if it needs none, and the trace says why."""
        from millgate.sessions.compaction.keep import leave_out_unneeded  # noqa: PLC0415  (as above)

        return await self._abuild(question, leave_out_unneeded)

    def observe(
        self,
        known: "Conversations",
        session: str,
        messages: "Sequence[Mapping[str, Any]]",
        preamble: Sequence[str] = (),
    ) -> "Conversation":
        """See a conversation as it is now; if it was compacted since it was last seen, keep what left it."""
        seen = known.observe(session, messages, preamble)
        if seen.found is not None:
            self.keep(seen.found.lost, session)
        return seen

    def put_back(self, seen: "Conversation", question: Request) -> str:
        """The block for a question: what was lost since the last one of instructions and to-dos, and what it needs.

        It is empty if nothing was lost and the question needs nothing. Without a query only the former is put back.
        """
        from millgate.sessions.compaction.keep import leave_out_unneeded  # noqa: PLC0415  (as above)

        owed, seen.owed = seen.owed, None
        said = ""
        if owed is not None:
            said = self.compose_instructions(owed.account, budget=question.budget // 2)
        asked = self._ask(seen, question, said)
        return _join(said, self._build(asked, leave_out_unneeded).text if asked else "")

    def _ask(self, seen: "Conversation", question: Request, said: str) -> Request | None:
        """The question for what was kept; None if it asks nothing, or if nothing was kept."""
        from millgate.sessions.compaction.keep import MOST_PIECES, collection_of  # noqa: PLC0415  (as above)

        collection, query = collection_of(seen.session), question.query.strip()
        is_summary = seen.found is not None and query in seen.found.summary
        if not query or is_summary or collection not in self._gate.collections():
            return None
        left = max(1, question.budget - self._components.count(said))
        window = Window((*question.window.texts, said))
        return replace(question, collection=collection, budget=left, window=window, k=MOST_PIECES, graph=False)  # fmt: skip

    def _halve_if_full(self, collection: str) -> None:
        """Remove the older half of a session that is too large."""
        gate, store = self._gate, self._components.store
        if store.size(gate.tenant, collection).chunks > MOST_CHUNKS:
            chunks = [chunk.id for chunk in store.scan(gate.tenant, collection)]
            store.remove(gate.tenant, collection, chunks=chunks[: len(chunks) // 2])

    akeep = async_version(keep)
    aobserve = async_version(observe)
    acompose_instructions = async_version(compose_instructions)


def _join(*parts: str) -> str:
    return "\n".join(part for part in parts if part)


def _record(trace: Trace, step: Step) -> CompactionRecord:
    gone = orjson.loads(step.text) if step.text else []
    return CompactionRecord(
        trace.id,
        trace.created,
        str(step.facts.get("reason", "")),
        dict(step.facts),
        tuple((str(kind), str(text)) for kind, text in gone),
    )
