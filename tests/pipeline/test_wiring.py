"""Wiring: which parts the settings give, and what a rehearsal leaves alone."""

import pytest

from millgate.errors import ConfigError, InputError, LimitError
from millgate.gateway.wiring import build, engine_with
from millgate.models.search import SearchPolicy
from millgate.settings import Settings


@pytest.fixture
def parts():
    made = build(Settings(store=":memory:", search=SearchPolicy(searx="http://127.0.0.1:9/never")))
    yield made
    made.close()


def test_a_rehearsal_asks_neither_a_person_nor_the_world(parts):
    assert parts.engine.resources.search is not None
    engine = engine_with(parts, {"gate.min_ratio": 0.5})
    assert engine.resources.search is None
    assert not engine.policy.review.enabled
    assert (engine.policy.gate.min_ratio, parts.engine.policy.gate.min_ratio) == (0.5, 0.08)


@pytest.mark.parametrize(
    ("changes", "error", "said"),
    [
        ({"limits.k": 3}, InputError, "limits.k cannot be changed"),
        ({"store": "x"}, InputError, "store cannot be changed"),
        ({"gate.min_ratio": "much"}, ConfigError, "gate.min_ratio"),
        ({"retrieve.keep": 10**9}, LimitError, "retrieve.keep"),
    ],
)
def test_a_rehearsal_refuses_what_is_not_of_the_pipeline(parts, changes, error, said):
    with pytest.raises(error, match=said):
        engine_with(parts, changes)


def test_two_searches_at_once_are_refused():
    search = SearchPolicy(searx="http://127.0.0.1:9", mcp="server")
    with pytest.raises(ConfigError, match="both set"):
        build(Settings(store=":memory:", search=search))
