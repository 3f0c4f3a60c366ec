"""`millgate serve`: which settings reach the server, what it prints before, and when a browser opens."""

import json
import socket
import webbrowser

import pytest

from millgate.cli.service import address_of
from millgate.service import server


@pytest.fixture
def served(monkeypatch):
    """The settings of each service that would have been started."""
    found = []
    monkeypatch.setattr(
        server, "serve", lambda settings, listener, tell: found.append(settings) or tell()
    )
    return found


@pytest.fixture
def pages(monkeypatch):
    """The pages that a browser was asked for."""
    asked = []
    monkeypatch.setattr(webbrowser, "open", lambda url: asked.append(url) or "fails" not in asked)
    return asked


def test_options_go_over_the_settings_and_what_is_not_given_stays(run, served, pages):
    code, out, _ = run("serve", "--port", "0", "--store", "kb")
    assert code == 0
    assert (served[0].store, served[0].service.port, served[0].service.workers) == ("kb", 0, 1)
    assert out.startswith("Millgate serves kb and its dashboard at http://127.0.0.1:")
    assert "try: curl" in out
    assert "Bearer" not in out
    run("serve", "--port", "0", "--workers", "2", "--host", "localhost")
    assert (served[1].service.workers, served[1].service.host) == (2, "localhost")
    assert served[1].store != "kb"
    assert pages == []


def test_a_proxy_of_the_environment_that_is_ignored_is_named_with_its_setting(
    run, served, monkeypatch
):
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example:3128")
    monkeypatch.setenv("NO_PROXY", "exempt.example")
    for name, url in (("MAIN", "https://api.example/v1"), ("EXEMPT", "https://exempt.example/v1")):
        monkeypatch.setenv(f"MILLGATE_PROXY__UPSTREAMS__{name}__URL", url)
    _, _, err = run("serve", "--port", "0")
    assert "HTTPS_PROXY is not used for the upstream main: set proxy.upstreams.main.proxy" in err
    assert "upstream exempt" not in err


def test_where_a_key_is_needed_the_example_has_one(run, served, monkeypatch):
    monkeypatch.setenv("MILLGATE_SERVICE__KEYLESS", "never")
    assert "Bearer KEY" in run("serve", "--port", "0", "--store", "kb")[1]


def test_json_is_one_line_with_address_and_store(run, served):
    told = json.loads(run("serve", "--port", "0", "--json", "--store", "postgresql://ann:s3cret@h/kb")[1])  # fmt: skip
    assert told["url"].startswith("http://127.0.0.1:")
    assert "s3cret" not in told["store"]


def test_open_asks_a_browser_and_says_if_there_is_none(run, served, pages):
    _, out, err = run("serve", "--port", "0", "--open", "--json")
    assert pages == [json.loads(out)["url"]]
    assert "no browser" not in err
    pages.append("fails")
    assert "no browser was found; open http://127.0.0.1:" in run("serve", "--port", "0", "--open")[2]  # fmt: skip


@pytest.mark.parametrize(("bound", "reached"), [("127.0.0.1", "http://127.0.0.1:"), ("0.0.0.0", "http://127.0.0.1:"), ("::1", "http://[::1]:"), ("::", "http://[::1]:")])  # fmt: skip
def test_an_address_is_one_that_a_browser_takes(bound, reached):
    family = socket.AF_INET6 if ":" in bound else socket.AF_INET
    with socket.socket(family) as listener:
        try:
            listener.bind((bound, 0))
        except OSError:
            pytest.skip("this machine has no IPv6")
        assert address_of(listener) == f"{reached}{listener.getsockname()[1]}"


def test_nothing_is_served_before_the_store_is_open(run, tmp_path):
    (tmp_path / "kb").mkdir()
    (tmp_path / "kb" / "millgate.db").write_bytes(b"no database" * 1_000)
    for options in ((), ("--workers", "2")):
        code, out, err = run("serve", "--store", "kb", "--port", "0", *options)
        assert (code, out) == (2, "")
        assert "is not a database, or damaged" in err
