"""Internal: tables that are data and not code, as JSON files.

`languages.json` has what is known of each language: its letters beyond a-z, and function, question and request words.
`contrary_words.json` has words by which one text denies another. `token_prices.json` has the prices of the token
estimate; bench/fit_tokens.py writes it. A file is read when a module that needs it is imported.
"""

from pathlib import Path
from typing import Any

import orjson


def load(name: str) -> Any:  # noqa: ANN401  (any JSON)
    """The contents of a data file."""
    # importlib.resources would add 13 ms of CPU to the start of a command
    return orjson.loads(Path(__file__).with_name(name).read_bytes())
