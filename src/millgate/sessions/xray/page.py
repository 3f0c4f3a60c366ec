"""Page: the findings as one HTML file that needs nothing else.

No script, no font, no image, no address: it opens from a disk without a network, and its own policy forbids all of
these. Every text from a session is escaped, for a tool result may be anything.
"""

from collections.abc import Iterable, Iterator, Mapping
from html import escape

from millgate.circles.finder import clip
from millgate.sessions.xray.bars import CACHE, SEGMENTS, draw, draw_cache
from millgate.sessions.xray.findings import KINDS, Compaction, Session, Window, Xray
from millgate.sessions.xray.summary import (
    LABELS,
    describe_cache,
    describe_fold,
    describe_rest,
    money,
    share,
    short,
    tokens_of,
    tool_rows,
    worst_breaks,
)
from millgate.text.table import count_of

MARKER = "<!doctype html><!-- millgate xray -->"  # so that only our own file is written over
SESSIONS = 100  # sessions shown whole; the others stand in the totals
WIDTH, HEIGHT = 760, 160
CACHE_HEIGHT, MARK = 60, 14
BREAKS = 40  # that are listed of all sessions, the dearest
COLORS = {
    "system": "#8d99ae", "human": "#2a9d8f", "text": "#4f7cac", "thinking": "#9d79bc", "call": "#e9c46a",
    "result": "#e76f51",
}  # fmt: skip
SEGMENT_COLORS = {
    "system": "#6b7785", "tools": "#8a6d3b", "injected": "#7b5aa6", "earlier": "#7da7b3", "stale": "#d99a2b",
    "repeated": "#c8553d", "new": "#1f8a9c", "folded": "#c8553d44", "free": "#8883",
}  # fmt: skip

TOOL_HEAD = ("tool", "calls", "tokens", "of all", "there already", "made stale")
CACHE_COLORS = {"cached": "#7da7b3", "written": "#d99a2b", "fresh": "#c8553d"}

STYLE = """
:root { color-scheme: light dark; --line: #8884; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem } h2 { font-size: 1.15rem; margin-top: 2rem }
table { border-collapse: collapse; width: 100% } th, td { text-align: right; padding: .25rem .6rem; border-bottom: 1px solid var(--line) }
th:first-child, td:first-child { text-align: left; overflow-wrap: anywhere; min-width: 7.5rem }
.scroll { overflow-x: auto } td + td { white-space: nowrap }
.words th:last-child, .words td:last-child { text-align: left; white-space: normal; min-width: 14rem }
.bar { display: flex; height: 1.4rem; border-radius: 4px; overflow: hidden; margin: .6rem 0 }
.key { display: inline-block; margin-right: 1rem } .key i { display: inline-block; width: .8em; height: .8em; border-radius: 2px; margin-right: .35em }
details { border: 1px solid var(--line); border-radius: 6px; padding: .5rem .9rem; margin: .6rem 0 } summary { cursor: pointer; overflow-wrap: anywhere }
svg { width: 100%; height: auto; background: #8881; border-radius: 4px } .small { opacity: .75; font-size: .9em; overflow-wrap: anywhere }
"""


def page(found: Xray) -> str:
    """The whole file."""
    return "\n".join(
        [
            MARKER,
            '<html lang="en"><head><meta charset="utf-8">',
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">",
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>What filled the window</title><style>{STYLE}</style></head><body><main>",
            *_totals(found),
            *_tools(found),
            *_breaks(found),
            "<h2>Sessions</h2>",
            *(line for session in found.sessions[:SESSIONS] for line in _session(session)),
            "</main></body></html>\n",
        ]
    )


def _totals(found: Xray) -> Iterator[str]:
    loops = sum(len(session.loops) for session in found.sessions)
    cuts = sum(len(session.compactions) for session in found.sessions)
    yield "<h1>What filled the window</h1>"
    yield f"<p>{count_of(len(found.sessions), 'session')} in {count_of(found.files, 'file')}, {found.bytes / 1e6:,.1f} MB; {count_of(found.skipped, 'line')} skipped. Sizes are estimated tokens; peaks are the provider's count, if the file has it.</p>"
    for line in describe_rest(found):
        yield f"<p>{escape(line)}</p>"
    yield _bar(found.by_kind, found.added)
    yield _legend(LABELS, COLORS)
    rows = (
        ("entered windows", found.added),
        ("stood there already, word for word", found.repeated),
        ("were files that a later edit made stale", found.stale),
    )
    yield _table(
        ("tokens that", "tokens", "of all"),
        ((what, short(n), share(n, found.added)) for what, n in rows),
    )
    yield f"<p>{tokens_of(found.fold.tokens)} {escape(describe_fold(found))}.</p>"
    yield f"<p>{count_of(loops, 'circle')} of tool calls, {count_of(cuts, 'compaction')}.</p>"


def _tools(found: Xray) -> Iterator[str]:
    if not found.tools:
        return
    yield "<h2>Tool results by tool</h2>"
    yield _table(TOOL_HEAD, tool_rows(found.tools[:40], found.added))


def _breaks(found: Xray) -> Iterator[str]:
    """What broke the cache, the dearest first; nothing if no session tells what was cached."""
    if not (said := describe_cache(found)):
        return
    yield f"<h2>What broke the cache</h2><p>{_text(said[:1].upper() + said[1:])}.</p>"
    if worst := worst_breaks(found, BREAKS):
        yield _table(
            ("session", "turn", "paid again", "money", "why"),
            (
                (session.name, f"{broke.turn:,}", short(broke.lost), _money(broke.cost), broke.reason)
                for session, broke in worst
            ),
            kind="words",
        )  # fmt: skip


def _money(amount: float | None) -> str:
    return money(amount).removeprefix(", ")


def _session(session: Session) -> Iterator[str]:
    yield (
        f"<details><summary><b>{_text(session.name)}</b> {count_of(session.turns, 'turn')}, {tokens_of(session.added)}, "
        f"peak {short(session.peak)}</summary>"
    )
    yield f'<p class="small">{_text(session.path)}</p>'
    yield _bar(session.by_kind, session.added)
    if len(session.windows) > 1:
        yield from _timeline(session.windows)
    yield (
        f"<p>{share(session.repeated, session.added)} stood there already, "
        f"{share(session.stale, session.added)} was made stale by a later edit.</p>"
    )
    if session.tools:
        yield _table(TOOL_HEAD, tool_rows(session.tools[:12], session.added))
    for loop in session.loops[:20]:
        yield f"<p>Turns {loop.first_turn:,} to {loop.last_turn:,}: {_text(loop.what)}; {tokens_of(loop.tokens)} after the first.</p>"
    for cut in session.compactions[:20]:
        parts = sorted(cut.dropped.items(), key=lambda item: -item[1])[:6]
        listed = ", ".join(f"{_text(LABELS.get(name, name))} {short(size)}" for name, size in parts)
        yield (
            f"<p>Compaction after turn {cut.turn:,}: {short(cut.before)} to {short(cut.after)} tokens. "
            f"Dropped: {listed}. Fetched again: {short(cut.fetched_again)}. {_text(_tell(cut))}</p>"
        )
    yield "</details>"


def _tell(cut: Compaction) -> str:
    """What the compaction lost, without what stands before it."""
    gone = cut.told.partition(" left the window, ")[2]
    return f"{gone[:1].upper()}{gone[1:]}." if gone else ""


def _timeline(windows: tuple[Window, ...]) -> Iterator[str]:
    """The window turn by turn: a bar of what fills it, and what the provider counted as a line."""
    chart = draw(windows, WIDTH, HEIGHT)
    shapes = [f'<path fill="{SEGMENT_COLORS[s.segment]}" d="{s.path}"/>' for s in chart.shapes]
    if chart.reported:
        shapes.append(f'<polyline fill="none" stroke="currentColor" points="{chart.reported}"/>')
    label = f"window by turn, up to {chart.top:,} tokens"
    yield f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}"><title>{label}</title>{"".join(shapes)}</svg>'
    yield _legend({s.segment: SEGMENTS[s.segment] for s in chart.shapes}, SEGMENT_COLORS)
    yield from _cache_row(windows)


def _cache_row(windows: tuple[Window, ...]) -> Iterator[str]:
    """What the provider read from its cache at each turn, with a mark at each break and its reason below."""
    chart = draw_cache(windows, WIDTH, CACHE_HEIGHT)
    if chart is None:
        return
    shapes = [f'<path fill="{CACHE_COLORS[s.segment]}" d="{s.path}"/>' for s in chart.shapes]
    marks = [
        f'<path fill="currentColor" d="M{mark.x - 5:.1f} {-MARK}h10l-5 9z"><title>{_text(mark.reason)}</title></path>'
        for mark in chart.marks
    ]
    label = f"the provider's cache by turn, up to {chart.top:,} tokens; {len(marks)} breaks"
    yield f'<svg viewBox="0 {-MARK} {WIDTH} {CACHE_HEIGHT + MARK}" role="img" aria-label="{label}"><title>{label}</title>{"".join(shapes + marks)}</svg>'
    yield _legend({s.segment: CACHE[s.segment] for s in chart.shapes}, CACHE_COLORS)
    if marks:
        yield '<p class="small">▼ the cache broke:</p><ul class="small">'
        yield from (f"<li>turn {mark.turn:,}: {_text(mark.reason)}</li>" for mark in chart.marks)
        yield "</ul>"


def _bar(kinds: object, whole: int) -> str:
    assert isinstance(kinds, dict)
    parts = (
        f'<span style="width:{100 * kinds.get(kind, 0) / max(1, whole):.2f}%;background:{COLORS[kind]}" '
        f'title="{LABELS[kind]} {short(kinds.get(kind, 0))}"></span>'
        for kind in KINDS
    )
    return f'<div class="bar">{"".join(parts)}</div>'


def _legend(labels: Mapping[str, str], colors: Mapping[str, str]) -> str:
    keys = (
        f'<span class="key"><i style="background:{colors[name]}"></i>{label}</span>'
        for name, label in labels.items()
    )
    return f'<p class="small">{"".join(keys)}</p>'


def _table(head: Iterable[str], rows: Iterable[Iterable[str]], *, kind: str = "") -> str:
    lines = ["".join(f"<th>{_text(cell)}</th>" for cell in head)]
    lines += ["".join(f"<td>{_text(cell)}</td>" for cell in row) for row in rows]
    table = "".join(f"<tr>{line}</tr>" for line in lines)
    # a reader without a mouse scrolls what has the focus
    return f'<div class="scroll {kind}" tabindex="0"><table>{table}</table></div>'


def _text(value: str) -> str:
    return escape(clip(value, 300))
