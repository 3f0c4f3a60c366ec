"""Classes: a property that is computed once, and an `__init__` that takes a third of the time.

functools.cached_property has a lock in Python 3.11, one for all instances: a slow one would hold up the others, and a
fork may leave it locked for ever in the child. With `lazy_property` two threads may compute the same value at once, and
either is kept.

The `__init__` of a frozen dataclass sets its fields by name, through `object.__setattr__`. A request makes hundreds of
chunks, notes and candidates, and spent a twentieth of its CPU time there; `fast_init` fills the slots themselves.
"""

from collections.abc import Callable
from dataclasses import MISSING, fields
from inspect import signature
from typing import Any, Generic, Self, TypeVar, overload

C = TypeVar("C", bound=type[Any])
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


def fast_init(cls: C) -> C:
    """Decorates a frozen dataclass with slots."""
    known: dict[str, Any] = {"MISSING": MISSING}
    head, body = ["self"], []
    for field in fields(cls):
        name = value = field.name
        known[f"set_{name}"] = getattr(cls, name).__set__
        if field.default_factory is not MISSING:
            known[f"new_{name}"] = field.default_factory
            value = f"new_{name}() if {name} is MISSING else {name}"
        known[f"default_{name}"] = field.default
        optional = field.default is not MISSING or value != name
        head.append(f"{name}=default_{name}" if optional else name)
        body.append(f"    set_{name}(self, {value})")
    exec("\n".join([f"def __init__({', '.join(head)}):", *body]), known)  # noqa: S102  as dataclasses do
    known["__init__"].__annotations__ = cls.__init__.__annotations__
    known["__init__"].__signature__ = signature(cls.__init__)  # as `help` shows it
    cls.__init__ = known["__init__"]
    return cls
