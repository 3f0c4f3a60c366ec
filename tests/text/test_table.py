"""A table in plain text."""

from millgate.text.table import clip, table


def test_columns_align_and_numbers_stand_to_the_right():
    assert (
        table([("id", "score"), ("a", "0.5"), ("bcd", "12")])
        == "id   score\na      0.5\nbcd     12"
    )


def test_nothing_makes_an_empty_table():
    assert table([]) == ""


def test_a_long_text_is_cut_on_one_line():
    assert clip("one\n two   three", 9) == "one two …"
    assert clip("short", 9) == "short"


def test_a_cell_with_line_breaks_makes_no_second_row():
    assert table([("kept\ndropped", "a")]) == "kept dropped  a"


def test_a_column_of_amounts_and_measures_stands_to_the_right_as_a_whole():
    rows = [("a", "of"), ("b", "9"), ("c", "1,234"), ("d", "$0.84"), ("e", "12 %"), ("f", "152k"), ("g", "")]  # fmt: skip
    assert table(rows) == "a     of\nb      9\nc  1,234\nd  $0.84\ne   12 %\nf   152k\ng"
    assert (
        table([*rows, ("h", "x")]) == "a  of\nb  9\nc  1,234\nd  $0.84\ne  12 %\nf  152k\ng\nh  x"
    )
