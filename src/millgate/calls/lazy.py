"""Internal: a property that is computed once.

functools.cached_property has a lock in Python 3.11, one for all instances: a slow one would hold up the others, and a
fork may leave it locked for ever in the child. With `lazy_property` two threads may compute the same value at once, and
either is kept.
"""

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

T = TypeVar("T")


class lazy_property(Generic[T]):  # noqa: N801  it is used as a decorator
    """Decorates a method without arguments of a class that has a `__dict__`."""

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...

    @overload
    def __get__(self, instance: object, owner: type) -> T: ...

    def __get__(self, instance: object | None, owner: type) -> Self | T:
        if instance is None:
            return self
        value = self._compute(instance)
        instance.__dict__[self._name] = value  # read from there from now on
        return value
