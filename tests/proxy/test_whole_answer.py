"""A whole answer through the guard: what is no answer is told by its beginning."""

import pytest

from millgate.errors import UpstreamError
from millgate.service.proxy.answer import _parse


@pytest.mark.parametrize(("body", "said"), [(b"", "not JSON: (nothing)"), (b"<html>", "not JSON: <html>")])  # fmt: skip
def test_what_is_no_json_is_shown_by_its_beginning(body, said):
    with pytest.raises(UpstreamError) as raised:
        _parse(body)
    assert said in raised.value.message


def test_what_is_no_object_passes_as_it_is():
    assert _parse(b"[1]") is None
    assert _parse(b'{"a": 1}') == {"a": 1}
