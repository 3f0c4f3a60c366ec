"""What folding would have saved in recorded sessions, in tokens and with the prices of the provider's cache."""

import json

import pytest

from millgate.sessions.xray.page import page
from millgate.sessions.xray.session import analyze
from millgate.sessions.xray.summary import describe_fold
from millgate.spending.prices import Price, Prices

CODE = "\n".join(f"    value_{n} = load({n * 7})" for n in range(60))
PRICES = Prices({"m": Price(input=10, output=0, cached=1, written=100)})


def line(kind, **message):
    return {"type": kind, "sessionId": "s", "message": {"role": kind, **message}}


def read(number, *, read_tokens=0):
    """A call that reads a file, and its result."""
    usage = {"input_tokens": 1, "output_tokens": 1, "cache_read_input_tokens": read_tokens, "cache_creation_input_tokens": 9}  # fmt: skip
    call = {"type": "tool_use", "id": f"toolu_{number}", "name": "Read", "input": {"file_path": "a.py"}}  # fmt: skip
    result = {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": CODE}
    return [
        line("assistant", id=f"msg_{number}", model="m", usage=usage, content=[call]),
        line("user", content=[result]),
    ]


def xray(tmp_path, *lines):
    path = tmp_path / "s.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in lines))
    return analyze([path], PRICES)


def test_new_text_is_priced_as_written_and_older_text_as_read(tmp_path):
    ask = line("user", content="Read a.py.")
    calls = [read(1), read(2, read_tokens=100), read(3, read_tokens=100), read(4, read_tokens=100)]
    found = xray(tmp_path, ask, *(one for call in calls for one in call))
    saved = found.fold
    assert (saved.folds, saved.stops) == (1, 1)  # the third reading asks for what was folded
    assert saved.tokens > 500
    assert saved.input == 2 * saved.tokens
    assert saved.cost == pytest.approx(saved.tokens * (100 + 1) / 1e6)
    assert "could have been folded into 1 pointer: about $" in describe_fold(found)
    assert "could have been folded into 1 pointer" in page(found)


def test_nothing_is_folded_over_a_compaction(tmp_path):
    ask = line("user", content="Read a.py.")
    compacted = [
        {"type": "system", "subtype": "compact_boundary", "sessionId": "s"},
        {**line("user", content="So far."), "isCompactSummary": True},
    ]
    found = xray(tmp_path, ask, *read(1), *compacted, *read(2, read_tokens=100), *read(3))
    assert found.fold.folds == 0
