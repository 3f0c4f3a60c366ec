"""Keywords: a misspelt one is an error that names the right one.

Python says only that it did not expect the argument (from 3.13 on it names a close one). A person who guesses
`messages=` or `top_k=` learns here what the method takes.
"""

from collections.abc import Callable, Sequence
from functools import wraps
from inspect import Parameter, iscoroutinefunction, isfunction, signature
from sys import maxsize
from typing import Any, TypeVar

from millgate.errors import InputError
from millgate.text.meant import did_you_mean

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
    if any(each.kind is Parameter.VAR_KEYWORD for each in parameters):
        return method
    named, most = _count_positions(parameters)
    known = {each.name: None for each in parameters if each.kind is not Parameter.VAR_POSITIONAL}

    def check(args: tuple[object, ...], given: dict[str, object]) -> None:
        if len(args) > most:
            raise _too_many_without_name(method.__name__, most, named)
        if unknown := given.keys() - known.keys():
            raise _misspelt(method.__name__, min(unknown), list(known))

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


def _count_positions(parameters: Sequence[Parameter]) -> tuple[list[str], int]:
    """What a method takes by name alone, and how many values it takes without one."""
    named = [each.name for each in parameters if each.kind is Parameter.KEYWORD_ONLY]
    takes_any = any(each.kind is Parameter.VAR_POSITIONAL for each in parameters)
    return named, maxsize if takes_any else len(parameters) - len(named)


def _too_many_without_name(method: str, most: int, named: list[str]) -> InputError:
    takes = f"only {most}" if most else "no"
    hint = f"name what is given: {', '.join(f'{name}=...' for name in named)}" if named else ""
    return InputError(
        f"{method} takes {takes} {'value' if most == 1 else 'values'} without a name", hint=hint
    )


def _misspelt(method: str, name: str, known: list[str]) -> InputError:
    meant = did_you_mean(name, known) or f"it takes {', '.join(known) or 'none'}"
    return InputError(f"{method} takes no argument {name}", hint=meant)
