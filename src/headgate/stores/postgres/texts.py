"""Texts: how Python texts go into PostgreSQL, which holds every character but NUL.

NUL is written as the two characters \\x01 and "0", and \\x01 itself as \\x01 and "1". Both are so rare that nearly
every text is stored as it is, and can be searched as it is.
"""

from psycopg.abc import AdaptContext, Buffer
from psycopg.adapt import Dumper, Loader
from psycopg.postgres import types
from psycopg.pq import Format

from headgate.errors import InputError


class TextDumper(Dumper):
    """Texts to the type text."""

    oid = types["text"].oid

    def dump(self, obj: str) -> Buffer:
        """The text in UTF-8, without NUL."""
        if "\0" in obj or "\1" in obj:
            obj = obj.replace("\1", "\x011").replace("\0", "\x010")
        try:
            return obj.encode()
        except UnicodeEncodeError as error:
            raise InputError(
                f"a text holds half a character (a lone surrogate) at {error.start}",
                hint="decode the text with errors='replace' first",
            ) from error


class TextLoader(Loader):
    """The texts that TextDumper wrote."""

    def load(self, data: Buffer) -> str:
        """The text as it was."""
        text = str(data, "utf-8")
        return text.replace("\x010", "\0").replace("\x011", "\1") if "\1" in text else text


class BinaryTextLoader(TextLoader):
    """The same where rows come in binary: a text has the same bytes there."""

    format = Format.BINARY


def register_texts(context: AdaptContext) -> None:
    """Let a connection read and write texts this way."""
    context.adapters.register_dumper(str, TextDumper)
    context.adapters.register_loader("text", TextLoader)
    context.adapters.register_loader("text", BinaryTextLoader)
