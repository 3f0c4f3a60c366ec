"""What a call through the proxy leaves behind: metrics, a line of the log, a span, and a trace with what was cut."""

import json
import logging

import pytest
from click.testing import CliRunner
from opentelemetry import trace as otel
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client.parser import text_string_to_metric_families
from tests.proxy import web
from tests.proxy.upstream import LOOP, PROSE, json_head, response_stream, said
from tests.waiting import MOST_S, until

from millgate.cli import app
from millgate.gateway import Millgate
from millgate.guard.dialects.usage import estimate_prompt
from millgate.service.app import create
from millgate.service.observe.metrics import MAX_MODELS, Metrics
from millgate.service.observe.model_call import ModelCall
from millgate.settings import Settings
from millgate.text.tokens import estimate_tokens
from millgate.types.policy import ProxyPolicy

ASK = [{"role": "user", "content": "When are refunds paid?"}]


@pytest.fixture
def spans(monkeypatch):
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(otel, "get_tracer", provider.get_tracer)
    return exporter


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "kb"


@pytest.fixture
def address(rig, folder, spans):
    policy = ProxyPolicy(upstreams={"main": rig.at()})
    with Millgate.open(settings=Settings(store=str(folder), proxy=policy)) as gate:
        gate.add([{"id": "refunds", "text": "Refunds are paid within 14 days to the card."}])
        url, stop = rig.app(create(gate))
        yield url
        stop()


def post(address, model, path="/v1/chat/completions", headers=None, **more):
    body = {"model": model, "messages": ASK, "stream": True, **more}
    return web.post(address + path, json=body, headers=headers, timeout=MOST_S)


def samples(address):
    text = web.get(f"{address}/metrics").text
    return {
        (s.name, *(f"{k}={v}" for k, v in sorted(s.labels.items()))): s.value
        for family in text_string_to_metric_families(text)
        for s in family.samples
    }


def test_metrics_name_route_model_upstream_and_what_the_guard_did(rig, address):
    model = rig.script(said(*LOOP), said("Well.", usage=(70, 9)))
    post(address, model)
    seen = samples(address)
    labels = (f"model={model}", "route=/v1/chat/completions", "upstream=main")
    assert seen["millgate_model_calls_total", "guard=recovered", *labels[:2], "status=200", labels[2]] == 1  # fmt: skip
    tokens = {d: seen["millgate_model_tokens_total", f"direction={d}", *labels] for d in ("input", "output")}  # fmt: skip
    assert tokens["input"] > 70
    assert tokens["output"] > 9
    assert seen["millgate_model_call_seconds_count", *labels] == 1
    assert seen["millgate_model_first_byte_seconds_count", *labels] == 1


def test_names_that_clients_invent_do_not_become_labels():
    metrics = Metrics()
    for n in range(MAX_MODELS + 10):
        metrics.count_call(ModelCall("/v1/responses", model=f"m{n}", upstream="main", status=200))
        metrics.count_call(ModelCall("/v1/responses", model=f"x{n}", upstream="main", status=404))
    families = text_string_to_metric_families(metrics.text())
    calls = next(f for f in families if f.name == "millgate_model_calls")
    models = {s.labels["model"] for s in calls.samples}
    assert len(models) == MAX_MODELS + 1
    assert "other" in models
    assert not any(name.startswith("x") for name in models)


def test_a_line_of_the_log_tells_of_the_call_and_never_what_was_said(rig, address, caplog):
    model = rig.script(said(*LOOP), said("Well.", usage=(70, 9)))
    with caplog.at_level(logging.INFO, "millgate.request"):
        got = post(address, model)
        until(lambda: caplog.records)
    line = json.loads(caplog.records[-1].message)
    assert (line["model"], line["upstream"], line["guard"]) == (model, "main", "recovered")
    assert (line["rollbacks"], line["status"], line["error"]) == (1, 200, "")
    assert line["wasted_tokens"] > 0
    assert line["output_tokens"] > 9
    assert line["call"] == got.headers["x-millgate-call"]
    assert PROSE[0][:20] not in caplog.records[-1].message
    assert ASK[0]["content"] not in caplog.records[-1].message


def test_a_call_that_is_not_watched_says_so_in_the_log(rig, address, caplog):
    with caplog.at_level(logging.INFO, "millgate.request"):
        post(address, rig.script(said(*PROSE)), n=2)
        until(lambda: caplog.records)
    line = json.loads(caplog.records[-1].message)
    assert line["guard"] == "off"
    assert "n is 2" in line["unwatched"]


def test_a_span_follows_the_conventions_for_generative_ai(rig, address, spans):
    model = rig.script(response_stream(texts=LOOP), response_stream(texts=("Well.",), id="resp_2"))
    post(address, model, "/v1/responses", input="Hi")
    until(lambda: "POST /v1/responses" in {span.name for span in spans.get_finished_spans()})
    done = {span.name: span for span in spans.get_finished_spans()}
    call, request = done[f"chat {model}"], done["POST /v1/responses"]
    told = call.attributes
    assert call.parent.span_id == request.context.span_id
    assert call.kind is otel.SpanKind.CLIENT
    assert (told["gen_ai.operation.name"], told["gen_ai.request.model"]) == ("chat", model)
    assert (told["gen_ai.provider.name"], told["server.address"]) == ("main", "127.0.0.1")
    assert (told["gen_ai.response.id"], told["millgate.guard"]) == ("resp_1", "recovered")
    assert told["gen_ai.usage.output_tokens"] > 5
    assert [event.name for event in call.events] == ["millgate.cut"]
    assert request.start_time <= call.start_time <= call.end_time


def test_tools_whose_results_a_call_brings_are_spans_of_their_own(rig, address, spans):
    call = {"type": "function_call", "call_id": "c1", "name": "read", "arguments": "{}"}
    result = {"type": "function_call_output", "call_id": "c1", "output": "text"}
    model = rig.script(response_stream(texts=("Well.",)))
    post(address, model, "/v1/responses", input=[{"role": "user", "content": "Hi"}, call, result])
    until(lambda: "POST /v1/responses" in {span.name for span in spans.get_finished_spans()})
    (tool,) = (s for s in spans.get_finished_spans() if s.name == "execute_tool read")
    assert dict(tool.attributes) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "read",
        "gen_ai.tool.call.id": "c1",
    }


def test_a_call_is_a_trace_that_the_command_lists_with_what_was_cut(rig, address, folder):
    model = rig.script(said(*LOOP), said("Well."))
    got = post(address, model, headers={"x-millgate-context": "on"})
    id, context = got.headers["x-millgate-call"], got.headers["x-millgate-trace"]
    run = CliRunner(env={"COLUMNS": "400"}).invoke
    until(lambda: id[:8] in run(app, ["why", "--list", "--store", str(folder)]).output)
    shown = run(app, ["why", id, "--store", str(folder)]).output
    assert f"/v1/chat/completions {model} at main: recovered" in shown
    assert "channel content" in shown
    assert "copies of" in shown
    data = json.loads(run(app, ["why", id, "--store", str(folder), "--json"]).output)
    call, window, _, cut = data["steps"]
    assert window["facts"]["human"] > 0
    assert data["query"] == ASK[0]["content"]
    assert (call["facts"]["guard"], call["facts"]["context_trace"]) == ("recovered", context)
    assert "water rises again" in cut["facts"]["unit"]
    looked_up = json.loads(run(app, ["why", context, "--store", str(folder), "--json"]).output)
    assert looked_up["session"] == data["session"] != ""
    assert web.get(f"{address}/v1/traces/{id}").status_code == 200


def test_errors_of_an_upstream_are_counted_with_their_status(rig, address):
    model = rig.script([json_head(429), b"{}"])
    post(address, model)
    post(address, "unknown", headers={"x-millgate-upstream": "moon"})
    calls = {key: n for key, n in samples(address).items() if key[0] == "millgate_model_calls_total"}  # fmt: skip
    statuses = {next(part for part in key if str(part).startswith("status")) for key in calls}
    assert statuses == {"status=429", "status=400"}


@pytest.mark.parametrize("usage", [(70, 9), None])
def test_tokens_are_those_that_the_upstream_reports_else_an_estimate(rig, address, upstream, usage):
    model = rig.script(said(*PROSE, usage=usage))
    post(address, model)
    tokens = {key[1]: n for key, n in samples(address).items() if key[0] == "millgate_model_tokens_total" and f"model={model}" in key}  # fmt: skip
    sent = upstream.seen[model][0].json
    assert "stream_options" not in sent, "without a cap the request goes out as it came"
    expected = usage or (estimate_prompt(sent), estimate_tokens("".join(PROSE)))
    assert tokens == {"direction=input": expected[0], "direction=output": expected[1]}


def test_of_a_huge_request_no_more_than_the_beginning_of_its_question_waits_to_be_traced(rig):
    served = rig.serve()
    for content in ("tide " * 30_000, "tide " * 2_000_000):
        body = {"model": rig.script(said("ok")), "messages": [{"role": "user", "content": content}]}
        assert web.post(f"{served.url}/v1/chat/completions", json=body).status_code == 200
    long, huge = served.calls
    assert long.query == huge.query == ("tide " * 20_000)
    assert len(long.sent) > 150_000
    assert huge.sent == b""
