"""What two texts have in common at their beginning."""

BLOCK = 64  # characters compared at first


def common_prefix(left: str, right: str) -> int:
    """How many characters two texts have in common at their beginning: a leap that grows, then bisection."""
    if left == right:
        return len(left)
    at, step, most = 0, BLOCK, min(len(left), len(right))
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
