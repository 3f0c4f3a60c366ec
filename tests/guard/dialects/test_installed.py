"""Dialects that installed packages add by an entry point."""

import pytest
from tests.guard.dialects.acme import install_dialect

from millgate.errors import ConfigError
from millgate.guard.dialects import DIALECTS, ChatDialect, dialect_for, installed_dialects


@pytest.fixture
def install(tmp_path, monkeypatch):
    yield lambda value: install_dialect(value, tmp_path, monkeypatch)
    installed_dialects.cache_clear()


def test_without_a_package_there_are_those_of_this_one():
    assert installed_dialects() == DIALECTS
    assert type(dialect_for("/v1/acme/chat")) is ChatDialect


def test_a_package_adds_a_dialect_for_its_path(install):
    install("acme_millgate:AcmeDialect")
    assert installed_dialects()[:-1] == DIALECTS
    dialect = dialect_for("/v1/acme/chat")
    assert type(dialect).__name__ == "AcmeDialect"
    turns = [{"role": "user", "content": "Hi"}]
    assert dialect.conversation({"turns": turns}) == tuple(turns)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("acme_millgate:Missing", "cannot be loaded"),
        ("no_such_module:AcmeDialect", "cannot be loaded"),
        ("acme_millgate:make", "not a class that extends Dialect"),
        ("acme_millgate:Bare", "Bare lacks answer_now, error, .*, write"),
        ("acme_millgate:Pathless", "Pathless lacks path"),
        ("acme_millgate:Taken", "the path /v1/messages of MessagesDialect"),
    ],
)
def test_a_dialect_that_cannot_serve_is_an_error_of_the_settings(install, value, reason):
    install(value)
    with pytest.raises(ConfigError, match=reason):
        installed_dialects()
