"""Notebook: the cells of a Jupyter notebook and the text they printed, as Markdown; never an image."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from millgate.ingest.decode import Undecodable
from millgate.text.bounded_json import describe_json_error, loads

_IMAGE = re.compile(r"data:[\w/+.-]{1,60};base64,[A-Za-z0-9+/=\s]+")
_BASE64 = re.compile(r"[A-Za-z0-9+/=]{500,}")  # no word of any language is as long
_COLOR = re.compile(r"\x1b\[[0-9;]{0,20}m")


def extract(data: bytes) -> str:
    """The text of a notebook; Undecodable with the reason if it is none."""
    try:
        value = loads(data)
    except orjson.JSONDecodeError as error:
        raise Undecodable(f"not valid JSON: {describe_json_error(error)}") from error
    cells = value.get("cells") if isinstance(value, Mapping) else None
    if not isinstance(cells, list):
        raise Undecodable("not a notebook: it has no cells")
    language = _language(value)
    parts = [part for cell in cells if isinstance(cell, Mapping) for part in _cell(cell, language)]
    return "\n\n".join(filter(None, parts))


def _language(book: Mapping[str, Any]) -> str:
    metadata = book.get("metadata")
    info = metadata.get("language_info") if isinstance(metadata, Mapping) else None
    name = info.get("name") if isinstance(info, Mapping) else ""
    return name if isinstance(name, str) and name.isalnum() else ""


def _cell(cell: Mapping[str, Any], language: str) -> Iterator[str]:
    source = _text(cell.get("source"))
    if cell.get("cell_type") != "code":
        yield source
        return
    if source:
        yield f"```{language}\n{source}\n```"
    outputs = cell.get("outputs")
    for output in outputs if isinstance(outputs, list) else ():
        if isinstance(output, Mapping) and (printed := _output(output)):
            yield f"```\n{printed}\n```"


def _output(output: Mapping[str, Any]) -> str:
    if output.get("output_type") == "error":
        return f"{_text(output.get('ename'))}: {_text(output.get('evalue'))}"
    data = output.get("data")
    return _text(data.get("text/plain") if isinstance(data, Mapping) else output.get("text"))


def _text(value: object) -> str:
    """A text, which a notebook may write as a list of lines; without what is no text."""
    lines = value if isinstance(value, list) else [value]
    text = "".join(line for line in lines if isinstance(line, str))
    return _BASE64.sub("(data)", _IMAGE.sub("(image)", _COLOR.sub("", text))).strip("\n")
