"""Presence: whether what a user names exists; if not, the error says what does, and what was likely meant."""

from collections.abc import Collection, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from shlex import quote

from millgate.errors import InputError, NotFound, StoreError
from millgate.gateway import Millgate
from millgate.gateway.traces import LAST_TRACE
from millgate.stores.sql.store import SqlStore
from millgate.stores.sqlite.store import FILE, SqliteStore, has_store
from millgate.stores.url import hide_password
from millgate.text.meant import nearest
from millgate.text.table import clip
from millgate.types import Trace

_SHORTEST = 4  # characters of an id that may stand for the whole, as in git
_USUAL = ".millgate"  # the folder of the store if none is named
_LEVELS = 20  # folders above the current one that are looked at
_LISTED = 8  # names that an error lists


def existing(folder: Path) -> Path:
    """The database file of a store; an error if there is none."""
    if has_store(folder):
        return folder / FILE
    raise InputError(f"there is no store in {folder}", hint=_hint_at_stores(folder))


def require_collections(gate: Millgate, names: Sequence[str]) -> None:
    """An error if a store has none of these collections, or nothing at all."""
    held = gate.collections()
    if not held and gate.store.facts(gate.tenant):
        return
    if not held:
        raise NotFound(
            f"the store {hide_password(gate.settings.store)} is empty for tenant {gate.tenant!r}",
            hint=_hint_at_tenants(gate) or "add something: millgate add FOLDER",
        )
    for name in names:
        if name not in held:
            raise NotFound(f"there is no collection {name!r}", hint=f"{did_you_mean(name, held)}there are: {enumerate_names(held)}")  # fmt: skip


def describe_empty(gate: Millgate) -> str:
    """That a store holds nothing that could be found, and how to fill it; "" if it holds something."""
    held = gate.collections().values()
    if any(size.chunks for size in held) or gate.store.facts(gate.tenant):
        return ""
    name = hide_password(gate.settings.store)
    how = _hint_at_tenants(gate) or f"millgate add FOLDER --store {quote(name)}"
    return f"the store {name} is empty: {how}"


def require_tenant(gate: Millgate, tenant: str) -> None:
    """An error if a store can list its tenants, and this is none of them."""
    known = tenants_of(gate)
    if tenant not in known and isinstance(gate.store, SqliteStore):
        raise NotFound(f"there is no tenant {tenant!r}", hint=f"{did_you_mean(tenant, known)}there are: {enumerate_names(known)}")  # fmt: skip


def whole_chunk_id(gate: Millgate, trace: Trace, given: str) -> str:
    """The id of a chunk that a trace, or the collection that it asked, knows; from its beginning if that tells."""
    names = trace.request.collections
    if trace.find(given) or any(gate.store.chunks(gate.tenant, c, [given]) for c in names):
        return given
    ids = [candidate.chunk.id for candidate in trace.candidates]
    return pick("chunk", given, ids, see=f"millgate why {trace.id[:8]}")


def whole_trace_id(gate: Millgate, given: str) -> str:
    """The id of a trace from its beginning, as git takes them, or from `last`."""
    if gate.store.trace(gate.tenant, given) is not None:
        return given
    ids = [summary.id for summary in gate.traces(limit=gate.settings.trace.keep)]
    if given == LAST_TRACE:
        if not ids:
            raise NotFound(
                "no request was made yet",
                hint="ask: millgate context QUERY; or: millgate wrap --store DIR AGENT",
            )
        return ids[0]
    return pick("trace", given, ids, see="millgate why --list")


def pick(kind: str, given: str, ids: Collection[str], *, see: str) -> str:
    """The one id that is, or begins with, what was given; an error if there is none or more than one."""
    found = [id for id in ids if id.startswith(given)]
    if given in found:
        return given
    if len(given) < _SHORTEST or not found:
        meant = did_you_mean(given, ids)
        hint = f"give at least {_SHORTEST} characters" if found else f"{meant}see: {see}"
        raise NotFound(f"there is no {kind} {clip(given, 80)!r}", hint=hint)
    if len(found) > 1:
        raise InputError(
            f"{given!r} begins {len(found)} ids", hint=f"one of: {enumerate_names(found)}"
        )
    return found[0]


def did_you_mean(name: str, known: Collection[str]) -> str:
    """A question that names what is close to a slip, with a space behind it; empty if nothing is."""
    close = nearest(name, known)
    return f"did you mean {close!r}? " if close else ""


def enumerate_names(names: Collection[str]) -> str:
    """The first names, and how many more there are."""
    shown = ", ".join(list(names)[:_LISTED])
    return shown if len(names) <= _LISTED else f"{shown} and {len(names) - _LISTED} more"


def tenants_of(gate: Millgate) -> list[str]:
    """The tenants that have something in a store, if it can tell; else the one in use."""
    return gate.store.tenants() if isinstance(gate.store, SqlStore) else [gate.tenant]


def _hint_at_stores(folder: Path) -> str:
    """What may have been meant: the usual one of a folder above, or a folder with a like name beside it."""
    if folder == Path(_USUAL):
        above = (parent / folder for parent in islice(Path.cwd().parents, _LEVELS))
        with suppress(StoreError):  # it lies where this user may not look
            if found_above := next(filter(has_store, above), None):
                return f"a folder above has one: --store {quote(str(found_above))}"
    beside = folder.absolute().parent
    # a pattern passes over folders that this user may not look into
    found = [path.parent.name for path in beside.glob(f"*/{FILE}")]
    if not found:
        option = "" if folder == Path(_USUAL) else f" --store {quote(str(folder))}"
        return f"make one with: millgate add FOLDER{option}; an agent's calls: millgate wrap --store {quote(str(folder))} AGENT"
    meant = did_you_mean(folder.name, found)
    return f"{meant}stores in {beside}: {enumerate_names(sorted(found))}"


def _hint_at_tenants(gate: Millgate) -> str:
    others = [tenant for tenant in tenants_of(gate) if tenant != gate.tenant]
    if not others:
        return ""
    meant = did_you_mean(gate.tenant, others)
    return f"{meant}name a tenant with --tenant; there are: {enumerate_names(others)}"
