"""Office: what a child process takes apart: Word, PowerPoint, Excel, OpenDocument, EPUB, PDF, mail and large pages.

Word files are read by mammoth and sheets by calamine, which are small, alive and without dependencies of weight.
Slides, OpenDocument texts and books are zip files of XML whose text needs a page of code. The readers for them that we
found bring an image library along (python-pptx), have had no release since 2020 (odfpy), or are under the AGPL
(ebooklib).
It runs with limits (child.py): an archive may unpack to any size. A broken, locked or scanned file is refused with its
reason. Each function is named by its kind, `read_KIND`.
"""

import logging
import posixpath
import re
from collections.abc import Iterator, Sequence
from io import BytesIO
from urllib.parse import unquote
from xml.etree.ElementTree import Element, ParseError, fromstring
from zipfile import BadZipFile, ZipFile

from millgate.ingest import html
from millgate.ingest.decode import Undecodable, decode
from millgate.ingest.mail import extract as read_eml

_DRAWING = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_SLIDE = "{http://schemas.openxmlformats.org/presentationml/2006/main}"
_TEXT = "{urn:oasis:names:tc:opendocument:xmlns:text:1.0}"
_TABLE = "{urn:oasis:names:tc:opendocument:xmlns:table:1.0}"
_SLIDE_NAME = re.compile(r"ppt/slides/slide(\d{1,6})\.xml")
_CELL_START, _CELL_END = re.compile(r"<(t[dh])><p>"), re.compile(r"</p></(t[dh])>")
_DEEPEST = 6  # levels of headings that Markdown has

__all__ = [
    "read_docx",
    "read_eml",
    "read_epub",
    "read_html",
    "read_opendocument",
    "read_pdf",
    "read_pptx",
    "read_sheets",
]


def read_docx(data: bytes) -> tuple[str, str]:
    """The text of a Word file, without its images."""
    import mammoth  # noqa: PLC0415  (only the child that meets such a file needs it)

    try:
        no_images = mammoth.images.img_element(lambda _: {})
        page = mammoth.convert_to_html(BytesIO(data), convert_image=no_images).value
    except (BadZipFile, KeyError, OSError, ParseError, ValueError) as error:
        raise Undecodable(f"broken Word file: {error}"[:200]) from error
    # each cell holds paragraphs, and a row must stay one line
    return html.extract(_CELL_START.sub(r"<\1>", _CELL_END.sub(r"</\1>", page)))


def read_pdf(data: bytes) -> tuple[str, str]:
    """The title and the text of all pages, a blank line between them."""
    import pypdf  # noqa: PLC0415  (as above)

    logging.getLogger("pypdf").setLevel(logging.CRITICAL)  # it narrates every repair
    try:
        reader = pypdf.PdfReader(BytesIO(data))
        locked = reader.is_encrypted and not reader.decrypt("")
        pages = [] if locked else [page.extract_text() for page in reader.pages]
        title = reader.metadata.title if not locked and reader.metadata else ""
    except Exception as error:  # a parser of hostile files raises anything at all
        raise Undecodable(f"broken PDF: {error}"[:200]) from error
    if locked:
        raise Undecodable("PDF is locked by a password")
    text = "\n\n".join(page.strip() for page in pages).replace("\0", "").strip()
    if not text:
        raise Undecodable("PDF without text (scanned?)")
    return str(title or "").strip(), text


def read_html(data: bytes) -> tuple[str, str]:
    """The title and the text of a page."""
    return html.extract(decode(data))


def read_sheets(data: bytes) -> tuple[str, str]:
    """The sheets of a workbook; a row reads as `column: value` lines, so that a chunk of rows can be read alone."""
    from python_calamine import CalamineError, CalamineWorkbook  # noqa: PLC0415  (as above)

    try:
        book = CalamineWorkbook.from_filelike(BytesIO(data))
        parts = [_sheet(name, book.get_sheet_by_name(name).to_python()) for name in book.sheet_names]  # fmt: skip
    except CalamineError as error:
        raise Undecodable(f"broken workbook: {error}"[:200]) from error
    return "", "\n\n".join(filter(None, parts))


def _sheet(name: str, rows: Sequence[Sequence[object]]) -> str:
    cells = [[_cell(value) for value in row] for row in rows]
    full = [row for row in cells if any(row)]
    if not full:
        return ""
    head, *body = full
    if not body:
        return f"# {name}\n\n{' | '.join(filter(None, head))}"
    shown = [
        "\n".join(f"{key}: {cell}" if key else cell for key, cell in zip(head, row, strict=False) if cell)
        for row in body
    ]  # fmt: skip
    return "\n\n".join([f"# {name}", *filter(None, shown)])


def _cell(value: object) -> str:
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return " ".join(str(value).split())


def read_pptx(data: bytes) -> tuple[str, str]:
    """The slides of a presentation, each under its title, with the speaker's notes."""
    with _open(data) as archive:
        found = [m for name in archive.namelist() if (m := _SLIDE_NAME.fullmatch(name))]
        numbered = sorted((int(match[1]), match[0]) for match in found)
        return "", "\n\n".join(_slide(archive, number, name) for number, name in numbered)


def _slide(archive: ZipFile, number: int, name: str) -> str:
    title, lines = "", list[str]()
    for shape in _parse(archive, name).iter():
        if shape.tag == f"{_DRAWING}tbl":
            rows = shape.iter(f"{_DRAWING}tr")
            lines.append("\n".join(_table_row(_paragraphs(c) for c in row.iter(f"{_DRAWING}tc")) for row in rows))  # fmt: skip
            continue
        if shape.tag != f"{_SLIDE}sp":
            continue
        kind = next(shape.iter(f"{_SLIDE}ph"), None)
        said = list(_paragraphs(shape))
        if not title and kind is not None and kind.get("type") in ("title", "ctrTitle"):
            title = " ".join(said)
        else:
            lines += said
    lines += _notes(archive, name)
    return "\n\n".join([f"## {title or f'Slide {number}'}", *lines])


def _notes(archive: ZipFile, slide: str) -> Iterator[str]:
    """What the speaker noted for a slide."""
    folder, _, name = slide.rpartition("/")
    links = f"{folder}/_rels/{name}.rels"
    if links not in archive.namelist():
        return
    for link in _parse(archive, links):
        target = posixpath.normpath(posixpath.join(folder, link.get("Target", "")))
        if "notesSlide" in target and target in archive.namelist():
            yield from (line for line in _paragraphs(_parse(archive, target)) if not line.isdigit())


def _paragraphs(part: Element) -> Iterator[str]:
    for paragraph in part.iter(f"{_DRAWING}p"):
        said = "".join(text.text or "" for text in paragraph.iter(f"{_DRAWING}t")).strip()
        if said:
            yield said


def read_opendocument(data: bytes) -> tuple[str, str]:
    """The text of an OpenDocument text or presentation."""
    with _open(data) as archive:
        return "", "\n\n".join(_odf_blocks(_parse(archive, "content.xml")))


def _odf_blocks(root: Element) -> Iterator[str]:
    """Headings, paragraphs and rows of tables, in reading order."""
    waiting = [root]
    while waiting:
        part = waiting.pop()
        if part.tag == f"{_TEXT}h":
            level = min(_DEEPEST, int(part.get(f"{_TEXT}outline-level", "1") or 1))
            yield f"{'#' * level} {_odf_text(part)}"
        elif part.tag == f"{_TEXT}p":
            if said := _odf_text(part):
                yield said
        elif part.tag == f"{_TABLE}table":
            yield "\n".join(
                _table_row([_odf_text(cell)] for cell in row.iter(f"{_TABLE}table-cell"))
                for row in part.iter(f"{_TABLE}table-row")
            )
        elif part.tag != f"{_TEXT}tracked-changes":
            waiting += reversed(list(part))


def _odf_text(part: Element) -> str:
    return " ".join("".join(part.itertext()).split())


def _table_row(cells: Iterator[Iterator[str] | list[str]] | Iterator[list[str]]) -> str:
    return f"| {' | '.join(' '.join(cell) for cell in cells)} |"


def read_epub(data: bytes) -> tuple[str, str]:
    """The chapters of a book, in the order of its spine."""
    with _open(data) as archive:
        container = _parse(archive, "META-INF/container.xml")
        package = next((e.get("full-path", "") for e in container.iter() if e.tag.endswith("}rootfile")), "")  # fmt: skip
        book = _parse(archive, package)
        named = {e.get("id"): e.get("href", "") for e in book.iter() if e.tag.endswith("}item")}
        title = next((e.text or "" for e in book.iter() if e.tag.endswith("}title")), "")
        spine = [named.get(e.get("idref"), "") for e in book.iter() if e.tag.endswith("}itemref")]
        folder = posixpath.dirname(package)
        paths = (
            posixpath.normpath(posixpath.join(folder, unquote(link))) for link in spine if link
        )
        chapters = (html.extract(decode(_member(archive, path)))[1] for path in paths)
        return title.strip(), "\n\n".join(filter(None, chapters))


def _open(data: bytes) -> ZipFile:
    try:
        return ZipFile(BytesIO(data))
    except (BadZipFile, OSError, ValueError) as error:
        raise Undecodable(f"broken archive: {error}"[:200]) from error


def _member(archive: ZipFile, name: str) -> bytes:
    try:
        return archive.read(name)
    except (BadZipFile, KeyError, OSError, RuntimeError, NotImplementedError) as error:
        raise Undecodable(f"broken archive, or one with a password: {error}"[:200]) from error


def _parse(archive: ZipFile, name: str) -> Element:
    try:
        return fromstring(_member(archive, name))  # noqa: S314  (expat bounds entities, the process the rest)
    except ParseError as error:
        raise Undecodable(f"broken {posixpath.basename(name)}: {error}"[:200]) from error
