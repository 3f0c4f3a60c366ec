"""An error of one row names the column in that row and no line: the file's line is named by whoever reads the file."""

import json

import orjson
import pytest

from millgate.text.bounded_json import describe_json_error


@pytest.mark.parametrize("parse", [orjson.loads, json.loads])
@pytest.mark.parametrize(("row", "column"), [('{"a" 1}\n', 6), ('{"a": 1} x\n', 10)])
def test_the_column_is_counted_from_one(parse, row, column):
    with pytest.raises(json.JSONDecodeError) as caught:
        parse(row)
    assert describe_json_error(caught.value).endswith(f" at column {column}")
    assert "line" not in describe_json_error(caught.value)


def test_a_row_that_ends_too_early_is_not_said_to_fail_in_the_line_after_it():
    with pytest.raises(json.JSONDecodeError, match="line 2") as caught:
        orjson.loads(b'{"a": 1\n')
    assert describe_json_error(caught.value) == "unexpected end of data at column 9"
