"""Mail: a message to text with its subject and who wrote it; attachments are named and not read."""

from collections.abc import Iterator
from email import message_from_bytes, policy
from email.message import EmailMessage
from pathlib import Path

from millgate.ingest import html

MAX_MESSAGE = 20 << 20  # bytes; providers send no larger one with its attachments
_HEADERS = ("From", "To", "Cc", "Date", "Subject")


def extract(data: bytes) -> tuple[str, str]:
    """The subject of a message, and its head and body as text."""
    message = message_from_bytes(data, policy=policy.default)
    assert isinstance(message, EmailMessage)
    head = [f"{name}: {_header(message, name)}" for name in _HEADERS if _header(message, name)]
    files = [part.get_filename() for part in message.iter_attachments()]
    named = [f"Attached: {', '.join(filter(None, files))}"] if any(files) else []
    text = "\n\n".join(filter(None, ["\n".join([*head, *named]), _body(message)]))
    return _header(message, "Subject"), text.replace("\0", "").encode(errors="replace").decode()


def _header(message: EmailMessage, name: str) -> str:
    try:
        return " ".join(str(message.get(name, "")).split())
    except (
        IndexError,
        LookupError,
        TypeError,
        ValueError,
    ):  # a header that the library cannot parse
        return ""


def _body(message: EmailMessage) -> str:
    part = message.get_body(("plain", "html"))
    if part is None:
        return ""
    try:
        text = str(part.get_content())
    except (LookupError, ValueError):  # an encoding that nobody knows
        payload = part.get_payload(decode=True)
        text = payload.decode("latin-1") if isinstance(payload, bytes) else ""
    return html.extract(text)[1] if part.get_content_subtype() == "html" else text.strip()


def split_mbox(path: Path) -> Iterator[tuple[int, bytes]]:
    """The messages of a mailbox, each with the number of its first line; one that is too large is cut there."""
    lines: list[bytes] = []
    first, size, blank = 1, 0, True
    with path.open("rb") as file:
        for number, line in enumerate(iter(lambda: file.readline(MAX_MESSAGE), b""), 1):
            if blank and line.startswith(b"From "):
                if lines:
                    yield first, b"".join(lines)
                lines, first, size = [], number, 0
            elif size < MAX_MESSAGE:
                lines.append(line)
                size += len(line)
            blank = not line.strip()
    if lines:
        yield first, b"".join(lines)
