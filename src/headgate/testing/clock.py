"""FixedClock: time that stands still until a test moves it."""


class FixedClock:
    """A clock for tests: returns `now`, and moves only by `advance`."""

    def __init__(self, now: float = 1_750_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> float:
        """Let time pass; the new now."""
        self.now += seconds
        return self.now
