"""Codec: stored values to JSON and back.

orjson writes, pydantic reads and checks. Reading ignores fields that a newer version added and gives
missing fields their default, so that records outlive releases.
"""

import logging
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import orjson
from pydantic import TypeAdapter, ValidationError

from millgate.errors import DamagedError, InputError

T = TypeVar("T")
LOGGER = logging.getLogger("millgate.store")

_OPTIONS = orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY
_ADAPTERS: dict[type, TypeAdapter[Any]] = {}


def encode(value: object) -> str:
    """A value of `millgate.types`, or metadata, as JSON text."""
    try:
        return orjson.dumps(value, default=_to_plain, option=_OPTIONS).decode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(
            f"a value cannot be stored as JSON: {error}",
            hint="use texts, numbers, lists and mappings in metadata",
        ) from error


def decode(kind: type[T], text: str | bytes) -> T:
    """The value that `encode` wrote."""
    try:
        return _adapter(kind).validate_json(text)
    except (ValidationError, InputError) as error:
        why = error.errors()[0]["msg"] if isinstance(error, ValidationError) else error.message
        raise DamagedError(
            f"a stored {kind.__name__} cannot be read: {why}",
            hint="it was written by another version, or damaged",
        ) from error


def decode_or_skip(kind: type[T], id: str, text: str | bytes) -> T | None:
    """One of many values that are read together; one that cannot be read is named in the log, and None."""
    try:
        return decode(kind, text)
    except DamagedError as error:
        LOGGER.warning("left out %s %s: %s", kind.__name__.lower(), id, error)
        return None


def decode_all(kind: type[T], rows: Iterable[tuple[str, str]]) -> list[T]:
    """The values of rows (id, text); those that cannot be read are left out, and named in the log."""
    found = (decode_or_skip(kind, id, text) for id, text in rows)
    return [value for value in found if value is not None]


def decode_metadata(text: str) -> dict[str, Any]:
    """Metadata that `encode` wrote; an empty text means none, and so does one that cannot be read."""
    try:
        found: dict[str, Any] = orjson.loads(text) if text else {}
    except orjson.JSONDecodeError as error:
        LOGGER.warning("left out the metadata of a chunk or document: %s", error)
        return {}
    return found


def _to_plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


def _adapter(kind: type[T]) -> TypeAdapter[T]:
    """The pydantic reader of one type, built once: building takes milliseconds, reading microseconds."""
    if kind not in _ADAPTERS:
        _ADAPTERS[kind] = TypeAdapter(kind)
    return _ADAPTERS[kind]
