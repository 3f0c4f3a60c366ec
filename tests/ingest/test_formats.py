"""What a folder holds beside text: office files, books, notebooks, mail and chats are read as their words."""

import json
from email.message import EmailMessage
from io import BytesIO
from zipfile import ZipFile

import pytest

from millgate.gateway import Millgate

WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
DRAWING = "http://schemas.openxmlformats.org/drawingml/2006/main"
SLIDE = "http://schemas.openxmlformats.org/presentationml/2006/main"
SHEET = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006"


def archive(**members):
    """A zip file; __ in a name stands for a slash and _dot_ for a dot."""
    made = BytesIO()
    with ZipFile(made, "w") as file:
        for name, text in members.items():
            file.writestr(name.replace("__", "/").replace("_dot_", "."), text)
    return made.getvalue()


def links(*targets):
    """The relationships of an office file: (kind, target)."""
    rows = "".join(
        f'<Relationship Id="r{n}" Type="{OFFICE}/{kind}" Target="{target}"/>'
        for n, (kind, target) in enumerate(targets)
    )
    return f'<Relationships xmlns="{PACKAGE}/relationships">{rows}</Relationships>'


def types(*parts):
    rows = "".join(f'<Override PartName="{name}" ContentType="{kind}"/>' for name, kind in parts)
    return f'<Types xmlns="{PACKAGE}/content-types">{rows}</Types>'


def docx():
    def paragraph(words, style=""):
        mark = f'<w:pPr><w:pStyle w:val="{style}"/></w:pPr>' if style else ""
        return f"<w:p>{mark}<w:r><w:t>{words}</w:t></w:r></w:p>"

    cells = "".join(f"<w:tc>{paragraph(word)}</w:tc>" for word in ("Lisbon", "61 euros"))
    body = (
        paragraph("Travel", "Heading1")
        + paragraph("Book early.")
        + f"<w:tbl><w:tr>{cells}</w:tr></w:tbl>"
    )
    styles = (
        '<w:style w:type="paragraph" w:styleId="Heading1"><w:name w:val="heading 1"/></w:style>'
    )
    members = {
        "[Content_Types].xml": types(),
        "_rels/.rels": links(("officeDocument", "word/document.xml")),
        "word/document.xml": f'<w:document xmlns:w="{WORD}"><w:body>{body}</w:body></w:document>',
        "word/styles.xml": f'<w:styles xmlns:w="{WORD}">{styles}</w:styles>',
        "word/_rels/document.xml.rels": links(("styles", "styles.xml")),
    }
    return archive(**members)


def pptx():
    def shape(words, kind):
        return (
            f'<p:sp><p:nvSpPr><p:nvPr><p:ph type="{kind}"/></p:nvPr></p:nvSpPr>'
            f"<p:txBody><a:p><a:r><a:t>{words}</a:t></a:r></a:p></p:txBody></p:sp>"
        )

    def slide(*shapes):
        return f'<p:sld xmlns:p="{SLIDE}" xmlns:a="{DRAWING}">{"".join(shapes)}</p:sld>'

    members = {
        "ppt/slides/slide10.xml": slide(shape("Ten", "title")),
        "ppt/slides/slide2.xml": slide(shape("Roadmap", "title"), shape("Ships in May.", "body")),
        "ppt/slides/_rels/slide2.xml.rels": links(("notesSlide", "../notesSlides/notesSlide1.xml")),
        "ppt/notesSlides/notesSlide1.xml": slide(shape("Mention the freeze.", "body")),
    }
    return archive(**members)


def xlsx():
    def row(*cells):
        shown = "".join(f'<c t="inlineStr"><is><t>{cell}</t></is></c>' for cell in cells)
        return f"<row>{shown}</row>"

    kind = "application/vnd.openxmlformats-officedocument.spreadsheetml"
    rows = row("Supplier", "Days") + row("Nordlicht", "21")
    members = {
        "[Content_Types].xml": types(
            ("/xl/workbook.xml", f"{kind}.sheet.main+xml"),
            ("/xl/sheet1.xml", f"{kind}.worksheet+xml"),
        ),
        "_rels/.rels": links(("officeDocument", "xl/workbook.xml")),
        "xl/workbook.xml": f'<workbook xmlns="{SHEET}" xmlns:r="{OFFICE}"><sheets><sheet name="Stock" sheetId="1" r:id="r0"/></sheets></workbook>',
        "xl/_rels/workbook.xml.rels": links(("worksheet", "sheet1.xml")),
        "xl/sheet1.xml": f'<worksheet xmlns="{SHEET}"><sheetData>{rows}</sheetData></worksheet>',
    }
    return archive(**members)


def odt():
    text, office = (
        "urn:oasis:names:tc:opendocument:xmlns:" + name for name in ("text:1.0", "office:1.0")
    )
    body = '<t:h t:outline-level="2">Warranty</t:h><t:p>Five <t:span>years</t:span>.</t:p>'
    content = f'<o:document-content xmlns:o="{office}" xmlns:t="{text}"><o:body>{body}</o:body></o:document-content>'
    return archive(content_dot_xml=content)


def epub():
    members = {
        "META-INF/container.xml": '<c xmlns="urn:x"><rootfile full-path="OPS/book.opf"/></c>',
        "OPS/book.opf": '<package xmlns="urn:o"><title>The Canal</title><item id="a" href="one.xhtml"/><item id="b" href="two.xhtml"/>'
        '<itemref idref="b"/><itemref idref="a"/></package>',
        "OPS/one.xhtml": "<html><body><h1>Last</h1><p>It ran dry.</p></body></html>",
        "OPS/two.xhtml": "<html><body><h1>First</h1><p>It was dug.</p></body></html>",
    }
    return archive(**members)


def eml():
    message = EmailMessage()
    message["From"], message["Subject"] = "Ana <ana@example.org>", "Key rotation"
    message.set_content("The key is rotated each quarter.")
    message.add_attachment(b"x", maintype="application", subtype="pdf", filename="keys.pdf")
    return bytes(message)


def notebook():
    image = "iVBORw0KGgo" * 200
    cells = [
        {"cell_type": "markdown", "source": ["# Churn\n", f"![](data:image/png;base64,{image})"]},
        {
            "cell_type": "code",
            "source": "fit()",
            "outputs": [
                {
                    "output_type": "execute_result",
                    "data": {"text/plain": "AUC 0.9", "image/png": image},
                },
                {"output_type": "stream", "text": ["\x1b[31mconverged\x1b[0m"]},
                {"output_type": "error", "ename": "ValueError", "evalue": "no rows"},
            ],
        },
    ]
    return json.dumps({"cells": cells, "metadata": {"language_info": {"name": "python"}}}).encode()


READ = {
    "a.docx": (docx, "# Travel\n\nBook early.\n\n| Lisbon | 61 euros |"),
    "a.pptx": (pptx, "## Roadmap\n\nShips in May.\n\nMention the freeze.\n\n## Ten"),
    "a.xlsx": (xlsx, "# Stock\n\nSupplier: Nordlicht\nDays: 21"),
    "a.odt": (odt, "## Warranty\n\nFive years."),
    "a.epub": (epub, "# First\n\nIt was dug.\n\n# Last\n\nIt ran dry."),
    "a.eml": (eml, "From: Ana <ana@example.org>\nSubject: Key rotation\nAttached: keys.pdf\n\nThe key is rotated each quarter."),
    "a.ipynb": (notebook, "# Churn\n![]((image))\n\n```python\nfit()\n```\n\n```\nAUC 0.9\n```\n\n```\nconverged\n```\n\n```\nValueError: no rows\n```"),
    "a.srt": (lambda: b"1\n00:00:01,000 --> 00:00:04,000\n<i>Welcome.</i>\n\n2\n00:00:05,000 --> 00:00:08,000\nBuilt in 1871.\n", "Welcome.\nBuilt in 1871."),
    "a.rst": (lambda: b"Guide\n=====\n\n.. _intro:\n\nIntro\n-----\n\nUse :func:`open <io.open>`.", "# Guide\n\n\n## Intro\n\nUse `open`."),
}  # fmt: skip


@pytest.fixture
def gate():
    with Millgate.open(":memory:") as gate:
        yield gate


@pytest.mark.parametrize("name", READ)
def test_a_file_is_read_as_its_words(gate, tmp_path, name):
    make, text = READ[name]
    (tmp_path / name).write_bytes(make())
    made = gate.add_files(tmp_path)
    assert made.skipped == ()
    assert [c.text for c in gate.document(str(tmp_path / name))] == [text]


@pytest.mark.parametrize(
    "name", ["a.docx", "a.pptx", "a.xlsx", "a.odt", "a.epub", "a.ods", "a.ipynb"]
)
@pytest.mark.parametrize(
    "data", [b"no archive", archive(x="y"), docx()[:-40]], ids=["text", "other", "cut"]
)
def test_a_broken_file_is_skipped_with_a_reason(gate, tmp_path, name, data):
    (tmp_path / name).write_bytes(data)
    made = gate.add_files(tmp_path)
    assert (made.documents, made.skips) == (0, 1)
    assert made.skipped[0].reason


@pytest.mark.slow
def test_an_archive_that_unpacks_to_gigabytes_is_skipped(gate, tmp_path):
    made = BytesIO()
    with ZipFile(made, "w", compression=8) as file, file.open("content.xml", "w") as member:
        for _ in range(1500):
            member.write(b" " * (1 << 20))
    (tmp_path / "bomb.odt").write_bytes(made.getvalue())
    assert "1024 MB" in gate.add_files(tmp_path).skipped[0].reason


def test_entities_that_multiply_are_refused(gate, tmp_path):
    head = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10 if n else "x" * 100}">' for n in range(9))
    (tmp_path / "laughs.odt").write_bytes(
        archive(content_dot_xml=f"<!DOCTYPE a [{head}]><a>&e8;</a>")
    )
    assert gate.add_files(tmp_path).skips == 1


def test_each_message_of_a_mailbox_is_a_document(gate, tmp_path):
    box = b"".join(b"From x Tue Feb 3 10:00:00 2026\n" + eml() + b"\n\n" for _ in range(2))
    (tmp_path / "a.mbox").write_bytes(box)
    assert gate.add_files(tmp_path).documents == 2


CHATS = {
    "export.jsonl": [{"messages": [{"role": "user", "content": f"Door {n}?"}, {"role": "assistant", "content": f"{n}{n}."}]} for n in range(2)],
    "claude_code.jsonl": [
        {"type": "summary", "summary": "s"},
        {"type": "user", "sessionId": "a", "message": {"role": "user", "content": "Door 0?"}},
        {"type": "user", "sessionId": "a", "message": {"role": "user", "content": [{"type": "tool_result", "content": "noise"}]}},
        {"type": "assistant", "sessionId": "a", "message": {"id": "1", "role": "assistant", "content": [{"type": "text", "text": "00."}]}},
    ],
    "codex.jsonl": [
        {"type": "response_item", "payload": {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}}
        for role, kind, text in (("user", "input_text", "Door 0?"), ("assistant", "output_text", "00."))
    ],
    "requests.jsonl": [
        {"model": "m", "messages": [{"role": "system", "content": "be kind"}, *turns]}
        for turns in ([{"role": "user", "content": "Door 0?"}], [{"role": "user", "content": "Door 0?"}, {"role": "assistant", "content": "00."}])
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", CHATS)
def test_a_conversation_is_a_document_of_what_was_said(gate, tmp_path, name):
    (tmp_path / name).write_text("\n".join(map(json.dumps, CHATS[name])))
    made = gate.add_files(tmp_path)
    assert made.skipped == ()
    id = str(tmp_path / name) + (":1" if name == "export.jsonl" else "")
    assert [c.text for c in gate.document(id)] == ["user: Door 0?\n\nassistant: 00."]


def test_what_chatgpt_and_claude_export_is_read(gate, tmp_path):
    node = {"message": {"author": {"role": "user"}, "content": {"parts": ["Door 0?"]}}}
    chats = [
        {"title": "Doors", "mapping": {"a": node}},
        {"name": "More", "chat_messages": [{"sender": "human", "text": "Door 1?"}]},
    ]
    (tmp_path / "conversations.json").write_text(json.dumps(chats))
    gate.add_files(tmp_path)
    shown = [c for n in (1, 2) for c in gate.document(f"{tmp_path}/conversations.json:{n}")]
    assert [(c.title, c.text) for c in shown] == [
        ("Doors", "user: Door 0?"),
        ("More", "user: Door 1?"),
    ]


def test_rows_with_a_text_stay_rows(gate, tmp_path):
    (tmp_path / "rows.jsonl").write_text(
        '{"id": "a", "text": "one", "messages": [{"role": "user", "content": "x"}]}'
    )
    gate.add_files(tmp_path)
    assert gate.document("a")[0].text == "one"


PAGE = """<html><body><div class="navheader"><table><tr><td>Prev</td><td>Up</td><td>Next</td></tr></table></div>
<nav>Home</nav><h1>Sizes<a class="headerlink" href="#s">¶</a></h1><ul><li><p>small</p></li></ul>
<button>Copy</button><div aria-hidden="true"><div>hidden</div></div><p>The default is 1GB.</p>
<div role="navigation">Next</div></body></html>"""


def test_a_page_loses_its_navigation_and_keeps_the_rest(gate, tmp_path):
    (tmp_path / "a.html").write_text(PAGE)
    gate.add_files(tmp_path)
    assert [c.text for c in gate.document(f"{tmp_path}/a.html")] == [
        "# Sizes\n\n- small\n\nThe default is 1GB."
    ]


@pytest.mark.parametrize("page", ["<nav>All there is.</nav>", "<p>One</p><nav>Two<p>Three"])
def test_a_page_that_is_navigation_or_never_ends_it_keeps_it(gate, tmp_path, page):
    (tmp_path / "a.html").write_text(page)
    gate.add_files(tmp_path)
    words = "".join(c.text for c in gate.document(f"{tmp_path}/a.html"))
    assert all(
        word in words
        for word in page.replace("<", " <").replace(">", "> ").split()
        if "<" not in word
    )
