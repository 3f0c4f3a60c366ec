"""A cap in money ends a session at the true amount, and no call passes one in silence.

The amounts are written here by hand, from the price lists of the providers.
"""

import json
import os
import re
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.proxy import web
from tests.proxy.conftest import ProxyRig
from tests.proxy.upstream import PROSE, event, json_head, response_object, said, told
from tests.waiting import MOST_S

from millgate.errors import StoreError
from millgate.gateway import Millgate
from millgate.service.app import create
from millgate.settings import load
from millgate.stores.sqlite.store import SqliteStore
from millgate.testing import strict
from millgate.types.policy import ProxyPolicy

ROOT = Path(__file__).parents[2]
RECORDINGS = ROOT / "tests" / "agents" / "recordings"
# What a million tokens cost in dollars: input, output, read from the cache, written to it, written for an hour.
LISTED = {
    "claude-opus-5-5": ("messages", 4, 20, 0.2, 5, 8),
    "claude-sonnet-4-5": ("messages", 3, 15, 0.3, 3.75, 6),
    "gpt-6.1-sol": ("responses", 2, 10, 0.1, 0, 0),
    "gpt-5.5": ("responses", 5, 30, 0.5, 0, 0),
    "gemini-3.1-pro-preview": ("gemini", 2, 12, 0.2, 0, 0),
}
READ, FRESH, OUTPUT, WRITTEN, HOUR = 50_000, 8_000, 2_000, 6_000, 2_000
TABLE = '[prices]\n"NAME" = {input = 1000, output = 2000}\n'
GROUP = '[prices."NAME"]\ninput = 1000.0\noutput = 2000.0\n'


@pytest.fixture(scope="module")
def rig():
    rig = ProxyRig()
    yield rig
    rig.close()


@contextmanager
def serve(rig, folder, written):
    """The service with a settings file, over the scripted upstream: its address, and its gate."""
    file = folder / "caps.toml"
    file.write_text(written)
    root = rig.at().url.removesuffix("/v1")
    upstreams = {"google": rig.at(models=("gemini-*",)), "main": rig.at()}
    upstreams["google"] = upstreams["google"].model_copy(update={"url": f"{root}/v1beta"})
    proxy = ProxyPolicy(upstreams=upstreams)
    settings = load(file, arguments={"store": str(folder / "kb"), "proxy": proxy}, environ={})
    with Millgate.open(settings=settings) as gate:
        url, stop = rig.app(create(gate))
        try:
            yield url, gate
        finally:
            stop()


def script(rig, api, model):
    """Let a model answer with the usage that its API reports."""
    if api == "messages":
        kinds = {"ephemeral_5m_input_tokens": WRITTEN - HOUR, "ephemeral_1h_input_tokens": HOUR}
        usage = {"input_tokens": FRESH, "cache_read_input_tokens": READ, "cache_creation_input_tokens": WRITTEN, "cache_creation": kinds, "output_tokens": 1}  # fmt: skip
        begin = {"id": "m", "type": "message", "role": "assistant", "model": model, "content": [], "usage": usage}  # fmt: skip
        rig.upstream.script(model, [event("message_start", message=begin), *told(*PROSE, usage=(0, OUTPUT))[1:]])  # fmt: skip
    elif api == "responses":
        whole = response_object("resp_1", usage=(READ + FRESH, OUTPUT))
        whole["usage"]["input_tokens_details"]["cached_tokens"] = READ
        rig.upstream.script(model, [json_head(), json.dumps(whole).encode()])
    elif api == "gemini":
        usage = {"promptTokenCount": READ + FRESH, "cachedContentTokenCount": READ, "candidatesTokenCount": OUTPUT}  # fmt: skip
        whole = {"candidates": [{"content": {"role": "model", "parts": [{"text": "Well."}]}, "finishReason": "STOP"}], "usageMetadata": usage}  # fmt: skip
        path = f"/v1beta/models/{model}:generateContent"
        rig.upstream.script(path, [json_head(), json.dumps(whole).encode()])
    else:
        rig.upstream.script(model, said(*PROSE, usage=(READ + FRESH, OUTPUT)))


def ask(url, model, api="chat", size=100):
    """One call of a session, as an agent makes it."""
    asked, headers = [{"role": "user", "content": "When are refunds paid?"}], {"x-millgate-session": "s"}  # fmt: skip
    paths = {
        "chat": ("/v1/chat/completions", {"messages": asked, "stream": True}),
        "messages": ("/v1/messages", {"messages": asked, "stream": True}),
        "responses": ("/v1/responses", {"input": asked, "max_output_tokens": size}),
        "gemini": (f"/v1beta/models/{model}:generateContent", {"contents": [{"role": "user", "parts": [{"text": "When?"}]}]}),
    }  # fmt: skip
    path, body = paths[api]
    if api != "gemini":
        body |= {"model": model, "max_tokens": size}
    return web.post(url + path, json=body, headers=headers, timeout=MOST_S)


def spent(gate):
    (row,) = [row for row, _ in gate.spending.list_spends() if row.name == "s"]
    return row.total_micros


def capped(micros):
    return f"[fuse.caps]\nsession = {{ cost = {micros / 1e6} }}\n"


# -- at the true amount ----------------------------------------------------------------------------


def test_the_models_of_this_file_are_those_that_agents_ask_by_default():
    found = [re.findall(r'"model": ?"([^"]+)"', file.read_text()) for file in RECORDINGS.iterdir()]
    assert {name for names in found for name in names} - {"scripted-1"} == set(LISTED)


@pytest.mark.parametrize("model", LISTED)
def test_a_session_of_an_agents_own_model_ends_at_the_listed_amount(rig, tmp_path, model):
    api, fresh, output, read, written, hour = LISTED[model]
    wrote = (WRITTEN - HOUR) * written + HOUR * hour if api == "messages" else 0
    one = round(FRESH * fresh + READ * read + OUTPUT * output + wrote)
    script(rig, api, model)
    with serve(rig, tmp_path, capped(3 * one)) as (url, gate):
        codes = [ask(url, model, api).status_code for _ in range(4)]
        assert codes == [200, 200, 200, 402]
        assert spent(gate) == 3 * one


@pytest.mark.parametrize("form", [TABLE, GROUP])
@pytest.mark.parametrize("model", LISTED)
def test_a_price_of_ones_own_stands_before_the_list(rig, tmp_path, model, form):
    api = LISTED[model][0]
    script(rig, api, model)
    with serve(rig, tmp_path, form.replace("NAME", model) + capped(1_000_000)) as (url, gate):
        assert [ask(url, model, api).status_code for _ in range(2)] == [200, 402]
        tokens = READ + FRESH + (WRITTEN if api == "messages" else 0)
        assert spent(gate) == tokens * 1000 + OUTPUT * 2000


def test_a_local_model_with_a_hosted_name_is_free_at_a_price_of_nothing(rig, tmp_path):
    script(rig, "chat", "gpt-oss:20b")
    free = '[prices]\n"gpt-oss:20b" = {input = 0, output = 0}\n'
    with serve(rig, tmp_path, free + capped(1)) as (url, gate):
        assert [ask(url, "gpt-oss:20b").status_code for _ in range(3)] == [200, 200, 200]
        assert spent(gate) == 0


def test_a_long_request_costs_what_long_requests_cost(rig, tmp_path):
    model = "claude-sonnet-4-5"
    with serve(rig, tmp_path, capped(10**9)) as (url, gate):
        for tokens in (200_000, 200_001):
            rig.upstream.script(model, told(*PROSE, usage=(tokens, OUTPUT)))
            assert ask(url, model, "messages").status_code == 200
        assert spent(gate) == 200_000 * 3 + OUTPUT * 15 + 200_001 * 6 + OUTPUT * 22.5


def test_every_model_that_the_pages_name_has_a_price():
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), ROOT / "tests/agents/known.py"]
    written = "\n".join(page.read_text() for page in pages)
    named = set(re.findall(r"\b(?:claude-[a-z]+-\d|gpt-\d|gemini-\d)[\w.-]*\w", written))
    with Millgate.open(":memory:") as gate:
        assert len(named) > 5
        assert {name for name in named if gate.spending.prices.find(name) is None} == set()


# -- a model without a price -----------------------------------------------------------------------

UNKNOWN = {  # and the dearest model of each provider
    "gpt-9-turbo": ("o1-pro", 150, 600),
    "gpt-5.5-turbo": ("o1-pro", 150, 600),  # begins like a model that has a price, and is another one
    "claude-opus-9": ("claude-3-opus-latest", 15, 75),
}  # fmt: skip


@pytest.mark.parametrize("model", UNKNOWN)
def test_a_model_without_a_price_counts_as_the_dearest_and_says_so(rig, tmp_path, caplog, model):
    name, price, output = UNKNOWN[model]
    one = (READ + FRESH) * price + OUTPUT * output
    script(rig, "chat", model)
    with serve(rig, tmp_path, capped(2 * one)) as (url, gate):
        replies = [ask(url, model) for _ in range(3)]
        assert [reply.status_code for reply in replies] == [200, 200, 402]
        assert spent(gate) == 2 * one
        assert f"{model} has no price and counts as {name}" in replies[0].headers["x-millgate-fuse"]
        assert f"{model} has no price and counts as {name}" in caplog.text
        metrics = web.get(f"{url}/metrics").text
        assert f'millgate_fuse_unpriced_total{{model="{model}",priced_as="{name}"}}' in metrics


def test_a_model_of_an_own_server_is_free_and_says_so(rig, tmp_path, caplog):
    script(rig, "chat", "our-model")
    with serve(rig, tmp_path, capped(1)) as (url, gate):
        replies = [ask(url, "our-model") for _ in range(3)]
        assert [reply.status_code for reply in replies] == [200, 200, 200]
        assert spent(gate) == 0
        assert "our-model has no price and counts as free" in replies[0].headers["x-millgate-fuse"]
        assert "our-model has no price and counts as free" in caplog.text


def test_a_cap_in_tokens_asks_for_no_price(rig, tmp_path):
    script(rig, "chat", "gpt-9-turbo")
    with serve(rig, tmp_path, "[fuse.caps]\nsession = { tokens = 100_000 }\n") as (url, _):
        assert "x-millgate-fuse" not in ask(url, "gpt-9-turbo").headers


# -- a cap that fails ------------------------------------------------------------------------------


def fail_with(monkeypatch, error):
    def fail(*_):
        raise error

    monkeypatch.setattr(SqliteStore, "amend_spends", fail)


@pytest.mark.parametrize("error", [StoreError("the disk is full"), AttributeError("a bug of ours")])
def test_a_cap_that_cannot_count_is_loud(rig, tmp_path, monkeypatch, caplog, error):
    fail_with(monkeypatch, error)
    script(rig, "chat", "gpt-5.5")
    with serve(rig, tmp_path, capped(1_000)) as (url, _), strict(False):
        reply = ask(url, "gpt-5.5")
        assert reply.status_code == 200
        assert str(error) in reply.headers["x-millgate-degraded"]
        assert str(error) in caplog.text
        metrics = web.get(f"{url}/metrics").text
        assert "millgate_fuse_uncounted_total 1.0" in metrics
        bugs = float(isinstance(error, AttributeError))
        assert f'millgate_bugs_total{{stage="fuse"}} {bugs}' in metrics


@pytest.mark.parametrize("error", [StoreError("the disk is full"), AttributeError("a bug of ours")])
def test_a_cap_that_cannot_count_is_closed_if_the_operator_says_so(rig, tmp_path, monkeypatch, error):  # fmt: skip
    fail_with(monkeypatch, error)
    script(rig, "chat", "gpt-5.5")
    closed = "[fuse]\nfail_closed = true\n" + capped(1_000)
    with serve(rig, tmp_path, closed) as (url, _), strict(False):
        reply = ask(url, "gpt-5.5")
        assert reply.status_code == 503
        assert str(error) in reply.text
        assert rig.upstream.seen["gpt-5.5"] == []


# -- under wrap ------------------------------------------------------------------------------------

AGENT = """
import json, os, signal, subprocess, sys, urllib.error, urllib.request

def ask():
    body = {"model": sys.argv[1], "max_tokens": 100, "stream": True, "messages": [{"role": "user", "content": "Well?"}]}
    url, head = os.environ["OPENAI_BASE_URL"] + "/chat/completions", {"content-type": "application/json", "authorization": "Bearer k"}
    try:
        urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), head)).read()
    except urllib.error.HTTPError as error:
        return error.code
    return 200

def stop_gateway():
    listed = subprocess.check_output(["ps", "-A", "-o", "ppid=,pid="], text=True).splitlines()
    for parent, pid in (map(int, line.split()) for line in listed):
        if parent == os.getppid() and pid != os.getpid():
            os.kill(pid, signal.SIGSTOP)

if sys.argv[2:] == ["stop"]:
    while ask() == 503:  # the gateway still loads
        pass
    stop_gateway()
    print(ask())
else:
    print(*(ask() for _ in range(4)))
"""


def wrap(rig, folder, settings, *words, patience=60):
    """Run the agent under wrap, with these settings: what it printed, and what wrap said."""
    file = folder / "caps.toml"
    file.write_text(settings)
    environ = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.pathsep.join(sys.path),
        "HOME": str(folder),
        "MILLGATE_CONFIG": str(file),
        "OPENAI_API_KEY": "k",
        "OPENAI_BASE_URL": rig.at().url,
    }
    line = [sys.executable, "-P", "-m", "millgate", "wrap", f"--patience={patience}", "--", sys.executable, "-P", "-c", AGENT, *words]  # fmt: skip
    return subprocess.run(line, cwd=folder, env=environ, capture_output=True, text=True, timeout=MOST_S, check=False)  # fmt: skip


@pytest.mark.parametrize("model", ["gpt-5.5", "gpt-9-turbo"])
def test_a_wrapped_agent_is_stopped_at_its_cap_and_told_at_the_end(rig, tmp_path, model):
    price, output = UNKNOWN[model][1:] if model in UNKNOWN else LISTED[model][1:3]
    script(rig, "chat", model)
    cap = capped(2 * ((READ + FRESH) * price + OUTPUT * output))
    done = wrap(rig, tmp_path, cap, model)
    assert done.stdout.split() == ["200", "200", "402", "402"], done.stderr
    assert len(rig.upstream.seen[model]) == 2
    told_price = f"{model} has no price: 2 calls counted as o1-pro under the cap"
    assert (told_price in done.stderr) == (model in UNKNOWN)


@pytest.mark.parametrize("closed", [True, False])
def test_a_call_past_a_gateway_that_hangs_is_refused_if_the_operator_says_so(rig, tmp_path, closed):
    script(rig, "chat", "gpt-5.5")
    settings = f"[fuse]\nfail_closed = {str(closed).lower()}\n" + capped(10**9)
    done = wrap(rig, tmp_path, settings, "gpt-5.5", "stop", patience=2)
    assert int(done.stdout) == (503 if closed else 200), done.stderr
    assert len(rig.upstream.seen["gpt-5.5"]) == (1 if closed else 2)
    assert ("refused that could not be counted under a cap" in done.stderr) == closed
