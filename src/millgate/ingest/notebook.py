"""Notebook: the cells of a Jupyter notebook and the text they printed, as Markdown; never an image."""

import re
from collections.abc import Iterator, Mapping

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
    if not isinstance(value, Mapping) or not isinstance(value.get("cells"), list):
        raise Undecodable("not a notebook: it has no cells")
    language = ""
    match value:
        case {"metadata": {"language_info": {"name": str(name)}}} if name.isalnum():
            language = name
    return "\n\n".join(
        filter(None, (part for cell in value["cells"] for part in _cell(cell, language)))
    )


def _cell(cell: object, language: str) -> Iterator[str]:
    match cell:
        case {"cell_type": "code", **rest}:
            if source := _text(rest.get("source")):
                yield f"```{language}\n{source}\n```"
            outputs = rest.get("outputs")
            for output in outputs if isinstance(outputs, list) else ():
                if printed := _output(output):
                    yield f"```\n{printed}\n```"
        case {"source": source}:
            yield _text(source)


def _output(output: object) -> str:
    match output:
        case {"output_type": "error", **error}:
            return f"{_text(error.get('ename'))}: {_text(error.get('evalue'))}"
        case {"data": {**data}}:
            return _text(data.get("text/plain"))
        case {"text": text}:
            return _text(text)
    return ""


def _text(value: object) -> str:
    """A text, which a notebook may write as a list of lines; without what is no text."""
    lines = value if isinstance(value, list) else [value]
    text = "".join(line for line in lines if isinstance(line, str))
    return _BASE64.sub("(data)", _IMAGE.sub("(image)", _COLOR.sub("", text))).strip("\n")
