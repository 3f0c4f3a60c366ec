"""CSV: as Python's csv module reads it, and cells of any length."""

import csv
import random
from io import StringIO

import pytest

from millgate.text import csv_rows
from millgate.text.csv_rows import split_csv

LONG = 'long, "quoted" text\n' * 50_000  # a million characters


def rows(text, delimiter=","):
    return list(split_csv(StringIO(text, newline=""), delimiter=delimiter))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a,b\r\nc,d", [(1, ["a", "b"]), (2, ["c", "d"])]),
        ('"a, b","say ""no"""\n', [(1, ["a, b", 'say "no"'])]),
        ('"two\nlines",b\nc,d\n', [(2, ["two\nlines", "b"]), (3, ["c", "d"])]),
        ('5" pipe,"x"y,""\n', [(1, ['5" pipe', "xy", ""])]),
        ("\n,\n", [(1, [""]), (2, ["", ""])]),
        ("", []),
    ],
)
def test_a_line_is_split_into_its_cells(text, expected):
    assert rows(text) == expected


def test_rows_are_those_of_the_csv_module():
    rng = random.Random(1)
    for _ in range(2_000):
        table = [
            [
                "".join(rng.choices('ab",;\n\r é', k=rng.randint(0, 6)))
                for _ in range(rng.randint(1, 3))
            ]
            for _ in range(4)
        ]
        written = StringIO(newline="")
        csv.writer(written).writerows(table)
        reader = csv.reader(StringIO(written.getvalue(), newline=""))
        expected = [(reader.line_num, row or [""]) for row in reader]
        assert rows(written.getvalue()) == expected, written.getvalue()


def test_a_cell_of_a_million_characters_is_read_like_any_other():
    written = StringIO(newline="")
    csv.writer(written).writerows([["a", "b"], ["c", LONG], ["d", "e"]])
    assert [cells for _, cells in rows(written.getvalue())] == [
        ["a", "b"],
        ["c", LONG],
        ["d", "e"],
    ]


def test_a_quote_that_is_never_closed_costs_no_other_row():
    text = 'a,"b\nc,d\ne,f\n'
    assert rows(text) == [(1, ["a", '"b']), (2, ["c", "d"]), (3, ["e", "f"])]


def test_a_quote_is_not_looked_for_without_end(monkeypatch):
    monkeypatch.setattr(csv_rows, "MAX_QUOTED", 100)
    lines = iter(['a,"b\n', *["c,d\n"] * 1_000, 'e,f"\n'])
    first = next(split_csv(lines, delimiter=","))
    assert first == (1, ["a", '"b'])
    assert len(list(lines)) > 900
