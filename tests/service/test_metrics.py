"""Metrics: what is counted of a request, a context and a model call, to the number."""

import time
from dataclasses import replace

from prometheus_client.parser import text_string_to_metric_families

from millgate.guard.report import GuardReport, State
from millgate.service.observe.metrics import Metrics
from millgate.service.observe.model_call import ModelCall
from millgate.service.observe.request_state import RequestState
from millgate.spending.limits import CapStatus
from millgate.testing.samples import trace as sample
from millgate.types import Step
from millgate.types.notes import Stage


def values(metrics):
    """Every sample by its name and the values of its labels, in the order of their names."""
    return {
        (
            sample.name.removeprefix("millgate_"),
            *(v for _, v in sorted(sample.labels.items())),
        ): sample.value
        for family in text_string_to_metric_families(metrics.text())
        for sample in family.samples
    }


def test_a_call_counts_its_tokens_times_and_the_caps_of_its_spenders():
    metrics = Metrics()
    call = ModelCall("/v1/responses", model="m", upstream="main", status=200, seconds=2.0, input_tokens=7)  # fmt: skip
    call.first_byte_s = 0.5
    call.cap_statuses = (
        CapStatus("session", "s", "open", 25, 100, "tokens", calls_left=4),
        CapStatus("tenant", "t", "open", 50, 100, "tokens"),
    )
    metrics.count_call(call)
    seen, labels = values(metrics), ("m", "/v1/responses", "main")
    assert seen["model_call_seconds_sum", *labels] == 2.0
    assert seen["model_first_byte_seconds_sum", *labels] == 0.5
    assert {key[1]: n for key, n in seen.items() if key[0] == "model_tokens_total"} == {"input": 7}
    assert seen["guard_stalls_total",] == 0


def test_a_call_without_a_first_byte_measures_none_and_a_watched_one_counts_its_stream():
    metrics = Metrics()
    report = GuardReport(state=State.DONE)
    metrics.count_call(ModelCall("/v1/responses", model="m", upstream="main", report=report))
    seen = values(metrics)
    assert not any(key[0] == "model_first_byte_seconds_count" for key in seen)
    assert seen["guard_streams_total", "done"] == 1
    assert seen["guard_recovered_total",] == 0, "nothing was to recover from"


def test_a_request_counts_its_time_and_the_context_it_made():
    metrics = Metrics()
    state = RequestState("r", "VERB", time.perf_counter() - 3.0, status=204)
    metrics.count_request(state, {})
    state.trace = sample("t")
    metrics.count_request(state, {})
    seen = values(metrics)
    assert seen["requests_total", "OTHER", "unknown", "204"] == 2
    assert 6.0 <= seen["request_seconds_sum", "unknown"] < 60.0
    assert (seen["contexts_total",], seen["contexts_empty_total",]) == (1, 1)


def test_lost_writes_are_counted_once_however_often_they_are_told():
    metrics = Metrics()
    for total in (3, 3, 5, 4, 5):
        metrics.count_lost_writes(total)
    assert any(value == 5 for key, value in values(metrics).items() if "lost" in key[0])


def test_a_step_counts_as_degraded_as_a_bug_or_by_its_verdict_and_only_then():
    metrics = Metrics()
    steps = (
        Step(Stage.GATE, 0.25),
        Step(Stage.RETRIEVE, 0.5, degraded="slow"),
        Step(Stage.GRADE, 0.5, facts={"action": "correct"}),
        Step(Stage.GRADE, 0.5, facts={"action": "skipped"}),
    )
    metrics.count_context(replace(sample("t"), steps=steps), 1)
    seen = values(metrics)
    assert {key[1]: n for key, n in seen.items() if key[0] == "stage_degraded_total" and n} == {"retrieve": 1}  # fmt: skip
    assert not any(n for key, n in seen.items() if key[0] == "bugs_total")
    assert {key[1]: n for key, n in seen.items() if key[0] == "grades_total"} == {"correct": 1}
    assert not any(n for key, n in seen.items() if key[0] == "reviews_total")
    assert seen["stage_seconds_sum", "gate"] == 0.25
