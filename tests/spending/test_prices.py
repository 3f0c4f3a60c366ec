"""Prices: whose name fits, what a request of some size costs, and that nothing is fetched."""

import subprocess
import sys

import pytest

from millgate.spending.prices import Price, Prices

OWN = Price(input=1, output=2)


@pytest.mark.parametrize(
    "name",
    [
        "our-model", "Our-Model", "acme/our-model", "our-model-latest", "our-model-20260102", "our-model-2026-01-02",
        "our-model@20260102", "eu.acme.our-model-20260102-v1:0", "publishers/acme/models/our-model",
    ],
)  # fmt: skip
def test_a_name_fits_with_a_date_a_region_or_a_vendor_around_it(name):
    assert Prices({"our-model": OWN}).find(name) == OWN


@pytest.mark.parametrize("name", ["our-model-mini", "our-models", "our-model-2", "my-our-model", "our"])  # fmt: skip
def test_a_name_never_fits_by_its_beginning_alone(name):
    assert Prices({"our-model": OWN}).find(name) is None


@pytest.mark.parametrize("name", ["gpt-5-turbo", "claude-opus-4-5-turbo", "gemini-2.5-pro-giant"])
def test_the_lists_are_held_to_whole_names_too(name):
    assert Prices().find(name) is None


def test_the_more_exact_of_two_names_holds():
    dated, undated = Prices().find("gpt-4o-2024-05-13"), Prices().find("gpt-4o-2024-11-20")
    assert (dated.input, undated.input) == (5, 2.5)


def test_who_is_called_decides_whose_list_holds():
    assert Prices().find("foo-1", url="https://api.anthropic.com") is None
    assert Prices().dearest("foo-1", url="https://api.anthropic.com/v1")[0].startswith("claude-")
    assert Prices().dearest("gemini-99")[0].startswith("gemini-")
    assert Prices().find("openai/o1-pro", url="https://openrouter.ai/api/v1").input == 150


@pytest.mark.parametrize(
    "host", ["127.0.0.1:11434", "[::1]:8000", "localhost:1234", "192.168.1.7", "ollama:11434", "gpu.local"]
)  # fmt: skip
def test_an_unknown_model_on_a_server_of_the_own_network_is_free(host):
    name, price = Prices().dearest("our-model", url=f"http://{host}/v1")
    assert (name.partition(" ")[0], price.cost(fresh=10**6, output=10**6)) == ("free", 0)
    assert Prices().dearest("claude-opus-99", url=f"http://{host}/v1")[0].startswith("claude-")


@pytest.mark.parametrize("url", ["https://models.example.com/v1", "https://8.8.8.8/v1", ""])
def test_an_unknown_model_elsewhere_counts_as_the_dearest_of_all(url):
    assert Prices().dearest("our-model", url=url)[0] == "o1-pro"


def test_what_is_read_from_a_cache_or_written_to_it_has_its_own_price():
    price = Price(input=10, output=20, cached=1, written=12, written_1h=16)
    assert price.cost(fresh=1, read=1, written=3, hour=2, output=1) == pytest.approx(75e-6)
    assert OWN.cost(fresh=1, read=1, written=3, hour=2, output=1) == pytest.approx(7e-6)


NO_NETWORK = """
import sys
def refuse(event, _):
    if event in ("socket.connect", "socket.getaddrinfo"):
        raise SystemExit(f"it asked the network: {event}")
sys.addaudithook(refuse)
import threading
import millgate.spending.prices as prices
assert "genai_prices" not in sys.modules
assert prices.Prices({"m": prices.Price(input=1, output=1)}).find("m")
assert "genai_prices" not in sys.modules
assert prices.Prices().find("gpt-5")
assert threading.active_count() == 1
"""


def test_the_lists_are_imported_for_a_price_alone_and_ask_no_network():
    done = subprocess.run([sys.executable, "-c", NO_NETWORK], capture_output=True, text=True, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr
