"""Plain markup: reStructuredText and subtitles, which are text with marks that a chunk is better without."""

import re

_RULE = re.compile(r"([=\-~^\"'`:.*+#_<>])\1{2,}+")
_ANCHOR = re.compile(r"\.\. (?:_[^\n]{1,200}:|index::[^\n]*)\s*")
_ROLE = re.compile(r":[\w:+-]{1,40}:`~?([^`<\n]{1,200}?)(?:\s*<[^>`\n]{1,200}>)?`")
_TIME = re.compile(r"(?:\d{1,3}:)?\d\d:\d\d[.,]\d{1,3} --> [^\n]*")
_TAG = re.compile(r"</?[A-Za-z][^>\n]{0,80}>|\{\\[^}\n]{0,80}\}")


def rst_to_markdown(text: str) -> str:
    """Underlined titles as headings, roles as code, and no anchors; all else stays as it is."""
    lines, out, levels = text.splitlines(), list[str](), list[str]()
    for number, line in enumerate(lines):
        below = lines[number + 1].rstrip() if number + 1 < len(lines) else ""
        if _RULE.fullmatch(line.rstrip()) and _is_rule(lines, number):
            continue
        if line.strip() and not line.startswith(" ") and _underlines(below, line):
            kind = below[0]
            if kind not in levels:
                levels.append(kind)
            out.append(f"{'#' * min(6, 1 + levels.index(kind))} {line.strip()}")
        elif not _ANCHOR.fullmatch(line):
            out.append(_ROLE.sub(r"`\1`", line))
    return "\n".join(out)


def _underlines(rule: str, title: str) -> bool:
    return len(rule) >= len(title.rstrip()) and bool(_RULE.fullmatch(rule))


def _is_rule(lines: list[str], number: int) -> bool:
    """Whether a line of signs belongs to a title above or below it."""
    above = lines[number - 1].rstrip() if number else ""
    here = lines[number].rstrip()
    two_below = lines[number + 2].rstrip() if number + 2 < len(lines) else ""
    is_under = bool(above) and not above.startswith(" ") and len(here) >= len(above)
    return is_under or two_below == here


def subtitles_to_text(text: str) -> str:
    """What is said in subtitles (SubRip, WebVTT), without numbers, times and tags."""
    said: list[str] = []
    for block in re.split(r"\r?\n[ \t\r]*\n", text):
        lines = block.strip().splitlines()
        at = next((n for n, line in enumerate(lines) if _TIME.match(line.strip())), None)
        if at is None:
            continue
        said += (_TAG.sub("", line).strip() for line in lines[at + 1 :])
    return "\n".join(filter(None, said))
