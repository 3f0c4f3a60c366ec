"""Summary: the findings on one screen."""

from collections.abc import Iterable, Iterator

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from millgate.circles.finder import clip
from millgate.sessions.xray.findings import KINDS, CacheBreak, Session, ToolUse, Xray
from millgate.text.table import count_of

TOOLS = 6  # rows of each table: all of it fits a terminal of 40 lines
SESSIONS = 5
KINDS_SHOWN = 4
FILES_SHOWN = 3
COMPACTIONS_SHOWN = 5
BREAKS = 3
BAR = 24
LABELS = {
    "system": "system and reminders", "human": "people", "text": "the model's answers", "thinking": "the model's thinking",
    "call": "tool calls", "result": "tool results",
}  # fmt: skip


def summary(found: Xray) -> RenderableType:
    """What filled the windows, for a terminal."""
    lines = [*_head(found), ""]
    kinds = ((LABELS[k], found.by_kind[k]) for k in KINDS if found.by_kind[k])
    for label, tokens in sorted(kinds, key=lambda row: -row[1]):
        lines.append(f"{label:<22} {bar(tokens, found.added)} {short(tokens):>7} {share(tokens, found.added):>5}")  # fmt: skip
    shown: list[RenderableType] = [Text("\n".join([*lines, ""]))]
    if found.tools:
        shown += [_tools(found), Text("")]
    return Group(*shown, _sessions(found.sessions), *_cache(found), *_compactions(found))


def _compactions(found: Xray) -> list[RenderableType]:
    """What compactions lost, those of the largest sessions first."""
    told = [
        f"{clip(session.name, 40)}: {cut.told}"
        for session in found.sessions
        for cut in session.compactions
        if cut.told
    ]
    return [Text("\n".join(["", *told[:COMPACTIONS_SHOWN]]))] if told else []


def _head(found: Xray) -> list[str]:
    loops = [loop for session in found.sessions for loop in session.loops]
    cuts = [cut for session in found.sessions for cut in session.compactions]
    lost, again = sum(sum(cut.dropped.values()) for cut in cuts), sum(cut.fetched_again for cut in cuts)  # fmt: skip
    skipped = f", {count_of(found.skipped, 'line')} skipped" if found.skipped else ""
    unrecorded = sum(session.unrecorded for session in found.sessions)
    rows = [
        (found.repeated, found.added, "stood there already, word for word"),
        (found.stale, found.added, "were files that a later edit made stale"),
        (found.fold.tokens, found.added, describe_fold(found)),
        (sum(loop.tokens for loop in loops), 0, f"went into {count_of(len(loops), 'circle')} of tool calls"),
        (lost, 0, f"were dropped by {count_of(len(cuts), 'compaction')}; {short(again)} of that fetched again"),
        (unrecorded, 0, "more were counted by providers: tools, and prompts that the files leave out"),
    ]  # fmt: skip
    return [
        f"{count_of(len(found.sessions), 'session')} in {count_of(found.files, 'file')}, {found.bytes / 1e6:.1f} MB{skipped}",
        f"{tokens_of(found.added)} entered windows",
        *(
            f"  {short(n):>6} {share(n, whole) if whole else '':>5}  {what}"
            for n, whole, what in rows
            if n
        ),
        *describe_rest(found),
    ]


def describe_fold(found: Xray) -> str:
    """What folding would have saved, as the rest of a sentence."""
    saved, cost = found.fold, found.cache.cost
    said = f"could have been folded into {count_of(saved.folds, 'pointer')}"
    if saved.cost is not None and cost:
        said += f": about ${saved.cost:,.2f} of ${cost:,.2f} with cache prices"
    elif saved.input:
        said += f": {tokens_of(saved.input)} less over all calls"
    return said


def describe_rest(found: Xray) -> list[str]:
    """What of the files says nothing about windows, as far as is known."""
    lines = []
    if found.passed_over:
        kinds = sorted(found.passed_over.items(), key=lambda row: -row[1])
        named = ", ".join(f"{clip(kind, 40)} {count:,}" for kind, count in kinds[:KINDS_SHOWN])
        lines.append(
            f"passed over {count_of(sum(found.passed_over.values()), 'line')} of other kinds: {named}"
        )
    if found.unread:
        named = ", ".join(clip(path, 80) for path in found.unread[:FILES_SHOWN])
        lines.append(f"nothing was understood in {count_of(len(found.unread), 'file')}: {named}")
    return lines


def _tools(found: Xray) -> Table:
    table = Table("tool results", "calls", "tokens", "share", "again", "stale", box=None, header_style="bold")  # fmt: skip
    for tool, *figures in tool_rows(found.tools[:TOOLS], found.added):
        table.add_row(escape(clip(tool, 32)), *figures)
    return table


def tool_rows(tools: Iterable[ToolUse], added: int) -> Iterator[tuple[str, ...]]:
    """For each tool its calls, its tokens, their share of all, and of them what stood there already or went stale."""
    for use in tools:
        yield (
            use.tool,
            f"{use.calls:,}",
            short(use.tokens),
            share(use.tokens, added),
            share(use.repeated, use.tokens),
            share(use.stale, use.tokens),
        )


def _sessions(sessions: tuple[Session, ...]) -> Table:
    table = Table("largest sessions", "turns", "tokens", "peak", "again", "circles", "compactions", box=None, header_style="bold")  # fmt: skip
    for session in sessions[:SESSIONS]:
        table.add_row(
            escape(clip(session.name, 40)), f"{session.turns:,}", short(session.added), short(session.peak),
            share(session.repeated, session.added), str(len(session.loops)), str(len(session.compactions)),
        )  # fmt: skip
    return table


def describe_cache(found: Xray) -> str:
    """How often the provider's cache broke, and what that cost of all; empty if no session tells what was cached."""
    use = found.cache
    if not use.calls:
        return ""
    breaks = sum(len(session.cache.breaks) for session in found.sessions)
    times = "never" if not breaks else "once" if breaks == 1 else f"{breaks:,} times"
    said = f"{times} in {count_of(use.calls, 'call')}; {share(use.read, use.read + use.written + use.fresh)} of the input was read from it"
    if use.lost:
        were = "was" if use.lost == 1 else "were"
        said += f"; {tokens_of(use.lost)} {were} paid in full again{money(use.lost_cost)}"
    return said + (
        f"; all calls cost{money(use.cost).removeprefix(',')}" if use.cost is not None else ""
    )


def worst_breaks(found: Xray, most: int) -> list[tuple[Session, CacheBreak]]:
    """The breaks that cost most, of all sessions."""
    pairs = ((session, broke) for session in found.sessions for broke in session.cache.breaks)
    return sorted(pairs, key=lambda pair: -pair[1].lost)[:most]


def _cache(found: Xray) -> Iterator[RenderableType]:
    """What broke the cache, the dearest first; nothing if no session tells what was cached."""
    if not (said := describe_cache(found)):
        return
    yield Text(f"\nwhat broke the cache: {said}")
    if worst := worst_breaks(found, BREAKS):
        table = Table("session", "turn", "tokens", "money", "why", box=None, header_style="bold")
        for session, broke in worst:
            table.add_row(
                escape(clip(session.name, 12)), f"{broke.turn:,}", short(broke.lost), money(broke.cost).removeprefix(", about "),
                escape(clip(broke.reason, 200)),
            )  # fmt: skip
        yield table


def money(amount: float | None) -> str:
    """An amount as the rest of a sentence; empty if there is no price."""
    return "" if amount is None else f", about ${amount:,.2f}"


def short(tokens: int) -> str:
    """A number of tokens in few characters."""
    if tokens < 10_000:
        return f"{tokens:,}"
    return f"{tokens / 1e3:.0f}k" if tokens < 10_000_000 else f"{tokens / 1e6:.1f}M"


def tokens_of(number: int) -> str:
    """The same, with the word."""
    return f"{short(number)} {'token' if number == 1 else 'tokens'}"


def share(part: int, whole: int) -> str:
    """A part in percent."""
    return f"{100 * part / whole:.0f} %" if whole else "0 %"


def bar(part: int, whole: int) -> str:
    """A part as a row of blocks."""
    full = round(BAR * part / whole) if whole else 0
    return "█" * full + "·" * (BAR - full)
