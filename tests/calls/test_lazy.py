"""lazy_property: computed at its first use, kept, and never locked."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from tests.waiting import MOST_S

from millgate.calls.lazy import lazy_property


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
            both.wait(MOST_S)  # passes only when the other one computes too
            return 1

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(lambda one: one.value, (Slow(), Slow()))) == [1, 1]
