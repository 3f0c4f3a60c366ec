"""Runs: where a text repeats itself, one period p apart: text[i] = text[i - p]. Every comparison is of slices, which is
fast.
"""

LEAP = 64  # characters compared at once at first


def shortest_unit(unit: str) -> int:
    """Length of the shortest unit that this one is whole copies of."""
    return (unit + unit).find(unit, 1)


def repeats(text: str, at: int, period: int, size: int) -> bool:
    """Whether the `size` characters before `at` equal those one period earlier."""
    start = at - size - period
    return start >= 0 and text[at - size : at] == text[start : at - period]


def run_start(text: str, at: int, period: int, floor: int) -> int:
    """Where the run of this period that holds at `at` begins, walking back by blocks, then by characters."""
    while at - 64 - period >= floor and repeats(text, at, period, 64):
        at -= 64
    while at - period > floor and text[at - 1] == text[at - 1 - period]:
        at -= 1
    return at - period


def common_prefix(left: str, right: str) -> int:
    """How many characters two texts have in common at their beginning: a leap that grows, then bisection."""
    if left == right:
        return len(left)
    at, step, most = 0, LEAP, min(len(left), len(right))
    while at < most and left[at : at + step] == right[at : at + step]:
        at += step
        step *= 4
    end = min(at + step, most)
    while at < end:
        middle = (at + end + 1) // 2
        if left[at:middle] == right[at:middle]:
            at = middle
        else:
            end = middle - 1
    return min(at, most)
