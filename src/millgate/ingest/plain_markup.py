"""Plain markup: reStructuredText and subtitles, which are text with marks that a chunk is better without."""

import re

# a title between two rules, or above one
_TITLE = re.compile(
    r"^(?:([=\-~^\"'`:.*+#_<>])\1{2,}+[ \t]*+\n)?(\S[^\n]*)\n(([=\-~^\"'`:.*+#_<>])\4{2,}+)[ \t]*+$",
    re.MULTILINE,
)
_ANCHOR = re.compile(r"^\.\. (?:_[^\n]{1,200}:|index::[^\n]*)[ \t]*\n?", re.MULTILINE)
_ROLE = re.compile(r":[\w:+-]{1,40}:`~?([^`<\n]{1,200}?)(?:\s*<[^>`\n]{1,200}>)?`")
_TIME = re.compile(r"(?:\d{1,3}:)?\d\d:\d\d[.,]\d{1,3} --> [^\n]*")
_TAG = re.compile(r"</?[A-Za-z][^>\n]{0,80}>|\{\\[^}\n]{0,80}\}")


def rst_to_markdown(text: str) -> str:
    """Underlined titles as headings, roles as code, and no anchors; all else stays as it is."""
    levels: list[str] = []

    def head(match: re.Match[str]) -> str:
        title, rule = match[2].rstrip(), match[3]
        if len(rule) < len(title):
            return match[0]
        if rule[0] not in levels:
            levels.append(rule[0])
        return f"{'#' * min(6, 1 + levels.index(rule[0]))} {title}"

    return _ROLE.sub(r"`\1`", _ANCHOR.sub("", _TITLE.sub(head, text)))


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
