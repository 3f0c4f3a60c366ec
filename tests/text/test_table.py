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


def test_amounts_and_thousands_stand_to_the_right_as_other_numbers_do():
    assert table([("a", "9"), ("b", "1,234"), ("c", "$0.84"), ("d", "12%"), ("e", "1.2.x")]) == (
        "a      9\nb  1,234\nc  $0.84\nd    12%\ne  1.2.x"
    )
