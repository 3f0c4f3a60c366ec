"""Page: the findings as one HTML file that needs nothing else.

No script, no font, no image, no address: it opens from a disk without a network, and its own policy forbids all of
these. Every text from a session is escaped, for a tool result may be anything.
"""

from collections.abc import Iterable, Iterator, Mapping
from html import escape

from millgate.circles.finder import clip
from millgate.sessions.xray.bars import (
    CACHE,
    HEIGHT,
    SEGMENTS,
    WIDTH,
    Plot,
    draw_cache,
    draw_window,
    height_of,
    list_segments,
)
from millgate.sessions.xray.findings import KINDS, Session, Window, Xray
from millgate.sessions.xray.summary import (
    BREAK_HEAD,
    LABELS,
    TOOL_HEAD,
    break_rows,
    describe_cache,
    describe_files,
    describe_rest,
    share,
    short,
    tokens_of,
    tool_rows,
    total_rows,
)
from millgate.text.table import count_of

MARKER = "<!doctype html><!-- millgate xray -->"  # so that only our own file is written over
SESSIONS = 100  # sessions shown whole; the others stand in the totals
TOOLS, BREAKS = 40, 40  # rows, those of the dearest
# of kinds, of what a bar of a window is made of, and of what the cache gave
COLORS = {
    "system": "#8d99ae", "human": "#2a9d8f", "text": "#4f7cac", "thinking": "#9d79bc", "call": "#e9c46a",
    "result": "#e76f51",
    "tools": "#8a6d3b", "injected": "#7b5aa6", "earlier": "#7da7b3", "stale": "#d99a2b", "repeated": "#c8553d",
    "new": "#1f8a9c", "folded": "#c8553d44", "free": "#8883",
    "cached": "#7da7b3", "written": "#d99a2b", "fresh": "#c8553d",
}  # fmt: skip

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
            "<h2>Sessions</h2>",
            *(line for session in found.sessions[:SESSIONS] for line in _session(session)),
            "</main></body></html>\n",
        ]
    )


def _totals(found: Xray) -> Iterator[str]:
    yield "<h1>What filled the window</h1>"
    yield f"<p>{describe_files(found)}. Sizes are estimated tokens; peaks are the provider's count, if the file has it.</p>"
    yield from (f"<p>{_text(line)}</p>" for line in describe_rest(found))
    yield _bar(found.by_kind, found.added)
    yield _legend(LABELS)
    yield _table(("tokens", "of all", f"of {tokens_of(found.added)} that entered windows"), total_rows(found), kind="words")  # fmt: skip
    if found.tools:
        yield "<h2>Tool results by tool</h2>"
        yield _table(TOOL_HEAD, tool_rows(found, TOOLS))
    if said := describe_cache(found):
        yield f"<h2>What broke the cache</h2><p>{_text(said[:1].upper() + said[1:])}.</p>"
        if rows := list(break_rows(found, BREAKS)):
            yield _table(BREAK_HEAD, rows, kind="words")


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
    for loop in session.loops[:20]:
        yield f"<p>Turns {loop.first_turn:,} to {loop.last_turn:,}: {_text(loop.what)}; {tokens_of(loop.tokens)} after the first.</p>"
    for cut in session.compactions[:20]:
        parts = sorted(cut.dropped.items(), key=lambda item: -item[1])[:6]
        listed = ", ".join(f"{_text(LABELS.get(name, name))} {short(size)}" for name, size in parts)
        gone = cut.told.partition(" left the window, ")[2]
        told = _text(f"{gone[:1].upper()}{gone[1:]}.") if gone else ""
        yield (
            f"<p>Compaction after turn {cut.turn:,}: {short(cut.before)} to {short(cut.after)} tokens. "
            f"Dropped: {listed}. Fetched again: {short(cut.fetched_again)}. {told}</p>"
        )
    yield "</details>"


def _timeline(windows: tuple[Window, ...]) -> Iterator[str]:
    """The window turn by turn, with what the provider counted as a line; below it what came from the cache."""
    highest = max(window.reported for window in windows)
    plot, line = draw_window(list_segments(windows), reported=highest), ""
    column = WIDTH / plot.columns
    if highest:
        points = (f"{(at + 0.5) * column:.1f},{height_of(w.reported / plot.top):.1f}" for at, w in enumerate(windows))  # fmt: skip
        line = f'<polyline fill="none" stroke="currentColor" points="{" ".join(points)}"/>'
    yield _draw(plot, "window by turn", SEGMENTS, line)
    if cache := draw_cache(windows):
        broke = [(at, window) for at, window in enumerate(windows) if window.broke]
        marks = (
            f'<path stroke="currentColor" d="M{(at + 0.5) * column:.1f} 0v{HEIGHT}"><title>{_text(window.broke)}</title></path>'
            for at, window in broke
        )
        yield _draw(cache, f"the provider's cache by turn; {len(broke)} breaks", CACHE, "".join(marks))  # fmt: skip
        listed = "".join(f"<li>turn {window.turn:,}: {_text(window.broke)}</li>" for _, window in broke)  # fmt: skip
        if listed:
            yield f'<p class="small">The lines mark where the cache broke:</p><ul class="small">{listed}</ul>'


def _draw(plot: Plot, label: str, names: Mapping[str, str], more: str) -> str:
    label = f"{label}, up to {plot.top:,.0f} tokens"
    shapes = "".join(f'<path fill="{COLORS[s.color]}" d="{s.path}"/>' for s in plot.shapes)
    svg = f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}"><title>{label}</title>{shapes}{more}</svg>'
    return svg + _legend({s.color: names[s.color] for s in plot.shapes})


def _bar(kinds: Mapping[str, int], whole: int) -> str:
    parts = (
        f'<span style="width:{100 * kinds.get(kind, 0) / max(1, whole):.2f}%;background:{COLORS[kind]}" '
        f'title="{LABELS[kind]} {short(kinds.get(kind, 0))}"></span>'
        for kind in KINDS
    )
    return f'<div class="bar">{"".join(parts)}</div>'


def _legend(labels: Mapping[str, str]) -> str:
    keys = (
        f'<span class="key"><i style="background:{COLORS[name]}"></i>{label}</span>'
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
