"""Check: an error that names the field where a value has the wrong type, and the right name of a misspelt keyword.

Python says only that it did not expect an argument (from 3.13 on it names a close one). A person who guesses
`messages=` or `top_k=` learns here what the method takes.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from inspect import Parameter, iscoroutinefunction, isfunction, signature
from sys import maxsize
from typing import Any, Final, TypeVar

from millgate.errors import InputError, LimitError
from millgate.text.meant import did_you_mean
from millgate.text.table import clip

MAX_INT: Final = 2**63 - 1  # what a column of a database and a JSON reader of any language hold
_KINDS: Final = {str: "a text", int: "a whole number", bool: "true or false"}


def check_type(name: str, value: object, kind: type, *, optional: bool = False) -> None:
    """Refuse a value that is not of its kind; True is not a number, and a number of more than 63 bits is too large."""
    if optional and value is None:
        return
    if isinstance(value, int) and abs(value) > MAX_INT:
        raise InputError(f"{name} is too large; it must be {MAX_INT} at most")
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        wanted = _KINDS.get(kind, f"a {kind.__name__}")
        raise InputError(f"{name} is {clip(repr(value), 80)}; it must be {wanted}")


def check_count(name: str, value: int) -> None:
    """Refuse what is not a whole number of 0 or more."""
    check_type(name, value, int)
    if value < 0:
        raise InputError(f"{name} is {value}; it must be 0 or more")


def check_length(name: str, value: str, most: int) -> None:
    """Refuse a text that is longer than its field may be."""
    if len(value) > most:
        raise LimitError(
            f"{name} has {len(value):,} characters; it may have {most:,}", hint="shorten it"
        )


def check_several(name: str, value: object) -> None:
    """Refuse one text where several are taken: it would be read as its letters."""
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise InputError(
            f"{name} is {clip(repr(value), 80)}; it must be a list of texts",
            hint=f"put the one into a list: {name}=[...]",
        )


def check_choice(name: str, value: object, choices: Sequence[str]) -> None:
    """Refuse a value that is not one of the choices."""
    if value not in choices:
        raise InputError(f"{name} is {clip(repr(value), 80)}; it must be {' or '.join(choices)}")


def check_unit(name: str, value: object) -> None:
    """Refuse what is not a number between 0 and 1."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise InputError(f"{name} is {clip(repr(value), 80)}; it must be a number from 0 to 1")


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


T = TypeVar("T")


def explain_all_keywords(cls: type[T]) -> type[T]:
    """The class, whose public methods each refuse an unknown keyword with InputError."""
    for name, method in list(vars(cls).items()):
        if isfunction(method) and not name.startswith("_"):
            setattr(cls, name, explain_keywords(method))
    return cls


def explain_keywords(method: Callable[..., Any]) -> Callable[..., Any]:
    """The method, which refuses an unknown keyword with InputError and names those that it takes."""
    parameters = list(signature(method).parameters.values())[1:]
    kinds = {each.kind for each in parameters}
    if Parameter.VAR_KEYWORD in kinds:
        return method
    named = [each.name for each in parameters if each.kind is Parameter.KEYWORD_ONLY]
    most = maxsize if Parameter.VAR_POSITIONAL in kinds else len(parameters) - len(named)
    known = [each.name for each in parameters if each.kind is not Parameter.VAR_POSITIONAL]

    def check(args: tuple[object, ...], given: dict[str, object]) -> None:
        if len(args) > most:
            takes = f"only {most} value{'' if most == 1 else 's'}" if most else "no values"
            hint = f"name what is given: {', '.join(f'{name}=...' for name in named)}"
            raise InputError(
                f"{method.__name__} takes {takes} without a name", hint=hint if named else ""
            )
        if unknown := given.keys() - set(known):
            name = min(unknown)
            hint = did_you_mean(name, known) or f"it takes {', '.join(known) or 'none'}"
            raise InputError(f"{method.__name__} takes no argument {name}", hint=hint)

    if iscoroutinefunction(method):

        @wraps(method)
        async def call_async(self: object, /, *args: object, **given: object) -> object:
            check(args, given)
            return await method(self, *args, **given)

        return call_async

    @wraps(method)
    def call(self: object, /, *args: object, **given: object) -> object:
        check(args, given)
        return method(self, *args, **given)

    return call
