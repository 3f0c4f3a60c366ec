"""Prices: what a million tokens of a model cost, by the table in models.json or by the user's own `[prices]`.

The table has a date, since prices change. A name holds for every model whose name begins with it; the longest name
holds. A model without a price costs nothing here, and callers then speak of tokens.
"""

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Annotated, Any

from pydantic import Field

from millgate.policy import Policy

Money = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Price(Policy):
    """What a million tokens of one model cost."""

    input: Money
    output: Money
    cached: Money | None = None
    """Input that came from the provider's cache; None: as other input."""
    written: Money | None = None
    """Input that was written to the provider's cache; None: as other input."""
    written_1h: Money | None = None
    """Input that was written to live for an hour; None: as `written`."""

    def cost(
        self,
        *,
        fresh: int = 0,
        read: int = 0,
        written: int = 0,
        output: int = 0,
        long: bool = False,
    ) -> float:
        """What a call costs; `long` is whether what it wrote lives for an hour."""
        cached = self.input if self.cached is None else self.cached
        kept = self.input if self.written is None else self.written
        if long and self.written_1h is not None:
            kept = self.written_1h
        tokens = fresh * self.input + read * cached + written * kept + output * self.output
        return tokens / 1e6


class Prices:
    """The prices of models: the user's own, then the table."""

    def __init__(self, own: Mapping[str, Price] | None = None) -> None:
        self._own = own or {}

    def find(self, model: str) -> Price | None:
        """The price of a model: its own, else that of the longest beginning of its name."""
        model = model.rpartition("/")[2]  # "anthropic/claude-opus-4-6", as routers write it
        for table in (self._own, _table()):
            fitting = [name for name in table if model.startswith(name)]
            if fitting:
                return table[max(fitting, key=len)]
        return None


def table_date() -> str:
    """The day on which the table was last checked."""
    return str(_read_table()["date"])


@cache
def _read_table() -> dict[str, Any]:
    text = files(__package__).joinpath("models.json").read_text(encoding="utf-8")
    return dict(json.loads(text))


@cache
def _table() -> dict[str, Price]:
    return {name: Price.model_validate(row) for name, row in _read_table()["models"].items()}
