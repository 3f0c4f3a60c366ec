"""What is seen from outside: metrics from traces, one log line a request, spans, health."""

import asyncio
import json
import logging
import os
import subprocess
import sys
from dataclasses import replace

import pytest
from opentelemetry import trace as otel
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client.parser import text_string_to_metric_families
from tests.service.clients import connected
from tests.service.conftest import ROWS
from tests.waiting import MOST_S

from millgate.errors import LoopError
from millgate.explain.log import tokens_saved, window_figures
from millgate.gateway import Millgate
from millgate.guard.report import Cut, GuardReport, State
from millgate.service.app import create
from millgate.service.observe.metrics import Metrics
from millgate.service.observe.model_call import ModelCall
from millgate.stores.temporary import TemporaryStore
from millgate.testing import FailingStore
from millgate.testing.samples import trace as sample
from millgate.types import Candidate, Chunk, ContextBudget, Step
from millgate.types.notes import Fate, Note, NoteCode, Stage

WINDOW = "Refunds are paid within 14 days to the card."


async def told(client):
    text = (await client.get("/metrics")).text
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


async def test_metrics_are_counted_from_traces(client):
    body = {"query": "how do refunds and parcels work?", "current_window_text": WINDOW}
    for _ in range(2):
        await client.post("/v1/context", json=body)
    seen = await told(client)
    value = {name: v for (name, labels), v in seen.items() if not labels}
    assert value["millgate_contexts_total"] == 2
    assert value["millgate_selfref_exact_duplicates_total"] == 2
    assert value["millgate_selfref_candidates_total"] >= 2
    assert value["millgate_selfref_penalized_total"] >= 2
    assert value["millgate_tokens_injected_total"] > 0
    assert value["millgate_tokens_saved_total"] > 0
    assert value["millgate_selfref_overlap_ratio_count"] == value["millgate_selfref_candidates_total"]  # fmt: skip
    assert value["millgate_selfref_novel_results_count"] == 2
    route = (("method", "POST"), ("route", "/v1/context"), ("status", "200"))
    assert seen["millgate_requests_total", route] == 2
    stages = {dict(labels)["stage"] for name, labels in seen if name == "millgate_stage_seconds_count"}  # fmt: skip
    assert {"retrieve", "penalize", "gate", "compose"} <= stages


async def test_writes_that_are_lost_behind_an_answer_are_counted(monkeypatch):
    monkeypatch.setattr("millgate.calls.worker.PAUSE_S", 0.01)
    store = FailingStore(TemporaryStore(), methods=["save_trace"])
    with Millgate.open(store=store) as gate:
        async with connected(create(gate)) as client:
            await client.post("/v1/context", json={"query": "refunds"})
            async with asyncio.timeout(MOST_S):
                while not (lost := (await told(client))["millgate_writes_lost_total", ()]):
                    await client.get("/healthz")
                    await asyncio.sleep(0.02)
    assert lost == 1


def test_the_figures_of_a_trace_are_those_of_its_notes():
    def told(id, *notes):
        return Candidate(Chunk(id, "text"), 0.5, tuple(Note(*note) for note in notes))

    made = replace(
        sample("1"),
        candidates=(
            told("new", (Stage.PENALIZE, Fate.KEEP, NoteCode.NEW, 0.5, {"overlap": 0.0})),
            told("part", (Stage.PENALIZE, Fate.KEEP, NoteCode.PARTLY_IN_WINDOW, 0.4, {"overlap": 0.5})),
            told("copy", (Stage.PENALIZE, Fate.DROP, NoteCode.IN_WINDOW, 0.0, {"overlap": 1.0})),
            told("twin", (Stage.PENALIZE, Fate.KEEP, NoteCode.NEW, 0.5, {"overlap": 0.1}),
                 (Stage.PENALIZE, Fate.DROP, NoteCode.REPEATS, 0.5, {}, "new")),
            told("more", (Stage.EXPAND, Fate.KEEP, NoteCode.FOUND_AGAIN, 0.3)),
        ),
        steps=(Step(Stage.PENALIZE, 0.0), Step(Stage.EXPAND, 0.0)),
    )  # fmt: skip
    seen = window_figures(made)
    assert seen.overlaps == (0.0, 0.5, 1.0, 0.1)
    assert (seen.penalized_count, seen.exact_duplicate_count, seen.novel_result_count) == (3, 1, 2)
    assert (seen.expansion_triggered, seen.expanded_count) == (True, 1)


def test_saved_tokens_are_those_that_the_window_shows_and_that_would_have_been_sent():
    """Not those of every candidate: a search finds far more than any budget takes, and most of it is noise."""
    rows = [
        {"id": f"d{n}", "text": f"Refund number {n} is paid by card within {n} days of the order."}
        for n in range(60)
    ]
    with Millgate.open(":memory:") as gate:
        gate.add(rows)
        plain = gate.context("when is a refund paid by card?", budget=200)
        assert tokens_saved(plain.trace) == 0
        seen = [chunk.text for chunk in plain.chunks]
        again = gate.context("when is a refund paid by card?", budget=200, window=seen)
        assert tokens_saved(again.trace) <= 200
        one = gate.context("when is a refund paid by card?", budget=200, window=rows_text(rows))
        assert one.text == ""
        assert 100 < tokens_saved(one.trace) <= 200
        first = gate.context("refund", budget=200, k=1, window=rows_text(rows))
        assert 10 < tokens_saved(first.trace) < 30
        full = gate.context("refund", context_budget=ContextBudget(1000, 990))
        assert tokens_saved(full.trace) == 0


def rows_text(rows):
    return [row["text"] for row in rows]


def test_a_bug_is_counted_by_its_stage():
    metrics = Metrics()
    broken = Step(Stage.GRADE, 0.0, degraded="KeyError", bug=True)
    metrics.count_context(replace(sample("1"), steps=(broken,)), 0)
    assert 'millgate_bugs_total{stage="grade"} 1.0' in metrics.text().splitlines()


async def test_a_degraded_request_is_logged_as_a_warning(caplog):
    class Broken:
        name = "diary"

        def prefetch(self, query):
            raise OSError("down")

    with Millgate.open(":memory:", providers=[Broken()]) as gate, caplog.at_level(logging.INFO):
        gate.add([{"id": "a", "text": "Refunds are paid by card."}])
        async with connected(create(gate)) as client:
            await client.post("/v1/context", json={"query": "how are refunds paid?"})
            await client.get("/healthz")
    lines = [r for r in caplog.records if r.name == "millgate.request"]
    assert [r.levelname for r in lines] == ["WARNING", "INFO"]
    assert [json.loads(r.message)["level"] for r in lines] == ["warning", "info"]


async def test_grades_and_reviews_are_counted(client):
    await client.post("/v1/context", json={"query": "are refunds paid to the card?"})
    body = {"query": "I want to die; where did Melanie leave the garage key?"}
    review = (await client.post("/v1/context", json=body)).json()["review"]
    await client.post(f"/v1/reviews/{review}", json={"status": "answered", "answer": "In the box."})
    seen = await told(client)
    assert seen["millgate_grades_total", (("action", "correct"),)] == 1
    assert seen["millgate_grades_total", (("action", "incorrect"),)] == 1
    assert seen["millgate_reviews_total", (("status", "pending"),)] == 1
    assert seen["millgate_reviews_total", (("status", "answered"),)] == 1
    again = (await client.post("/v1/context", json=body)).json()
    assert "In the box." in again["text"]


@pytest.mark.parametrize(
    "name",
    [
        "millgate_selfref_candidates_total",
        "millgate_selfref_penalized_total",
        "millgate_selfref_exact_duplicates_total",
        "millgate_selfref_expansion_total",
        "millgate_selfref_expansion_success_total",
        "millgate_selfref_overlap_ratio",
        "millgate_selfref_novel_results",
    ],
)
def test_the_published_names_are_there_from_the_start(name):
    assert f"# TYPE {name} " in Metrics().text()


async def test_labels_have_bounds_whatever_is_asked(client):
    for n in range(20):
        await client.get(f"/made/up/{n}")
        await client.get(f"/v1/documents/{n}")
        await client.request(f"VERB{n}", "/v1/context")
    seen = await told(client)
    routes = {dict(labels).get("route") for _, labels in seen} - {None}
    methods = {dict(labels).get("method") for _, labels in seen} - {None}
    assert routes <= {"unknown", "/v1/documents/{id:path}", "/v1/context", "/metrics"}
    assert methods <= {"GET", "OTHER"}


def test_a_guarded_stream_is_counted():
    metrics = Metrics()
    cut = Cut("content", 10, 0, 2, "repeat", "do", 8)
    ended = GuardReport(state=State.DONE, rollbacks=1, wasted_tokens=70, cuts=[cut])
    failed = GuardReport(state=State.FAILED, rollbacks=3, cuts=[cut] * 4)
    metrics.count_call(ModelCall("/v1/messages", report=ended))
    metrics.count_call(ModelCall("/v1/messages", report=failed, error=LoopError.__name__))
    lines = metrics.text().splitlines()
    assert "millgate_guard_stalls_total 5.0" in lines
    assert "millgate_guard_rollbacks_total 4.0" in lines
    assert "millgate_guard_recovered_total 1.0" in lines
    assert "millgate_guard_failed_total 1.0" in lines
    assert "millgate_guard_tokens_wasted_total 70.0" in lines


@pytest.mark.parametrize(
    ("state", "error"),
    [(State.FAILED, "UpstreamReset"), (State.FAILED, "upstream_ended_early"), (State.CLOSED, "")],
)
def test_an_answer_that_service_or_client_broke_off_did_not_keep_looping(state, error):
    metrics = Metrics()
    metrics.count_call(ModelCall("/v1/messages", report=GuardReport(state=state), error=error))
    assert "millgate_guard_failed_total 0.0" in metrics.text().splitlines()
    assert f'millgate_guard_streams_total{{state="{state.value}"}} 1.0' in metrics.text()


COUNTING = """
import sys
from millgate.service.observe.metrics import Metrics
metrics = Metrics(sys.argv[1])
metrics.count_review("approved")
print(metrics.text())
"""


@pytest.mark.slow
def test_processes_add_up_and_outlive_themselves(tmp_path):
    line = [sys.executable, "-c", COUNTING, str(tmp_path)]
    environment = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path)}
    first, second = (
        subprocess.run(line, env=environment, capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    )
    assert 'millgate_reviews_total{status="approved"} 1.0' in first.splitlines()
    assert 'millgate_reviews_total{status="approved"} 2.0' in second.splitlines()
    assert "# TYPE millgate_selfref_overlap_ratio histogram" in second.splitlines()


def test_two_services_in_one_process_count_apart():
    one, other = Metrics(), Metrics()
    one.count_review("approved")
    assert 'millgate_reviews_total{status="approved"} 1.0' in one.text().splitlines()
    assert 'status="approved"' not in other.text()


def test_every_metric_says_what_it_is_and_is_a_counter_or_a_histogram():
    families = list(text_string_to_metric_families(Metrics().text()))
    assert families
    assert all(family.documentation.endswith(".") for family in families)
    assert {family.type for family in families} == {"counter", "histogram"}


def test_every_stage_of_a_request_has_a_label(tmp_path):
    with Millgate.open(tmp_path / "kb", log={"path": str(tmp_path / "no" / "where.log")}) as gate:
        gate.add([{"id": "a", "text": "Refunds take five days."}])
        context = gate.context("how do refunds work?")
    metrics = Metrics()
    metrics.count_context(context.trace, context.token_estimate)
    text = metrics.text()
    assert 'millgate_stage_degraded_total{stage="log"} 1.0' in text.splitlines()
    assert 'stage="other"' not in text


@pytest.mark.parametrize("allowed", [False, True])
async def test_one_line_a_request_with_the_query_only_if_allowed(stack, caplog, allowed):
    gate = stack.enter_context(Millgate.open(":memory:", service={"log_query": allowed}))
    gate.add(ROWS)
    body = {"query": "refunds please", "session_id": "s1", "current_window_text": WINDOW}
    with caplog.at_level(logging.INFO, "millgate.request"):
        async with connected(create(gate)) as client:
            await client.post("/v1/context", json=body)
    (line,) = [json.loads(record.message) for record in caplog.records]
    assert (line["route"], line["status"], line["session_id"]) == ("/v1/context", 200, "s1")
    assert line["exact_duplicate_count"] == line["penalized_count"] == 1
    assert line["candidate_count"] >= 2
    assert line["expansion_triggered"] in (True, False)
    assert line["novel_result_count"] >= 1
    assert line.keys().isdisjoint({"session", "candidates", "penalized", "expansion", "novel"})
    assert ("query" in line) is allowed
    assert "Refunds" not in json.dumps({**line, "query": ""})


async def test_spans_tell_the_request_and_its_stages(client, monkeypatch):
    spans = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    monkeypatch.setattr(otel, "get_tracer_provider", lambda: provider)
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    await client.post("/v1/context", json={"query": "refunds"}, headers={"traceparent": parent})
    made = spans.get_finished_spans()
    assert {span.instrumentation_scope.name for span in made} == {"millgate"}  # and no other's
    done = {span.name: span for span in made}
    request = done["POST /v1/context"]
    assert request.attributes["http.response.status_code"] == 200
    assert format(request.context.trace_id, "032x") == "0af7651916cd43dd8448eb211c80319c"
    assert done["millgate.retrieve"].parent.span_id == request.context.span_id
    assert request.start_time <= done["millgate.retrieve"].start_time
    found = done["millgate.retrieve"].attributes
    assert (found["gen_ai.operation.name"], found["gen_ai.data_source.id"]) == ("retrieval", "main")


async def test_readiness_asks_every_part(app, client):
    assert (await client.get("/readyz")).json() == {
        "ready": True,
        "parts": {"store": "ok", "index": "ok", "providers": "ok"},
    }

    async def upstream():
        return "no answer from the model"

    app.state.service.checks["upstream"] = upstream
    answer = await client.get("/readyz")
    assert answer.status_code == 503
    assert answer.json()["parts"]["upstream"] == "no answer from the model"
    app.state.service.soft_checks["upstream"] = app.state.service.checks.pop("upstream")
    answer = await client.get("/readyz")
    assert (answer.status_code, answer.json()["ready"]) == (200, True)
    assert answer.json()["parts"]["upstream"] == "no answer from the model"
    assert (await client.get("/healthz")).status_code == 200


async def test_while_it_drains_it_is_not_ready_and_takes_nothing_on(app, client):
    app.state.service.in_flight.drain(1.0)
    assert (await client.get("/readyz")).status_code == 503
    refused = await client.post("/v1/context", json={"query": "x"})
    assert refused.status_code == 503
    assert (await client.get("/healthz")).status_code == 200
