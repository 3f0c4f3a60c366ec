"""Every error Millgate raises on purpose, with the HTTP status that a server answers.

MillgateError
├── InputError 422
│   ├── LimitError 413
│   └── NotFound 404
├── AccessError 401
│   └── ScopeError 403
├── BusyError 429
├── PausedError 402
├── DeadlineError 504
├── ClosingError 503
├── ConfigError 500
│   └── MissingExtra 500
├── StoreError 503
│   ├── QuotaError 507
│   ├── DamagedError 503
│   └── NotReady 503
├── UpstreamError 502
│   └── UpstreamTimeout 504
└── GuardError 502
    └── LoopError 502
        └── PartialCallError 502
"""


class MillgateError(Exception):
    """Base of all errors raised on purpose: what happened, and a hint what to do about it."""

    status: int = 500

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


class InputError(MillgateError):
    """A value the caller gave cannot be used."""

    status = 422


class LimitError(InputError):
    """A value is larger than a named limit."""

    status = 413


class NotFound(InputError):
    """Nothing has that name."""

    status = 404


class AccessError(MillgateError):
    """The caller is unknown."""

    status = 401


class ScopeError(AccessError):
    """The caller is known, and may not do this."""

    status = 403


class BusyError(MillgateError):
    """Too much is asked at once; `retry_after` is the seconds to wait before asking again."""

    status = 429

    def __init__(self, message: str, *, retry_after: float, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.retry_after = retry_after


class PausedError(MillgateError):
    """A session, key or tenant has reached its cap and waits for a person."""

    status = 402


class DeadlineError(MillgateError):
    """The answer took longer than it may."""

    status = 504


class ClosingError(MillgateError):
    """The service is shutting down."""

    status = 503


class ConfigError(MillgateError):
    """A setting is unknown, out of range or contradicts another."""


class MissingExtra(ConfigError):
    """An optional package is not installed; the hint is the pip line that installs it.

    It speaks of the clone, since the package is not on PyPI yet.
    """

    def __init__(self, package: str | None, *, extra: str) -> None:
        super().__init__(
            f"{package or extra} is not installed",
            hint=f"run in the clone of the repository: pip install '.[{extra}]'",
        )


class StoreError(MillgateError):
    """The store cannot be opened, read or written."""

    status = 503


class QuotaError(StoreError):
    """The tenant would hold more than it may; nothing of the write was kept."""

    status = 507


class DamagedError(StoreError):
    """One record cannot be read: another version wrote it, or it is damaged. The rest of the store can be."""


class NotReady(StoreError):
    """Another writer holds the store, or an index is still being made; `retry_after` is the seconds to wait."""

    def __init__(self, message: str, *, retry_after: float = 5.0, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.retry_after = retry_after


class UpstreamError(MillgateError):
    """A model, search or provider failed or answered nonsense."""

    status = 502


class UpstreamTimeout(UpstreamError):
    """A model, search or provider did not answer in time."""

    status = 504
    may_have_been_read = True
    """Whether what was asked may have reached it."""


class GuardError(MillgateError):
    """The guarded stream could not be brought to an end."""

    status = 502


class LoopError(GuardError):
    """The model kept looping after every rollback; `text` is the clean text so far."""

    def __init__(self, message: str, *, text: str = "", hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.text = text


class PartialCallError(LoopError):
    """A tool call or structured answer looped after a part of it was sent; it cannot go on, only be asked for again."""
