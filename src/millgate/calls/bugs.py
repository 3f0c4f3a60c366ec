"""Internal: bugs, that is, exceptions that no code raises on purpose.

An exception that the outside can cause (our own errors, the operating system's, time-outs) is handled: the step is
marked degraded.
Any other exception is a bug. A request survives it, but the bug is logged with its traceback; in strict mode, which
`millgate.testing.strict` switches on, it is raised instead.
"""

import logging

from millgate.errors import MillgateError

EXPECTED = (MillgateError, OSError)
"""Exceptions that the outside can cause; TimeoutError is an OSError."""

LOGGER = logging.getLogger("millgate")

_strict = False


def set_strict(on: bool) -> bool:  # noqa: FBT001
    """Raise bugs instead of surviving them; returns how it was before."""
    global _strict
    before, _strict = _strict, on
    return before


def report(error: Exception, where: str) -> None:
    """Log a bug with its traceback; in strict mode raise it."""
    if _strict:
        raise error
    LOGGER.error("bug in %s: %s", where, describe(error), exc_info=error)


class surviving:  # noqa: N801  (used as a verb: with surviving("the cache witness"))
    """A `with` block whose failure costs only what it adds: the error is reported, and what follows goes on.

    `but` are errors that are raised all the same.
    """

    def __init__(self, what: str, *, but: type[Exception] | tuple[()] = ()) -> None:
        self._what, self._but = what, but

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: object) -> bool:
        if not isinstance(error, Exception) or isinstance(error, self._but):
            return False
        report(error, self._what)
        return True


def describe(error: BaseException) -> str:
    """An error in one line: ours speak for themselves, others name their kind. Callers far away may read it, so it
    names no file of this machine.
    """
    if isinstance(error, MillgateError):
        return str(error)
    if isinstance(error, OSError) and error.filename is not None:
        return f"{type(error).__name__}: {error.strerror}"
    return f"{type(error).__name__}: {error}"
