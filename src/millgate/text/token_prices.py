"""Prices of the token estimate as arrays: data/token_prices.json has them, and bench/fit_tokens.py fits them anew.

`PAIRS` prices a character by the one before it: a letter costs more after a letter it seldom follows in English.
`CODES` prices a character beyond ASCII on top: by letter for the common alphabets, else by script. Han and Hangul have
two prices: that of the few hundred characters that are one token each in cl100k, and that of the others, which are two
or three. Prices are whole numbers of a fortieth of a token (`UNITS`), so sums are exact in any order.
`make bench-fit_tokens` fits them anew.
"""

import string
from typing import Any

import numpy as np
import numpy.typing as npt

from millgate.text.data import load

LAST = 0x10000  # this and all code points beyond have one price
# Kinds of characters in the order of the file: blank, the letters, digit, mark, end of line, all beyond ASCII.
BLANK, DIGIT, MARK, LINE, BEYOND = 0, 27, 28, 29, 30


def kind_of(code: int) -> int:
    """The kind of an ASCII character; "?" stands for all beyond ASCII."""
    char = chr(code)
    if char.isalpha():
        return 1 + string.ascii_lowercase.index(char.lower())
    if char.isdigit():
        return DIGIT
    if char == "?":
        return BEYOND
    return LINE if char == "\n" else BLANK if char.isspace() or char == "\0" else MARK


def _price_pairs(data: dict[str, Any]) -> npt.NDArray[np.float32]:
    prices = np.array(list(data["pairs"].values()), np.float32)
    kinds = np.array([kind_of(code) for code in range(128)])
    table = prices[kinds][:, kinds]
    table[:, list(string.ascii_uppercase.encode())] += data["capital"]
    for mark, more in data["marks"].items():
        table[:, ord(mark)] += more
    table[:, [*range(1, 9), *range(14, 32), 127]] = UNITS  # control characters are a token each
    return np.hstack([table.T, np.zeros_like(table)]).ravel()


def _price_codes(data: dict[str, Any]) -> npt.NDArray[np.float32]:
    starts = [int(script["from"], 16) for script in data["scripts"]]
    prices = np.array([script["price"] for script in data["scripts"]], np.float32)
    table = np.repeat(prices, np.diff((*starts, LAST + 1)))
    for row in data["letters"]:
        start = int(row["from"], 16)
        table[start : start + len(row["prices"])] = row["prices"]
    for group in data["one_token"]:
        table[list(map(ord, group["characters"]))] = group["price"]
    table[0xD800:0xE000] = table[LAST] / 2
    return table


_DATA = load("token_prices.json")
UNITS: int = _DATA["units"]
PAIRS = _price_pairs(_DATA)
"""From two neighboring bytes, read as one number, to the price of the second."""
CODES = _price_codes(_DATA)
"""From a code point, at most `LAST`, to its price beside that of its pair; 0 for ASCII.

A half of a surrogate pair costs half of `LAST`.
"""
