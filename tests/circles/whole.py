"""A result masked as a whole: what comparing only the differences must agree with."""

from millgate.circles.masks import LONG_TEXT, _mask_parts, _split


def normalize(text):
    """Equal for results that are the same, drawn ids aside."""
    return [text] if len(text) > LONG_TEXT else _mask_parts(_split(text))
