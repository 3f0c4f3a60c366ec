"""The guard's token and detector, by header and by model."""

import json

import pytest
from tests.proxy import web
from tests.proxy.upstream import LOOP, PROSE, said
from tests.waiting import MOST_S

from millgate.guard.policy import GuardPolicy
from millgate.service.edge.own_headers import describe_unknown
from millgate.service.proxy.request import PREFIX, Options

ASK = [{"role": "user", "content": "Tell me about millgates."}]
TOKEN = "<other way>"  # no secret


def post(served, model, **headers):
    body = {"model": model, "messages": ASK, "stream": True}
    named = {f"x-millgate-guard-{name.replace('_', '-')}": value for name, value in headers.items()}
    url = served.url + "/v1/chat/completions"
    return web.post(url, json=body, headers=named, timeout=MOST_S)


def test_a_header_sets_the_token(rig, served, upstream):
    model = rig.script(said(*LOOP), said("Done."))
    assert "Done." in post(served, model, divergence_token=TOKEN).text
    again = upstream.seen[model][1].json["messages"]
    assert TOKEN in json.dumps(again)


def test_a_header_sets_the_detector_and_the_settings_its_thresholds(rig, upstream):
    model = rig.script(said(*PROSE), said("Done."))
    served = rig.serve(guard=GuardPolicy(entropy={"window": 32, "min_bits": 8, "max_drop": 9}))
    assert "Done." in post(served, model, detector="entropy").text
    assert len(upstream.seen[model]) == 2


@pytest.mark.parametrize("detector", ["entropy", "both"])
def test_the_entropy_rule_slices_where_the_repetition_begins(rig, served, upstream, detector):
    intro = "".join(PROSE)
    model = rig.script(said(intro, *["fo"] * 200), said("Done."))
    post(served, model, detector=detector, divergence_token=TOKEN)
    again = upstream.seen[model][1].json["messages"]
    assert again[-1]["content"] == intro + TOKEN


def test_a_model_has_settings_of_its_own(rig, upstream):
    model = rig.script(said(*LOOP), said("Done."))
    served = rig.serve(guard=GuardPolicy(models={model: {"divergence_token": TOKEN}}))
    post(served, model)
    assert TOKEN in json.dumps(upstream.seen[model][1].json["messages"])


def test_a_header_that_cannot_be_used_is_named(rig, served):
    got = post(served, rig.script(said("x")), detector="luck")
    assert got.status_code == 400
    assert "detector" in got.text


def test_a_misspelled_header_is_told_and_costs_nothing(rig, served, upstream):
    model = rig.script(said("Done."))
    body = {"model": model, "messages": ASK}
    sent = {"x-millgate-contxt": "on", "x-millgate-guard": "off"}
    got = web.post(served.url + "/v1/chat/completions", json=body, headers=sent, timeout=MOST_S)
    assert got.status_code == 200
    told = got.headers["x-millgate-ignored"]
    assert told == "x-millgate-contxt (did you mean x-millgate-context?)"
    assert "x-millgate-contxt" not in upstream.seen[model][0].headers


def test_every_header_that_the_proxy_reads_is_known():
    sent = [(f"{PREFIX}{name.replace('_', '-')}".encode(), b"") for name in Options.model_fields]
    assert len(sent) > 10
    assert describe_unknown(sent) == ""
