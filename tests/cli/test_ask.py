"""`millgate ask`: an answer with citations from a model, or the context alone."""

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from millgate.gateway import Millgate

VARIABLES = ("OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL")


@pytest.fixture(autouse=True)
def store(tmp_path, monkeypatch):
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    with Millgate.open(tmp_path / ".millgate") as gate:
        gate.add({"id": "policy", "text": "Refunds are paid within 14 days."})


@pytest.fixture
def model():
    """A model service on loopback that speaks both APIs, and what it was asked."""
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *args):
            pass

        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            asked.append((self.path, dict(self.headers), body))
            said = "Within 14 days [1]; not [7]."
            answer = {
                "choices": [{"message": {"content": said}}],
                "content": [{"type": "text", "text": said}],
            }
            status = 200
            if body["model"] == "mute":
                answer = {}
            elif body["model"] == "broken":
                status, answer = 500, {"error": {"message": "no such\x1b[31m model " + "x" * 9_000}}
            data = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", asked
    server.shutdown()
    thread.join()
    server.server_close()


def test_without_a_model_the_context_is_printed_and_said_to_be_that(run):
    code, out, err = run("ask", "how long do refunds take?")
    assert code == 0
    assert "Refunds are paid within 14 days." in out
    assert "no model is configured" in err
    assert "and name the model with --model" in err


@pytest.mark.parametrize(
    ("name", "key"),
    [("gpt-5-mini", "OPENAI_API_KEY"), ("claude-opus-4-6", "ANTHROPIC_API_KEY"), ("", "OPENAI_API_KEY")],
)  # fmt: skip
def test_a_model_that_is_named_and_has_no_key_is_an_error_that_names_the_variable(
    run, monkeypatch, name, key
):
    if not name:
        monkeypatch.setenv("MILLGATE_ASK__MODEL", "own")
    code, out, err = run("ask", "how long do refunds take?", *(["--model", name] if name else []))
    assert (code, out) == (2, "")
    assert f"there is no key for the model {name or 'own'}" in err
    assert f"set {key}, or ask.url" in err


@pytest.mark.parametrize(
    ("prefix", "base", "path", "header"),
    [("OPENAI", "/v1", "/v1/chat/completions", "Authorization"), ("ANTHROPIC", "", "/v1/messages", "X-Api-Key")],
)  # fmt: skip
def test_the_model_that_the_variables_name_answers_with_its_sources(
    run, model, monkeypatch, prefix, base, path, header
):
    url, asked = model
    monkeypatch.setenv(f"{prefix}_BASE_URL", url + base)
    monkeypatch.setenv(f"{prefix}_API_KEY", "sk-test")
    code, out, _ = run("ask", "how long do refunds take?", "--model", "m")
    assert code == 0
    assert out.splitlines() == ["Within 14 days [1]; not [7].", "[1] policy"]
    ((where, headers, body),) = asked
    assert where == path
    assert "sk-test" in {name.title(): value for name, value in headers.items()}[header]
    assert "Refunds are paid within 14 days." in body["messages"][-1]["content"]


def test_the_settings_go_before_the_variables_and_their_keys_stay_apart(run, model, monkeypatch):
    url, asked = model
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-openai")
    monkeypatch.setenv("MILLGATE_ASK__URL", f"{url}/v1")
    monkeypatch.setenv("MILLGATE_ASK__MODEL", "m")
    code, out, _ = run("ask", "how long do refunds take?", "--json")
    assert code == 0
    assert json.loads(out)["cited"] == {"1": "policy"}
    assert "sk-of-openai" not in str(asked)


def test_a_model_must_be_named_and_must_say_something(run, model, monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", f"{model[0]}/v1")
    code, _, err = run("ask", "how long do refunds take?")
    assert (code, "--model NAME" in err) == (2, True)
    code, _, err = run("ask", "how long do refunds take?", "--model", "mute")
    assert (code, "answered without text" in err) == (2, True)


def test_what_other_tools_call_search_leads_to_context(run):
    for name in ("search", "query"):
        code, _, err = run(name, "refunds")
        assert (code, "millgate context" in err) == (2, True)


def test_a_model_that_fails_is_told_with_its_address_its_words_and_what_to_do(
    run, model, monkeypatch
):
    monkeypatch.setenv("OPENAI_BASE_URL", f"{model[0]}/v1")
    code, _, err = run("ask", "how long do refunds take?", "--model", "broken")
    assert code == 2
    error, hint = err.splitlines()[-2:]
    assert error.startswith(
        f"error: {model[0]}/v1/chat/completions answered 500: no such\\u001b[31m model xxx"
    )
    assert len(error) < 500
    assert hint.startswith("hint: check the address, the key and the model")
