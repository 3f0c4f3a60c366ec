"""Wait for what happens in another thread or process."""

import time

MOST_S = 300  # ends what would hang; a machine may be very busy


def until(find):
    """What `find` gives, as soon as it is something."""
    last = time.monotonic() + MOST_S
    while not (found := find()):
        assert time.monotonic() < last, "it never came"
        time.sleep(0.01)
    return found
