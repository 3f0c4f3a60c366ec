"""What a store's URL says, what is wrong with one, and that no message shows the password."""

from pathlib import Path
from urllib.parse import quote

import pytest

from millgate.errors import ConfigError
from millgate.settings import Settings
from millgate.stores.open import folder_of
from millgate.stores.postgres.address import parse_address
from millgate.stores.url import hide_password

URL = "postgresql://gate:s3cret@db.example:5433/kb"


def test_our_options_are_taken_out_and_the_rest_goes_to_libpq():
    address = parse_address(
        f"{URL}?replica=r1&replica=r2:5434&max_staleness_s=2.5&pool_size=4&cache=/var/cache/gate&sslmode=require"
    )
    assert address.replicas == ("r1", "r2:5434")
    assert (address.max_staleness_s, address.pool_size) == (2.5, 4)
    assert address.cache == Path("/var/cache/gate")
    assert address.parameters["sslmode"] == "require"
    assert address.at_replica("r2:5434") | {"host": "x", "port": "1"} == (
        dict(address.parameters) | {"host": "x", "port": "1"}
    )


def test_a_server_that_does_not_answer_is_given_up_on_unless_the_address_says_otherwise():
    assert parse_address(URL).parameters["connect_timeout"] == "5"
    assert parse_address(f"{URL}?connect_timeout=9").parameters["connect_timeout"] == "9"


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://gate:s3cret@host:port/kb",
        "postgresql://gate:s3cret@host/kb?nonsense=1",
        "postgresql://gate:s3cret@host/kb?pool_size=many",
        "postgresql://gate:s3cret@host/kb?pool_size=1",
        "postgresql://gate:s3cret@host/kb?timeout_s=inf",
        "postgresql://gate:s3c@ret@host/kb",
        "postgresql://gate:s3cret@host/kb?%zz",
        "postgresql://gate:s3cret%zz@host/kb",
    ],
)
def test_an_address_that_cannot_be_read_is_refused_without_its_password(url):
    with pytest.raises(ConfigError) as caught:
        parse_address(url)
    assert "s3c" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_the_password_is_in_no_text_of_an_address_or_of_the_settings():
    address = parse_address(f"{URL}?replica=r1")
    settings = Settings(store=f"{URL}?password=s3cret")
    for shown in (str(address), repr(address), repr(settings), str(settings)):
        assert "s3cret" not in shown
    assert address.without_password("s3cret is wrong") == "*** is wrong"
    assert hide_password("postgresql://gate:s3@c/ret@host/kb?x=1") == "postgresql://gate@host/kb"
    assert hide_password("postgresql:///kb") == "postgresql:///kb"
    assert hide_password("./kb") == "./kb"


@pytest.mark.parametrize("store", ["mysql://a:s3cret@b/c", str(Path(URL))])
def test_an_address_that_is_no_folder_makes_none(store):
    with pytest.raises(ConfigError) as caught:
        folder_of(store)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("application_name", "my app"),
        ("options", "-c statement_timeout=5s -c work_mem=8MB"),
        ("sslrootcert", "/etc/our certs/root+1.pem"),
    ],
)
def test_options_for_libpq_keep_their_spaces_and_pluses(option, value):
    address = parse_address(f"postgresql://gate@db/kb?{option}={quote(value)}")
    assert address.parameters[option] == value
