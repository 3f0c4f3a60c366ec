"""A dialect that a user's package adds is served, guarded and called with a held key like one of ours."""

import pytest
from tests.guard.dialects.acme import install_dialect
from tests.proxy import web
from tests.proxy.upstream import LOOP, UNIT, said
from tests.waiting import MOST_S

from millgate.errors import ConfigError
from millgate.guard.dialects import installed_dialects
from millgate.service.proxy.app import routes
from millgate.service.proxy.proxy import Proxy
from millgate.types.policy import ProxyPolicy


@pytest.fixture
def install(tmp_path, monkeypatch):
    yield lambda value: install_dialect(value, tmp_path, monkeypatch)
    installed_dialects.cache_clear()


def test_a_loop_is_cut_in_an_api_that_a_package_adds(rig, upstream, install):
    install("acme_millgate:AcmeDialect")
    held = ProxyPolicy(upstreams={"main": rig.at(key="sk-HELD")})
    served = rig.serve(held, key="k1")
    model = rig.script(said(*LOOP), said("All is well."))
    body = {"model": model, "turns": [{"role": "user", "content": "Hi"}], "stream": True}
    got = web.post(f"{served.url}/v1/acme/chat", json=body, timeout=MOST_S)
    assert got.status_code == 200, got.text
    assert "All is well." in got.text
    assert got.text.count(UNIT) <= 3
    first, second = upstream.seen[model]
    assert first.path == "/v1/acme/chat"
    assert first.headers["authorization"] == "Bearer sk-HELD"
    assert len(second.json["turns"]) > 1


async def test_a_dialect_cannot_take_a_path_of_the_service(install):
    install("acme_millgate:Ours")
    proxy = Proxy(ProxyPolicy())
    with pytest.raises(ConfigError, match="/v1/context, which the proxy does not serve"):
        routes(proxy)
    await proxy.close()
