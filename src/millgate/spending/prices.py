"""Prices: what a million tokens of a model cost, by the user's own `[prices]`, else by the lists of providers.

The lists are those of the package genai-prices, which holds them as data; nothing is fetched. It takes a second to
import, so that is done when a price is first asked for. A name fits whole, or with a date, a region, a vendor or
`-latest` around it, and never by its beginning alone: `gpt-9-mini` is not `gpt-9`. Who lists it is told by the address
that is called, else by the name. Many prices rise with the input of a request, so its size belongs to the question.
"""

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from ipaddress import ip_address
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

from pydantic import Field

from millgate.errors import MissingExtra
from millgate.types.policy import Policy

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo, Provider

Money = Annotated[float, Field(ge=0, allow_inf_nan=False)]

FREE = "free (it runs on a server of your own network)"
LOCAL = (
    ".localhost",
    ".local",
    ".internal",
    ".home.arpa",
)  # reserved: no public host has such a name

_BARE = re.compile(
    r"(?:(?:global|us|us-gov|eu|apac|jp|au|ca)\.)?(?:[a-z]+\.)?"  # as Bedrock writes regions and vendors
    r"(?P<name>.+?)"
    r"(?:[-@](?:\d{8}|\d{4}-\d\d-\d\d|\d\d-\d{4}|\d\d-\d\d|\d{4}|00\d|latest|default))?"
    r"(?:-v\d+(?::\d+)?)?"
)


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
        self, *, fresh: int = 0, read: int = 0, written: int = 0, hour: int = 0, output: int = 0
    ) -> float:
        """What a call costs; `hour` is how much of what it wrote lives for an hour."""
        cached = self.input if self.cached is None else self.cached
        kept = self.input if self.written is None else self.written
        long = kept if self.written_1h is None else self.written_1h
        kept_cost = (written - hour) * kept + hour * long
        return (fresh * self.input + read * cached + kept_cost + output * self.output) / 1e6


class Prices:
    """The prices of models: the user's own, then those of the providers."""

    def __init__(self, own: Mapping[str, Price] | None = None) -> None:
        self._own = {name.lower(): price for name, price in (own or {}).items()}

    def find(self, model: str, *, input_tokens: int = 0, url: str = "") -> Price | None:
        """The price of a model for a request of some size, at the service of an address; None if nobody lists it."""
        spellings = _spell(model)
        if own := next((self._own[name] for name in spellings if name in self._own), None):
            return own
        for provider in _find_providers(spellings[-1], url):
            models = _list_models()[provider.id]
            for name in spellings:
                if name in models and (price := _read(models[name], input_tokens)):
                    return price
        return None

    def dearest(self, model: str, *, input_tokens: int = 0, url: str = "") -> tuple[str, Price]:
        """What a model without a price costs at most: the dearest model of its provider, and its price.

        If nobody is known to provide it, a server in the user's own network bills nothing, and one outside may sell any
        model: the dearest of all, so that no call passes a cap unseen.
        """
        load_table()
        found = next(_find_providers(_spell(model)[-1], url), None)
        if found is None and _is_local(url):
            return FREE, Price(input=0, output=0)
        listed = (
            (price.input + price.output, one.id, price)
            for provider in ([found] if found else _list_providers())
            for one in provider.models
            if not (found and provider.model_match) or provider.model_match.is_match(one.id)
            if (price := _read(one, input_tokens))
        )
        _, name, price = max(listed, key=lambda row: row[0])
        return name, price


def load_table() -> None:
    """Import the lists of the providers, and index them: about a second, once. MissingExtra if they are not there."""
    if not _list_models():
        raise MissingExtra("genai-prices", extra="service")


def is_table_loaded() -> bool:
    """Whether a price costs no import any more."""
    return _list_models.cache_info().currsize > 0


def table_version() -> str:
    """The version of the lists of the providers; empty if they are not installed."""
    try:
        return metadata.version("genai-prices")
    except metadata.PackageNotFoundError:
        return ""


def _spell(model: str) -> tuple[str, ...]:
    """The spellings of a name by which it may be listed, the most exact first, the barest last."""
    name = model.lower()
    last = name.rpartition("/")[2]  # "anthropic/claude-opus-4-6", as routers write it
    bare = _BARE.fullmatch(last)
    return name, last, bare["name"] if bare else last


def _find_providers(model: str, url: str) -> Iterator["Provider"]:
    """Those whose prices hold for a model: who answers at the address, then who makes models of such names."""
    yield from (p for p in _list_providers() if url and re.match(p.api_pattern, url))
    yield from (p for p in _list_providers() if p.model_match and p.model_match.is_match(model))


def _is_local(url: str) -> bool:
    """Whether an address is in a network that is not the public one; a name without a dot is never a public host."""
    host = urlsplit(url).hostname or ""
    try:
        return not ip_address(host).is_global
    except ValueError:
        return bool(host) and ("." not in host or host.endswith(LOCAL))


def _list_providers() -> "list[Provider]":
    try:
        from genai_prices.data import providers  # noqa: PLC0415  (it takes a second)
    except ImportError:
        return []
    return providers


@cache
def _list_models() -> "dict[str, dict[str, ModelInfo]]":
    """From each provider to its models by each name that they are listed under."""
    return {
        provider.id: {name: model for model in reversed(provider.models) for name in _names(model.match)}
        | {model.id.lower(): model for model in provider.models}
        for provider in _list_providers()
    }  # fmt: skip


def _names(clause: Any) -> Iterator[str]:  # noqa: ANN401  (the clauses have no common class)
    """The names that a rule of the lists compares with, whichever way."""
    for value in vars(clause).values():
        if isinstance(value, str):
            yield value.lower()
        else:
            for part in value:
                yield from _names(part)


def _read(model: "ModelInfo", input_tokens: int) -> Price | None:
    """The price of today for a request of some size; None if the model is not paid by the token."""
    listed = model.get_prices(datetime.now(UTC))

    def rate(*names: str) -> float | None:
        value = next(
            (found for name in names if (found := getattr(listed, name)) is not None), None
        )
        tiers = getattr(value, "tiers", ())
        reached = [tier.price for tier in tiers if input_tokens > tier.start]
        value = reached[-1] if reached else getattr(value, "base", value)
        return None if value is None else float(value)

    paid = rate("input_mtok")
    if paid is None:
        return None
    return Price(
        input=paid,
        output=rate("output_mtok") or 0.0,
        cached=rate("cache_read_mtok"),
        written=rate("cache_write_mtok", "cache_write_5m_mtok"),
        written_1h=rate("cache_write_1h_mtok"),
    )
