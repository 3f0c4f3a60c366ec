"""Check: an error that names the field where a value has the wrong type."""

from collections.abc import Sequence
from typing import Final

from headgate.errors import InputError
from headgate.text.table import clip

_KINDS: Final = {str: "a text", int: "a whole number", bool: "true or false"}


def check_type(name: str, value: object, kind: type, *, optional: bool = False) -> None:
    """Refuse a value that is not of its kind; True is no number."""
    if optional and value is None:
        return
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        wanted = _KINDS.get(kind, f"a {kind.__name__}")
        raise InputError(f"{name} is {clip(repr(value), 80)}; it must be {wanted}")


def check_choice(name: str, value: object, choices: Sequence[str]) -> None:
    """Refuse a value that is not one of the choices."""
    if value not in choices:
        raise InputError(f"{name} is {clip(repr(value), 80)}; it must be {' or '.join(choices)}")


def unique_names(name: str, value: object) -> str | tuple[str, ...]:
    """One name, or several without repeats; anything else is refused."""
    if isinstance(value, str):
        given: tuple[object, ...] = (value,)
    elif isinstance(value, Sequence) and not isinstance(value, bytes) and value:
        given = tuple(value)
    else:
        raise InputError(f"{name} is {clip(repr(value), 80)}; it must be a name, or several")
    for one in given:
        check_type(name, one, str)
    names = tuple(dict.fromkeys(str(one) for one in given))
    return names[0] if len(names) == 1 else names
