"""A gate that fails lets the call through: the upstream gets what the client wrote, and the client what it answered."""

import shutil

import pytest
from tests.proxy import web
from tests.proxy.conftest import ProxyRig
from tests.proxy.upstream import PROSE, said
from tests.waiting import MOST_S

from millgate import Millgate
from millgate.calls import bugs
from millgate.pipeline.engine import Engine
from millgate.service.app import create
from millgate.settings import Settings
from millgate.types.policy import ProxyPolicy

ROWS = [{"id": "keeper", "text": "The keeper opens the gate at dawn and walks along the dike."}]
QUESTION = "When does the keeper open the gate?"


@pytest.fixture
def served(tmp_path):
    """A service that adds context to each call, over a store in a folder; and a way to ask it."""
    rig = ProxyRig()
    proxy = ProxyPolicy(upstreams={"main": rig.at()}, context=True)
    settings = Settings(store=str(tmp_path / "kb"), proxy=proxy)
    with Millgate.open(settings=settings) as gate:
        gate.add(ROWS)
        url, stop = rig.app(create(gate))

        def ask(question):
            model = rig.script(said(*PROSE))
            body = {"model": model, "stream": True, "messages": [{"role": "user", "content": question}]}  # fmt: skip
            reply = web.post(f"{url}/v1/chat/completions", json=body, timeout=MOST_S)
            assert (reply.status_code, reply.content) == (200, b"".join(said(*PROSE)))
            (call,) = rig.upstream.seen[model]
            return call.json["messages"][0]["content"]

        yield ask
        stop()
    rig.close()


def test_with_a_store_that_works_the_model_gets_the_evidence(served):
    assert "at dawn" in served(QUESTION)


def test_a_store_that_is_gone_costs_the_context_and_not_the_answer(served, tmp_path):
    served("Who is there?")  # so that it is known whether callers need keys
    shutil.rmtree(tmp_path / "kb")
    assert served(QUESTION) == QUESTION


def test_a_bug_of_ours_costs_the_context_and_not_the_answer(served, monkeypatch):
    def broken(*_, **__):
        raise RuntimeError("a bug")

    monkeypatch.setattr(Engine, "build", broken)
    strict = bugs.set_strict(False)  # as for users: a bug is logged and not raised
    try:
        assert served(QUESTION) == QUESTION
    finally:
        bugs.set_strict(strict)
