"""CountingDetector: loops that differ only in numbers that step evenly."""

import random

import pytest

from millgate.guard.detectors import CountingDetector, CountPolicy


def lines(count, template="{n}. The answer is the same as before.\n", start=1, step=1):
    return "".join(template.format(n=start + step * i) for i in range(count))


def feed(text, size=5, policy=None):
    detector = CountingDetector(policy)
    found = [detector.feed(text[i : i + size]) for i in range(0, len(text), size)]
    return next((stall for stall in found if stall), None)


class Eager(CountPolicy):
    def stall(self, period, kind):
        return 200


@pytest.mark.parametrize(
    "text",
    [
        lines(80),
        lines(80, start=1000, step=10),
        lines(80, "Row {n}, value 7: nothing to see.\n"),
        lines(600, "{n}\n"),
        lines(400, "{n}, "),
    ],
    ids=["list", "tens", "constant column", "bare lines", "bare list"],
)
def test_counting_on_and_on_is_warned_of(text):
    stall = feed(text)
    assert stall
    assert "counting" in stall.reason


def test_a_short_list_and_a_data_table_are_not_warned_of():
    rng = random.Random(3)
    table = "".join(f"| {rng.randrange(10**6)} | {rng.randrange(10**4)} |\n" for _ in range(200))
    assert feed(lines(15)) is None
    assert feed(table) is None


def test_plain_text_without_numbers_is_not_its_business():
    assert feed("the same again. " * 400) is None


def test_the_warning_does_not_depend_on_chunking():
    text = "Some words before it starts. " * 3 + lines(90, start=95)
    assert feed(text, size=1) == feed(text, size=64) == feed(text, size=10_000)


def test_it_sleeps_without_digits_and_wakes_again():
    words = "".join(f"{chr(97 + i % 26)}{chr(98 + i % 7)} words " for i in range(400))
    assert feed(lines(10) + words + lines(80)) is not None


def test_the_lengths_can_be_set():
    assert feed(lines(12), policy=Eager()) is not None
