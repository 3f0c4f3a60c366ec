"""Upstreams behind TLS, as every hosted model is: trusted, agreed on HTTP/2 or not, and not trusted."""

import asyncio
import ssl

import pytest
import trustme
from tests.proxy import web
from tests.proxy.test_http2 import Http2Upstream
from tests.proxy.upstream import LOOP, PROSE, Upstream, said

from headgate.policy import ProxyPolicy, UpstreamPolicy
from headgate.service.proxy import http1, http2

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
        http1._trust.cache_clear()
        http2._trust.cache_clear()
        yield
    http1._trust.cache_clear()
    http2._trust.cache_clear()


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
    return web.post(f"{served.url}/v1/chat/completions", json=body, timeout=20)


@pytest.mark.parametrize("wish", [False, True], ids=["http/1.1", "http/2 is asked for in vain"])
def test_a_stream_over_tls_arrives_byte_for_byte(rig, old, wish):
    old.script("clean", said(*PROSE))
    assert asked(rig, old.port, "clean", http2=wish).content == b"".join(said(*PROSE))


def test_a_loop_over_tls_is_cut_and_resumed(rig, old):
    old.script("loop", said(*LOOP), said("Well."))
    got = asked(rig, old.port, "loop")
    assert "Well." in got.text
    assert got.text.count(LOOP[-1]) < len(LOOP)


def test_http2_is_agreed_on_over_tls(rig):
    class Modern(Http2Upstream):
        links = 0
        scripts = {"secured": [(said(*PROSE), False)]}  # noqa: RUF012  # as its base has it

    async def begin():
        tls = secured(AUTHORITY, "h2", "http/1.1")
        return await asyncio.get_running_loop().create_server(Modern, "127.0.0.1", 0, ssl=tls)

    server = rig.run(begin())
    got = asked(rig, server.sockets[0].getsockname()[1], "secured", http2=True)
    rig.background.loop.call_soon_threadsafe(server.close)
    assert got.content == b"".join(said(*PROSE))
    assert Modern.links == 1


def test_a_certificate_that_nobody_vouches_for_is_refused_and_said(rig):
    stranger = rig.run(Upstream().start(secured(trustme.CA(), "http/1.1")))
    stranger.script("secret", said("x"))
    got = asked(rig, stranger.port, "secret")
    rig.run(stranger.stop())
    assert got.status_code == 502
    assert "certificate" in got.json()["error"]["message"]
    assert not stranger.seen["secret"]
