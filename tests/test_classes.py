"""lazy_property: computed at its first use, kept, and never locked. fast_init: what dataclasses make, and faster."""

import pickle
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import FrozenInstanceError, dataclass, field, replace
from inspect import signature
from threading import Barrier

import pytest

from headgate.classes import fast_init, lazy_property


class Circle:
    def __init__(self, radius):
        self.radius, self.computed = radius, 0

    @lazy_property
    def area(self):
        """The area."""
        self.computed += 1
        return 3 * self.radius**2


def test_a_value_is_computed_once_for_each_instance():
    small, large = Circle(1), Circle(2)
    assert (small.area, small.area, large.area) == (3, 3, 12)
    assert (small.computed, large.computed) == (1, 1)
    assert Circle.area.__doc__ == "The area."


def test_threads_compute_at_the_same_time_and_none_waits_for_another():
    both = Barrier(2)

    class Slow:
        @lazy_property
        def value(self):
            both.wait(10)  # passes only when the other one computes too
            return 1

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(lambda one: one.value, (Slow(), Slow()))) == [1, 1]


@fast_init
@dataclass(frozen=True, slots=True)
class Parcel:
    name: str
    weight: float = 1.5
    marks: Mapping[str, int] = field(default_factory=dict)
    note: str | None = None


def test_an_init_takes_what_that_of_the_dataclass_takes():
    parcel = Parcel("a", marks={"b": 1})
    assert (parcel.name, parcel.weight, parcel.marks, parcel.note) == ("a", 1.5, {"b": 1}, None)
    assert Parcel("a", 2.0, {}, "n") == Parcel(note="n", weight=2.0, name="a")
    assert Parcel("a").marks is not Parcel("a").marks
    assert replace(parcel, weight=3.0) == Parcel("a", 3.0, {"b": 1})
    assert pickle.loads(pickle.dumps(parcel)) == parcel
    assert "marks: collections.abc.Mapping[str, int] = <factory>, note" in str(signature(Parcel))


def test_a_wrong_argument_is_named_and_nothing_can_be_set_later():
    with pytest.raises(TypeError, match="name"):
        Parcel()
    with pytest.raises(TypeError, match="color"):
        Parcel("a", color="red")
    with pytest.raises(FrozenInstanceError):
        Parcel("a").name = "b"
