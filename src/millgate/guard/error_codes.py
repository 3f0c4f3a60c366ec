"""Error codes: what each error of ours is called in the words of these APIs, and its status there."""

from millgate.errors import (
    AccessError,
    BusyError,
    ConfigError,
    GuardError,
    InputError,
    LimitError,
    MillgateError,
    NotFound,
    PausedError,
    ScopeError,
    StoreError,
)

_CODES: tuple[tuple[type[MillgateError], str, str], ...] = (
    (LimitError, "invalid_request_error", "too_large"),
    (NotFound, "invalid_request_error", "model_not_found"),
    (InputError, "invalid_request_error", "invalid_request"),
    (ScopeError, "permission_error", "insufficient_scope"),
    (AccessError, "authentication_error", "invalid_api_key"),
    (PausedError, "insufficient_quota", "paused"),
    (BusyError, "rate_limit_error", "rate_limit_exceeded"),
    (StoreError, "server_error", "not_available"),
    (ConfigError, "server_error", "not_configured"),
    (GuardError, "upstream_error", "model_loop"),
    (MillgateError, "upstream_error", "upstream_failed"),
)


def status_of(error: MillgateError) -> int:
    """The status that clients of these APIs expect."""
    if isinstance(error, ConfigError):
        return 503
    return 400 if error.status == 422 else error.status


def type_and_code(error: MillgateError) -> tuple[str, str]:
    """The `type` and the `code` of an error as OpenAI names them."""
    return next((kind, code) for cls, kind, code in _CODES if isinstance(error, cls))


def openai_error(error: MillgateError, param: str | None) -> dict[str, object]:
    """{"error": {message, type, param, code}}."""
    kind, code = type_and_code(error)
    return {"error": {"message": str(error), "type": kind, "param": param, "code": code}}
