"""VisibleText: a stream without what a reader does not see, and the way back to its offsets.

A loop whose copies differ only in a zero-width character, or in the number of blanks between two words, is the same
loop to a reader. Of up to eight blanks behind a word or a mark the first is kept. More are padding, which may be a
loop of its own; and indentation, columns of numbers and cells of tables stay as they are.
"""

import re
from bisect import bisect_left, bisect_right

# Joiners shape Persian, Indic and emoji text and stay there; behind ASCII they shape nothing.
_zero_width = re.compile(
    "[\u00ad\u200b\u200e\u200f\u2060-\u2064\ufeff]+|(?<=[\x00-\x7f])[\u200c\u200d]+"
)
_blanks = re.compile(r"(?:(?<=[^\W\d_] )|(?<=[.,;:!?] )) {1,7}(?! )")
_needed = re.compile(r"[^\W\d_]  |[.,;:!?]  ")
_unfinished = re.compile(r"(?:(?<=[^\W\d_] )|(?<=[.,;:!?] )) {1,7}\Z")
# Places remembered, which bounds the memory. A stall asks for the beginning of its run, and few runs hold more; an
# older place is then told a little too early.
KEPT = 8192


class VisibleText:
    """What was left out of a stream, and where."""

    def __init__(self) -> None:
        self._offsets: list[
            int
        ] = []  # in the visible text, before which something was left out ...
        self._left_out: list[int] = []  # ... and how many characters were, up to there

    def fold(self, text: str, before: str, start: int) -> tuple[str, str]:
        """The visible part of the next text, and blanks at its end that may be part of a longer run: feed them again.

        `before` stands visibly before the text, and `start` is its visible offset. A text of nothing but zero-width
        characters is kept: a model that writes no others is in a loop too.
        """
        joined, size = before + text, len(before)
        is_visible = text.isascii() or not _zero_width.search(joined, size)
        if is_visible and not _needed.search(joined):  # as in nearly all code, which is indented
            return text, ""
        hidden: list[tuple[int, int]] = []
        blanks: list[tuple[int, int]] = []
        shown = joined if is_visible else _leave_out(_zero_width, joined, size, hidden)
        if len(shown) == size:
            return text, ""
        unfinished = _unfinished.search(shown, size)
        rest = unfinished[0] if unfinished else ""
        shown = _leave_out(_blanks, shown[: len(shown) - len(rest)], size, blanks)
        if hidden or blanks:
            self._note(start - size, hidden, blanks)
        return shown[size:], rest

    def _note(
        self, start: int, hidden: list[tuple[int, int]], blanks: list[tuple[int, int]]
    ) -> None:
        """Remember what was left out: first `hidden`, and of what remained `blanks`."""
        gaps, moved = [(at, size, size) for at, size in blanks], 0
        for at, size in hidden:
            gaps.append((at - moved, size, 0))
            moved += size
        total, shift = self._left_out[-1] if self._left_out else 0, 0
        for at, size, moves in sorted(gaps):
            total += size
            self._offsets.append(start + at - shift)
            self._left_out.append(total)
            shift += moves
        if len(self._offsets) > KEPT:
            del self._offsets[: KEPT // 2], self._left_out[: KEPT // 2]

    def real_offset(self, visible: int) -> int:
        """The offset, in the text as it came, of a character of the visible text."""
        return self._add_left_out(visible, bisect_right(self._offsets, visible))

    def real_end(self, visible: int) -> int:
        """The same for the end of a part: behind its last character, before anything that is left out there."""
        return self._add_left_out(visible, bisect_left(self._offsets, visible))

    def _add_left_out(self, visible: int, gaps: int) -> int:
        return visible + (self._left_out[gaps - 1] if gaps else 0)


def _leave_out(pattern: re.Pattern[str], text: str, start: int, gaps: list[tuple[int, int]]) -> str:
    """The text without what matches behind `start`; `gaps` gets where that stood, and its length."""
    parts, end = [text[:start]], start
    for found in pattern.finditer(text, start):
        parts.append(text[end : found.start()])
        gaps.append((found.start(), len(found[0])))
        end = found.end()
    return "".join((*parts, text[end:])) if gaps else text
