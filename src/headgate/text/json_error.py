"""What is wrong with one line of a file of JSON lines, by its column: which line of the file it is, its reader says."""

from json import JSONDecodeError


def describe_json_error(error: JSONDecodeError) -> str:
    """The parser's reason and the column. The parser's own message counts lines from the row's start."""
    return f"{error.msg} at column {error.pos + 1}"
