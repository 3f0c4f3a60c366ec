"""Places: the way to a text in a message, and the message with another text there.

A place is a row of keys and indexes. `PARSED` among them says that what stands there is JSON in a text. What does not
lie on the way stays the same object.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

Place = tuple[str | int, ...]
PARSED = "\0json"


def value_at(message: Any, place: Place) -> Any:  # noqa: ANN401  any JSON
    """What stands at a place of a message."""
    for step in place:
        message = orjson.loads(message) if step == PARSED else message[step]
    return message


def text_at(message: object, place: Place) -> str:
    """The text at a place of a message."""
    return str(value_at(message, place))


def replace_text(message: Any, place: Place, text: str) -> Any:  # noqa: ANN401  any JSON
    """The message with another text at a place."""
    if not place:
        return text
    copy: Any = dict(message) if isinstance(message, Mapping) else list(message)
    copy[place[0]] = replace_text(message[place[0]], place[1:], text)
    return copy


def text_block(text: str, beside: Sequence[Any]) -> dict[str, str]:
    """A text as a block of a message, of the type that the blocks beside it have."""
    kinds = {str(block.get("type")) for block in beside if isinstance(block, Mapping)}
    of_responses = any(kind.startswith("input_") for kind in kinds - {"input_audio"})
    return {"type": "input_text" if of_responses else "text", "text": text}
