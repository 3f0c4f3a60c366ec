"""SentText: the content that the client has, and what the model is shown of it.

A loop that is cut at its onset is left out of the history, though the client may have its first characters.
"""


class SentText:
    """Content in the order it went out."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._omitted: list[tuple[int, int]] = []  # where stands what the model is not shown

    def append(self, text: str) -> None:
        """Take in what goes out."""
        self._parts.append(text)

    def __str__(self) -> str:
        return "".join(self._parts)

    @property
    def last(self) -> str:
        """The last character, empty where nothing was sent."""
        return self._parts[-1][-1:] if self._parts else ""

    def omit_from(self, onset: int) -> None:
        """Show the model nothing of what stands from there on."""
        self._omitted = [part for part in self._omitted if part[0] < onset]
        self._omitted.append((onset, len(str(self))))

    def shown(self, end: int | None = None) -> str:
        """What the model is shown of the content up to there."""
        text = str(self)[:end]
        for start, stop in reversed(self._omitted):
            text = text[:start] + text[stop:]
        return text
