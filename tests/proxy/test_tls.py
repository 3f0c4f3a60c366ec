"""Upstreams behind TLS, as every hosted model is: trusted and not trusted."""

import ssl

import pytest
import trustme
from tests.proxy import web
from tests.proxy.upstream import LOOP, PROSE, Upstream, said
from tests.waiting import MOST_S

from millgate.types.policy import ProxyPolicy, UpstreamPolicy

AUTHORITY = trustme.CA()


def secured(authority, *protocols):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    context.set_alpn_protocols(list(protocols))
    return context


@pytest.fixture(scope="module", autouse=True)
def trusting(tmp_path_factory):
    """This module's authority is one of the system's, as an operator's own is with SSL_CERT_FILE."""
    path = tmp_path_factory.mktemp("tls") / "authority.pem"
    AUTHORITY.cert_pem.write_to_path(path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSL_CERT_FILE", str(path))
        yield


@pytest.fixture(scope="module")
def old(rig):
    """An upstream that speaks HTTP/1.1 over TLS."""
    upstream = rig.run(Upstream().start(secured(AUTHORITY, "http/1.1")))
    yield upstream
    rig.run(upstream.stop())


def asked(rig, port, model, **more):
    upstream = UpstreamPolicy(url=f"https://127.0.0.1:{port}/v1", answer_s=5, **more)
    served = rig.serve(ProxyPolicy(upstreams={"main": upstream}))
    body = {"model": model, "messages": [{"role": "user", "content": "Hi"}], "stream": True}
    return web.post(f"{served.url}/v1/chat/completions", json=body, timeout=MOST_S)


def test_a_stream_over_tls_arrives_byte_for_byte(rig, old):
    old.script("clean", said(*PROSE))
    assert asked(rig, old.port, "clean").content == b"".join(said(*PROSE))


def test_a_loop_over_tls_is_cut_and_resumed(rig, old):
    old.script("loop", said(*LOOP), said("Well."))
    got = asked(rig, old.port, "loop")
    assert "Well." in got.text
    assert got.text.count(LOOP[-1]) < len(LOOP)


def test_a_certificate_that_nobody_vouches_for_is_refused_and_said(rig):
    stranger = rig.run(Upstream().start(secured(trustme.CA(), "http/1.1")))
    stranger.script("secret", said("x"))
    got = asked(rig, stranger.port, "secret")
    rig.run(stranger.stop())
    assert got.status_code == 502
    assert "certificate" in got.json()["error"]["message"]
    assert not stranger.seen["secret"]
