"""Texts: how Python texts go into PostgreSQL, which holds every character but NUL.

NUL is written as the two characters \\x01 and "0", and \\x01 itself as \\x01 and "1". Both are so rare that nearly
every text is stored as it is, and can be searched as it is. A row is looked through at once, since a loader would be
called for each text.
"""

from collections.abc import Sequence

from psycopg import Connection
from psycopg.abc import Buffer
from psycopg.adapt import Dumper
from psycopg.postgres import types
from psycopg.rows import TupleRow

from millgate.errors import InputError


class TextDumper(Dumper):
    """Texts to the type text."""

    oid = types["text"].oid

    def dump(self, obj: str) -> Buffer:
        """The text in UTF-8, with NUL escaped, which PostgreSQL cannot store."""
        if "\0" in obj or "\1" in obj:
            obj = obj.replace("\1", "\x011").replace("\0", "\x010")
        try:
            return obj.encode()
        except UnicodeEncodeError as error:
            raise InputError(
                f"a text holds half a character (a lone surrogate) at {error.start}",
                hint="decode the text with errors='replace' first",
            ) from error


def _restore(value: object) -> object:
    if isinstance(value, str):
        return value.replace("\x010", "\0").replace("\x011", "\1")
    return list(map(_restore, value)) if isinstance(value, list) else value


def restore_row(values: Sequence[object]) -> TupleRow:
    """A row with its texts as they were."""
    for value in values:
        if (type(value) is str and "\1" in value) or type(value) is list:
            return tuple(map(_restore, values))
    return tuple(values)


def register_texts(connection: Connection[TupleRow]) -> None:
    """Let a connection read and write texts this way."""
    connection.adapters.register_dumper(str, TextDumper)
    connection.row_factory = lambda _: restore_row
