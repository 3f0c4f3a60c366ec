"""Data as JSON responses."""

import json
from dataclasses import dataclass

from millgate.service.routes.api import respond


@dataclass(frozen=True)
class Row:
    text: str


def test_half_a_surrogate_pair_is_replaced_and_not_a_failure():
    sent = respond({"\ud800": [("a\udfff", 1.5)], "row": Row("漢\ud83d")}).body
    assert json.loads(sent) == {"\ufffd": [["a\ufffd", 1.5]], "row": {"text": "漢\ufffd"}}


def test_a_whole_pair_stays():
    assert json.loads(respond(["😀"]).body) == ["😀"]
