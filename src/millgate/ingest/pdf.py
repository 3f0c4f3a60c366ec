"""PDF to text, by pypdf. A broken, locked or scanned file is refused with its reason."""

import logging
from io import BytesIO

import pypdf


class UnreadablePdf(ValueError):
    """A PDF that gives no text; the message is the reason."""


def extract(data: bytes) -> tuple[str, str]:
    """The title and the text of all pages, a blank line between them."""
    logging.getLogger("pypdf").setLevel(logging.CRITICAL)  # it narrates every repair
    try:
        reader = pypdf.PdfReader(BytesIO(data))
        locked = reader.is_encrypted and not reader.decrypt("")
        pages = [] if locked else [page.extract_text() for page in reader.pages]
        title = reader.metadata.title if not locked and reader.metadata else ""
    except Exception as error:  # a parser of hostile files raises anything at all
        raise UnreadablePdf(f"broken PDF: {error}"[:200]) from error
    if locked:
        raise UnreadablePdf("PDF is locked by a password")
    text = "\n\n".join(page.strip() for page in pages).replace("\0", "").strip()
    if not text:
        raise UnreadablePdf("PDF without text (scanned?)")
    clean = text.encode(errors="replace").decode()
    return str(title or "").strip(), clean
