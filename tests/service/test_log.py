"""The line of a request: its level, its times in milliseconds, and what it says of a model call."""

import json
import logging
import time
from dataclasses import replace

import pytest

from millgate.guard.report import GuardReport
from millgate.service.observe.log import line_level, request_line, request_logger
from millgate.service.observe.model_call import ModelCall
from millgate.service.observe.request_state import Caller, RequestState
from millgate.sessions.prompt_cache.judgment import CacheCounts, Judgment
from millgate.testing.samples import trace as sample
from millgate.types import Step
from millgate.types.notes import Stage
from millgate.types.policy import ServicePolicy


@pytest.mark.parametrize(("status", "degraded", "level"), [(499, False, logging.INFO), (500, False, logging.ERROR), (500, True, logging.ERROR), (200, True, logging.WARNING), (404, True, logging.WARNING)])  # fmt: skip
def test_a_failure_is_an_error_and_a_missing_part_a_warning(status, degraded, level):
    trace = sample("t")
    trace = replace(trace, steps=(Step(Stage.GATE, 0.0, degraded="late"),)) if degraded else trace
    assert line_level(RequestState("r", "GET", status=status, trace=trace)) == level
    if not degraded:
        assert line_level(RequestState("r", "GET", status=status)) == level


def test_a_line_says_who_asked_and_how_many_milliseconds_it_took():
    began = time.perf_counter() - 2.0
    state = RequestState("r", "GET", began, Caller("acme", frozenset(), "k1"), 200)
    line = json.loads(request_line(state, {}))
    assert (line["tenant"], line["key"]) == ("acme", "k1")
    assert 2_000 <= line["ms"] < 60_000
    assert "trace" not in line
    assert "call" not in line
    nobody = json.loads(request_line(RequestState("r", "GET", status=404), {}))
    assert (nobody["tenant"], nobody["key"]) == (None, None)


def line_of(call):
    return json.loads(request_line(RequestState("r", "POST", status=200, call=call), {}))


def test_a_call_that_nobody_watched_has_no_cuts_and_one_without_a_byte_no_time():
    assert line_of(ModelCall("/v1/messages")).keys().isdisjoint({"rollbacks", "first_byte_s"})
    call = ModelCall("/v1/messages", report=GuardReport(rollbacks=2, wasted_tokens=90))
    call.first_byte_s = 0.25
    line = line_of(call)
    assert (line["rollbacks"], line["wasted_tokens"], line["first_byte_s"]) == (2, 90, 0.25)


def test_a_line_says_what_a_call_cost_and_why_the_cache_broke():
    call = ModelCall("/v1/messages", cost=0.0123456789, cache_counts=CacheCounts(10, 900, 5))
    line = line_of(call)
    assert (line["cost"], line["cache_read"], line["cache_written"]) == (0.012346, 10, 900)
    assert "cache_lost" not in line
    call.cache_judgment = Judgment("client", "tools[3] changed", 900, 10, 890)
    line = line_of(call)
    assert (line["cache_lost"], line["cache_blame"], line["cache_reason"]) == (890, "client", "tools[3] changed")  # fmt: skip
    assert "cache_read" not in line_of(ModelCall("/v1/messages"))


@pytest.mark.parametrize(("wanted", "level", "lines"), [(True, logging.INFO, 1), (False, logging.INFO, 0), (True, logging.ERROR, 0)])  # fmt: skip
def test_a_line_is_written_if_the_policy_and_the_logger_want_it(caplog, wanted, level, lines):
    with caplog.at_level(level, "millgate.request"):
        request_logger(ServicePolicy(log=wanted))(RequestState("r", "GET", status=200), {})
    assert len(caplog.records) == lines
