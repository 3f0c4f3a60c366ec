"""Parts: what a message brings into the window, piece by piece: its author, its text, how many images it holds."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from millgate.guard.calls import events_of, kind_of, plain_text
from millgate.guard.steps import as_json

IMAGE_TOKENS = 1_500  # about what providers charge for a screenshot
_IMAGES = frozenset({"image", "input_image", "image_url", "document", "input_file", "input_audio"})


class Part(NamedTuple):
    """A piece of a message; calls and results carry the id that joins them, calls their tool and arguments."""

    kind: str
    text: str
    id: str = ""
    tool: str = ""
    arguments: Any = None
    images: int = 0


def parts_of(message: dict[str, Any]) -> Iterator[Part]:
    """The pieces of a message of any of the three APIs."""
    role, content = message.get("role"), message.get("content")
    if role in ("system", "developer"):
        yield Part("system", _flat(content)[0])
        return
    if role == "assistant" and (words := plain_text(content)):
        yield Part("text", words)
    if thought := _thinking(message):
        yield Part("thinking", thought)
    was_human = False
    for event in events_of(message):
        if event.kind == "call":
            written = event.value if isinstance(event.value, str) else as_json(event.value)
            yield Part("call", written, event.id, event.name, event.value)
        elif event.kind == "result":
            text, images = _flat(event.value)
            yield Part("result", text, event.id, images=images)
        was_human |= event.kind == "human"
    if role == "user" and (words := plain_text(content)):
        yield Part("human" if was_human else "system", words)


def _thinking(message: dict[str, Any]) -> str:
    thought = message.get("reasoning_content") or message.get("reasoning")
    if isinstance(thought, str):
        return thought
    blocks = message.get("summary") if kind_of(message) == "reasoning" else message.get("content")
    if not isinstance(blocks, list):
        return ""
    names = ("thinking", "text") if kind_of(message) == "reasoning" else ("thinking",)
    found = (b.get(name) for b in blocks if isinstance(b, dict) for name in names)
    return "\n".join(text for text in found if isinstance(text, str))


def _flat(content: object) -> tuple[str, int]:
    """The text of content, and the number of its images."""
    if content is None or isinstance(content, str):
        return content or "", 0
    texts: list[str] = []
    images = 0
    for part in content if isinstance(content, list) else [content]:
        if isinstance(part, dict) and isinstance(text := part.get("text"), str):
            texts.append(text)
        elif isinstance(part, dict) and kind_of(part) in _IMAGES:
            images += 1
        else:
            texts.append(part if isinstance(part, str) else as_json(part))
    return "\n".join(texts), images
