"""Usage over several calls: what was reported counts, what was not is estimated and marked so."""

import orjson
import pytest

from millgate.guard.dialects.usage import (
    FILE_TOKENS,
    MOST_TOKENS,
    CachedInput,
    UsageSum,
    estimate_prompt,
)


def test_later_numbers_of_a_call_replace_earlier_ones():
    usage = UsageSum()
    usage.note({"input_tokens": 9, "output_tokens": 1})
    usage.note(None)
    usage.note({"output_tokens": 5})
    assert usage.tokens() == (9, 5)
    assert not usage


def test_a_severed_call_counts_with_estimates_for_what_it_did_not_report():
    usage = UsageSum()
    usage.note({"input_tokens": 9, "output_tokens": 0})
    usage.sever({"input_tokens": 7, "output_tokens": 3})
    assert usage
    total = usage.total({"input_tokens": 10, "output_tokens": 5, "cached": True}, {"rollbacks": 1})
    assert (total["input_tokens"], total["output_tokens"]) == (9, 3), (
        "of the last call, if none follows"
    )
    usage.begin()
    total = usage.total({"input_tokens": 10, "output_tokens": 5, "cached": True}, {"rollbacks": 1})
    assert (total["input_tokens"], total["output_tokens"]) == (10, 5)
    sums = total["millgate"]
    assert (sums["input_tokens"], sums["output_tokens"]) == (19, 8)
    assert total["cached"] is True
    severed, last = total["millgate"]["calls"]
    assert severed == {"input_tokens": 9, "output_tokens": 3, "estimated": True}
    assert "estimated" not in last
    assert total["millgate"]["rollbacks"] == 1


def test_an_estimate_is_told_whatever_else_was_reported():
    usage = UsageSum()
    usage.note({"input_tokens": 9, "cache_read_input_tokens": 4, "service_tier": "standard"})
    usage.sever({"input_tokens": 7, "output_tokens": 3})
    (severed,) = usage.total({}, {})["millgate"]["calls"]
    assert severed["estimated"] is True
    assert (severed["input_tokens"], severed["output_tokens"]) == (9, 3)
    assert usage.has_estimates


def test_input_that_came_from_the_cache_alone_is_not_estimated_again():
    usage = UsageSum()
    usage.note({"input_tokens": 0, "cache_read_input_tokens": 400, "output_tokens": 5})
    usage.sever({"input_tokens": 390, "output_tokens": 3})
    assert usage.tokens() == (0, 5)
    assert not usage.has_estimates


def test_only_a_call_that_is_under_way_lacks_what_it_did_not_report():
    usage = UsageSum()
    assert usage.gaps() == (True, True)
    usage.note({"input_tokens": 9})
    assert usage.gaps() == (False, True)
    usage.sever({"input_tokens": 9, "output_tokens": 3})
    assert usage.gaps() == (False, False)
    usage.begin()
    assert usage.gaps() == (True, True)


def test_a_prompt_is_estimated_with_its_tools_and_files_at_a_flat_price():
    ask = {"messages": [{"role": "user", "content": "When are refunds paid?"}]}
    bare = estimate_prompt(ask)
    assert 6 < bare < 30
    assert estimate_prompt({**ask, "tools": [{"name": "look", "description": "word " * 500}]}) > bare + 400  # fmt: skip
    for data in ("data:image/png;base64," + "iVBORw0KGgo" * 90_000, "iVBORw0KGgo+/" * 90_000 + "=="):  # fmt: skip
        assert FILE_TOKENS < estimate_prompt({**ask, "image": {"url": data}}) < FILE_TOKENS + bare + 20  # fmt: skip
    assert estimate_prompt({"prompt": "世界" * 500}) < 3_000
    assert estimate_prompt({"prompt": "x" * 500}) < FILE_TOKENS


def test_a_severed_call_that_reported_everything_is_no_estimate():
    usage = UsageSum()
    usage.note({"input_tokens": 9, "output_tokens": 4})
    usage.sever({"input_tokens": 7, "output_tokens": 3})
    (severed,) = usage.total({}, {})["millgate"]["calls"]
    assert severed == {"input_tokens": 9, "output_tokens": 4, "estimated": False}


def test_cached_input_is_told_apart_by_where_it_is_counted():
    usage = UsageSum()
    usage.note({"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 4}})
    usage.sever({"prompt_tokens": 9, "completion_tokens": 3})
    usage.note({"cache_read_input_tokens": 2, "cache_creation_input_tokens": 1, "input_tokens": 5})
    assert usage.cached_input() == CachedInput(within=4, read=2, written=1)
    assert usage.tokens() == (14, 3)


@pytest.mark.parametrize("count", [-5, -(2**70), float("nan"), float("-inf"), None, "9", [], True])
def test_a_count_that_no_call_can_have_is_none(count):
    usage = UsageSum()
    usage.note({"prompt_tokens": count, "completion_tokens": count})
    assert usage.tokens() == ((1, 1) if count is True else (0, 0))
    assert usage.cached_input() == CachedInput()


@pytest.mark.parametrize("count", [2**64, 10**30, 1e30, float("inf")])
def test_a_count_beyond_64_bits_is_cut_to_what_logs_and_stores_can_hold(count):
    usage = UsageSum()
    usage.note({"prompt_tokens": 1, "completion_tokens": count})
    usage.sever({})
    usage.begin()
    usage.note({"completion_tokens": count})
    assert usage.tokens() == (1, 2 * MOST_TOKENS)
    assert orjson.dumps(usage.total({}, {})["millgate"].get("completion_tokens", 0))
