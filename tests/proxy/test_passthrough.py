"""Requests that the guard does not read: of which model they are, and to whom they go."""

import threading

import pytest
from tests.proxy import web
from tests.proxy.upstream import answer
from tests.waiting import MOST_S

from millgate.service.proxy import answer as proxy_answer
from millgate.service.proxy import request
from millgate.service.proxy.proxy import _model_of
from millgate.text import bounded_json
from millgate.text.bounded_json import loads

JSON = [(b"content-type", b"application/json; charset=utf-8")]


@pytest.mark.parametrize(
    ("path", "headers", "body", "model"),
    [
        ("/v1/models/gpt-x", [], b"", "gpt-x"),
        ("/v1/embeddings", JSON, b'{"model": "small"}', "small"),
        ("/v1/embeddings", [], b'{"model": "small"}', ""),
        ("/v1/embeddings", JSON, b"{", ""),
        ("/v1/embeddings", JSON, b'["model"]', ""),
        ("/v1/embeddings", JSON, b'{"model": 5}', ""),
    ],
)
def test_a_model_is_read_from_the_path_or_a_json_body(path, headers, body, model):
    assert _model_of(path, headers, body) == model


@pytest.mark.parametrize("path", ["/v1/embeddings", "/v1/chat/completions"])
def test_a_large_body_is_not_parsed_on_the_event_loop(rig, served, monkeypatch, path):
    threads = []

    def spy(body):
        threads.append(threading.current_thread())
        return loads(body)

    for module in (bounded_json, request, proxy_answer):
        monkeypatch.setattr(module, "loads", spy)
    model = rig.script(answer(" ".join(str(n * n) for n in range(40_000))))
    asked = {"model": model, "input": [], "messages": [{"role": "user", "content": "word " * 500_000}]}  # fmt: skip
    got = web.post(served.url + path, json=asked, timeout=MOST_S)
    assert got.status_code == 200
    assert threads
    assert rig.background.thread not in threads
