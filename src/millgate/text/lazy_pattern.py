"""Internal: regular expressions that are compiled when they are first used.

Compiling all patterns of the package takes longer than a short command does, and most commands need few of them.
"""

import re
from collections.abc import Callable
from typing import Any, cast


class LazyPattern:
    """Stands for a compiled pattern; the methods that were used once are as fast as its own."""

    def __init__(self, pattern: str | Callable[[], str], flags: int) -> None:
        self._source = pattern, flags

    def compile(self) -> re.Pattern[str]:
        """The pattern itself."""
        pattern, flags = self._source
        return re.compile(pattern if isinstance(pattern, str) else pattern(), flags)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  (whatever a pattern has)
        value = getattr(self.compile(), name)
        setattr(self, name, value)
        return value


def lazy_compile(pattern: str | Callable[[], str], flags: int = 0) -> re.Pattern[str]:
    """The pattern, or the one that a function gives, compiled at its first use."""
    return cast("re.Pattern[str]", LazyPattern(pattern, flags))
