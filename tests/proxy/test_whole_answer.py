"""A whole answer through the guard: long texts in slices, and what is no answer by its beginning."""

import pytest

from millgate.errors import UpstreamError
from millgate.guard.channels import CONTENT, TOOL, Piece
from millgate.service.proxy.answer import SLICE, _parse, _slices


@pytest.mark.parametrize(("size", "sizes"), [(SLICE, [SLICE]), (SLICE + 1, [SLICE, 1]), (3 * SLICE, [SLICE] * 3)])  # fmt: skip
def test_a_long_text_is_fed_in_slices(size, sizes):
    text = "".join(chr(97 + n % 26) for n in range(size))
    parts = list(_slices(Piece(CONTENT, text)))
    assert [len(part.text) for part in parts] == sizes
    assert "".join(part.text for part in parts) == text


def test_a_tool_call_stays_whole():
    assert len(list(_slices(Piece(TOOL, "x" * (2 * SLICE))))) == 1


@pytest.mark.parametrize(("body", "said"), [(b"", "not JSON: (nothing)"), (b"<html>", "not JSON: <html>")])  # fmt: skip
def test_what_is_no_json_is_shown_by_its_beginning(body, said):
    with pytest.raises(UpstreamError) as raised:
        _parse(body)
    assert said in raised.value.message


def test_what_is_no_object_passes_as_it_is():
    assert _parse(b"[1]") is None
    assert _parse(b'{"a": 1}') == {"a": 1}
