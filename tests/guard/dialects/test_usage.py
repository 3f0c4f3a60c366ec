"""Usage over several calls: what was reported counts, what was not is estimated and marked so."""

from headgate.guard.dialects.usage import CachedInput, UsageSum


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
    assert (total["input_tokens"], total["output_tokens"]) == (19, 8)
    assert total["cached"] is True
    severed, last = total["headgate"]["calls"]
    assert severed == {"input_tokens": 9, "output_tokens": 3, "estimated": True}
    assert "estimated" not in last
    assert total["headgate"]["rollbacks"] == 1


def test_a_severed_call_that_reported_everything_is_no_estimate():
    usage = UsageSum()
    usage.note({"input_tokens": 9, "output_tokens": 4})
    usage.sever({"input_tokens": 7, "output_tokens": 3})
    (severed, _) = usage.total({}, {})["headgate"]["calls"]
    assert severed == {"input_tokens": 9, "output_tokens": 4, "estimated": False}


def test_cached_input_is_told_apart_by_where_it_is_counted():
    usage = UsageSum()
    usage.note({"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 4}})
    usage.sever({"prompt_tokens": 9, "completion_tokens": 3})
    usage.note({"cache_read_input_tokens": 2, "cache_creation_input_tokens": 1, "input_tokens": 5})
    assert usage.cached_input() == CachedInput(within=4, read=2, written=1)
    assert usage.tokens() == (14, 3)
