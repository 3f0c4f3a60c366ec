"""Fuzzing settings: whatever a file, the environment or a replay says becomes settings or a clear error."""

import json
from contextlib import suppress
from dataclasses import replace
from functools import cache

import pytest
from tests.fuzz.cases import damage, fuzz, number, text, value

from millgate.errors import ConfigError, MillgateError
from millgate.explain.replay import apply_changes
from millgate.keys import is_well_formed
from millgate.pipeline.stages.strategy import context_strategy
from millgate.settings import Settings, load
from millgate.settings.load import with_changes
from millgate.settings.schema import names
from millgate.stores.open import folder_of
from millgate.stores.postgres.address import parse_address
from millgate.types import ContextBudget, Request


@cache
def all_names():
    return sorted(names())


def plain(rng):
    """A value as a file or a variable may give it."""
    return rng.choice([text(rng), str(number(rng)), json.dumps(value(rng)), "true", "[", "{}"])


@fuzz
def test_any_environment_is_read_or_refused(rng):
    some = [*rng.sample(all_names(), 2), "x.y", "gate", "tenant"]
    environ = {f"MILLGATE_{name.replace('.', '__').upper()}": plain(rng) for name in some if rng.random() < 0.5}  # fmt: skip
    with suppress(ConfigError):
        load(environ=environ)


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return tmp_path_factory.mktemp("settings") / "millgate.toml"


@fuzz
def test_any_settings_file_is_read_or_refused(file, rng):
    lines = ["[gate]", 'order = "score"', "[limits]", "query_chars = 5", "[proxy.upstreams.a]", 'url = "http://a/v1"']  # fmt: skip
    lines += [f"{name} = {json.dumps(value(rng), ensure_ascii=True)}" for name in rng.sample(all_names(), 1)]  # fmt: skip
    file.write_bytes(damage(rng, "\n".join(lines).encode("utf-8", "surrogatepass")))
    with suppress(ConfigError):
        load(environ={"MILLGATE_CONFIG": str(file)})


@fuzz
def test_any_change_of_a_replay_is_made_or_refused(rng):
    fields = ["budget", "k", "query", "collection", "task", "used_tokens", "context_length", "x"]
    changes = {rng.choice([*fields, *all_names()]): value(rng) for _ in range(rng.randrange(1, 4))}
    with suppress(MillgateError):
        _, settings = apply_changes(Request("q"), changes)
        with_changes(Settings(), settings)


@fuzz
def test_any_address_of_a_store_is_read_or_refused(rng):
    parts = ["postgresql://", "u:p@", "h", ":5432", "/db", "?", "cache=", "&", "%", "..", "a=b", "//", "pool=", "1e400", "\0", "[::1", "]", text(rng, 2)]  # fmt: skip
    address = "".join(rng.choices(parts, k=rng.randrange(8)))
    with suppress(MillgateError):
        folder_of(address)
    with suppress(MillgateError):
        parse_address(address)
    assert not is_well_formed(address)


@fuzz
def test_any_budget_is_taken_or_refused(rng):
    with suppress(MillgateError):
        window = ContextBudget(context_length=number(rng), used_tokens=number(rng), threshold_tokens=number(rng))  # fmt: skip
        assert replace(window).pressure >= 0
    with suppress(MillgateError):
        context_strategy(text(rng), content_size_hint=text(rng), char_count=number(rng), model_context_length=number(rng), used_tokens=number(rng))  # fmt: skip
