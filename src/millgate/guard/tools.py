"""Tool-call circles: the same calls with the same results, again and again. `check` finds the one that goes on."""

from millgate.circles.finder import Circle, Tried, check

__all__ = ["Circle", "Tried", "check"]
