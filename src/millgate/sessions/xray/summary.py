"""Summary: the findings on one screen, and in words that the page has too."""

from collections.abc import Iterator

from millgate.circles.finder import clip
from millgate.sessions.xray.findings import Xray
from millgate.text.table import count_of, table

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
TOOL_HEAD = ("tool results", "calls", "tokens", "share", "again", "stale")
BREAK_HEAD = ("session", "turn", "tokens", "money", "why")


def summary(found: Xray) -> str:
    """What filled the windows, for a terminal."""
    lines = [describe_files(found), f"{tokens_of(found.added)} entered windows"]
    lines += [f"  {tokens:>6} {of_all:>5}  {what}" for tokens, of_all, what in total_rows(found)]
    lines += [*describe_rest(found), ""]
    for kind, tokens in sorted(found.by_kind.items(), key=lambda row: -row[1]):
        if tokens:
            lines.append(f"{LABELS[kind]:<22} {bar(tokens, found.added)} {short(tokens):>7} {share(tokens, found.added):>5}")  # fmt: skip
    if found.tools:
        lines += ["", table([TOOL_HEAD, *tool_rows(found, TOOLS)]), *_more(len(found.tools), TOOLS)]
    heads = ("largest sessions", "turns", "tokens", "peak", "again", "circles", "compactions")
    sessions = (
        (clip(one.name, 40), f"{one.turns:,}", short(one.added), short(one.peak),
         share(one.repeated, one.added), str(len(one.loops)), str(len(one.compactions)))
        for one in found.sessions[:SESSIONS]
    )  # fmt: skip
    lines += ["", table([heads, *sessions]), *_more(len(found.sessions), SESSIONS)]
    if said := describe_cache(found):
        lines.append(f"\nwhat broke the cache: {said}")
        if rows := list(break_rows(found, BREAKS, width=12)):
            lines += [table([BREAK_HEAD, *rows]), *_more(len(found.cache.breaks), BREAKS)]
    cuts = ((one.name, cut.told) for one in found.sessions for cut in one.compactions if cut.told)
    if lost := [f"{clip(name, 40)}: {told}" for name, told in cuts]:
        lines += ["", *lost[:COMPACTIONS_SHOWN]]
    return "\n".join(lines)


def _more(count: int, shown: int) -> list[str]:
    return [f"... and {count - shown:,} more, on the page"] if count > shown else []


def describe_files(found: Xray) -> str:
    """What was read."""
    skipped = f", {count_of(found.skipped, 'line')} skipped" if found.skipped else ""
    return f"{count_of(len(found.sessions), 'session')} in {count_of(found.files, 'file')}, {found.bytes / 1e6:.1f} MB{skipped}"


def total_rows(found: Xray) -> Iterator[tuple[str, str, str]]:
    """Of all that entered windows: how many tokens, which share of all, and what is to be said of them."""
    loops = [loop for session in found.sessions for loop in session.loops]
    cuts = [cut for session in found.sessions for cut in session.compactions]
    lost, again = sum(sum(cut.dropped.values()) for cut in cuts), sum(cut.fetched_again for cut in cuts)  # fmt: skip
    unrecorded = sum(session.unrecorded for session in found.sessions)
    rows = (
        (found.repeated, found.added, "stood there already, word for word"),
        (found.stale, found.added, "were files that a later edit made stale"),
        (found.fold.tokens, found.added, describe_fold(found)),
        (sum(loop.tokens for loop in loops), 0, f"went into {count_of(len(loops), 'circle')} of tool calls"),
        (lost, 0, f"were dropped by {count_of(len(cuts), 'compaction')}; {short(again)} of that fetched again"),
        (unrecorded, 0, "more were counted by providers: tools, and prompts that the files leave out"),
    )  # fmt: skip
    return ((short(n), share(n, whole) if whole else "", what) for n, whole, what in rows if n)


def describe_fold(found: Xray) -> str:
    """What folding would have saved, as the rest of a sentence."""
    saved, cost = found.fold, found.cache.cost
    said = f"could have been folded into {count_of(saved.folds, 'pointer')}"
    if saved.cost is not None and cost:
        said += f": about ${saved.cost:,.2f} of ${cost:,.2f} with cache prices"
    elif saved.input:
        said += f": {tokens_of(saved.input)} less over all calls"
    return said


def describe_rest(found: Xray) -> Iterator[str]:
    """What of the files says nothing about windows, as far as is known."""
    if found.passed_over:
        kinds = found.passed_over.most_common(KINDS_SHOWN)
        named = ", ".join(f"{clip(kind, 40)} {count:,}" for kind, count in kinds)
        yield f"passed over {count_of(found.passed_over.total(), 'line')} of other kinds: {named}"
    if found.unread:
        named = ", ".join(clip(path, 80) for path in found.unread[:FILES_SHOWN])
        yield f"nothing was understood in {count_of(len(found.unread), 'file')}: {named}"


def tool_rows(found: Xray, most: int) -> Iterator[tuple[str, ...]]:
    """For each tool its calls, its tokens, their share of all, and of them what stood there already or went stale."""
    for use in found.tools[:most]:
        again, stale = share(use.repeated, use.tokens), share(use.stale, use.tokens)
        of_all = share(use.tokens, found.added)
        yield clip(use.tool, 32), f"{use.calls:,}", short(use.tokens), of_all, again, stale


def describe_cache(found: Xray) -> str:
    """How often the provider's cache broke, and what that cost of all; empty if no session tells what was cached."""
    use = found.cache
    if not use.calls:
        return ""
    times = {0: "never", 1: "once"}.get(len(use.breaks), f"{len(use.breaks):,} times")
    read = share(use.read, use.read + use.written + use.fresh)
    said = f"{times} in {count_of(use.calls, 'call')}; {read} of the input was read from it"
    if use.lost:
        were, cost = "was" if use.lost == 1 else "were", money(use.lost_cost)
        said += f"; {tokens_of(use.lost)} {were} paid in full again{cost and f', about {cost}'}"
    return said + (f"; all calls cost about {money(use.cost)}" if use.cost is not None else "")


def break_rows(found: Xray, most: int, *, width: int = 300) -> Iterator[tuple[str, ...]]:
    """The breaks that cost most, of all sessions."""
    pairs = ((session, broke) for session in found.sessions for broke in session.cache.breaks)
    for session, broke in sorted(pairs, key=lambda pair: -pair[1].lost)[:most]:
        yield clip(session.name, width), f"{broke.turn:,}", short(broke.lost), money(broke.cost), clip(broke.reason, 200)  # fmt: skip


def money(amount: float | None) -> str:
    """An amount; empty if there is no price."""
    return "" if amount is None else f"${amount:,.2f}"


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
