"""Secrets of well-known forms are found and replaced, and ordinary text is left alone."""

import sysconfig
from pathlib import Path

import pytest

from headgate.gateway import Headgate
from headgate.settings import Settings
from headgate.text.redact import redact

# Written in two halves, so that no scanner takes this file for a leak.
SECRETS = {
    "headgate-key": "hg_" + "a1B2c3D4-_" * 4 + "xyz",
    "anthropic-key": "sk-ant-" + "api03-Zm9vYmFyYmF6cXV4MTIzNDU2Nzg5MA",
    "openai-key": "sk-" + "proj-abcdefghijklmnopqrstuvwxyz0123456789",
    "aws-key-id": "AKIA" + "IOSFODNN7EXAMPLE"[:15] + "2",
    "github-token": "ghp_" + "0123456789abcdefghijABCDEFGHIJ012345",
    "gitlab-token": "glpat-" + "abcdefghij0123456789",
    "slack-token": "xoxb-" + "123456789012-abcdefghijkl",
    "google-key": "AIza" + "SyA1234567890abcdefghijklmnopqrstuv",
    "stripe-key": "sk_live_" + "0123456789abcdefghijklmn",
    "huggingface-token": "hf_" + "abcdefghijklmnopqrstuvwxyzABCDEFGH",
    "npm-token": "npm_" + "0123456789abcdefghijABCDEFGHIJ012345",
    "jwt": "eyJhbGciOiJIUzI1NiJ9." + "eyJzdWIiOiIxMjM0NTY3ODkwIn0" + ".dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U",
    "private-key": "-----BEGIN RSA PRIVATE KEY-----\n" + "MIIEowIBAAKCAQEA7" * 8 + "\n-----END RSA PRIVATE KEY-----",
    "url-password": "admin:hunter2-secret",
}  # fmt: skip


def text_with(name):
    before = "postgresql://" if name == "url-password" else "the key is "
    return f"{before}{SECRETS[name]}{'@db/x' if name == 'url-password' else ', keep it'}"


@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_becomes_a_placeholder_that_names_its_kind(name):
    shown = redact(text_with(name))
    assert SECRETS[name] not in shown
    assert f"[redacted {name} " in shown


def test_equal_secrets_have_equal_placeholders_and_others_do_not():
    key = SECRETS["github-token"]
    first, second = redact(f"{key} and {key}").split(" and ")
    assert first == second != redact(key[:-1] + "6")


@pytest.mark.parametrize(
    "text",
    [
        "task-oriented-systems-that-ask-for-more-than-one-thing-at-a-time",
        "see sk-learn, disk-based and risk-averse-portfolio-management-strategies-for-everyone",
        "hf_transfer, npm_config_registry, AKIA, eyJ, xoxo-kisses, AIza",
        "http://user@host/path and http://host:8080/x@y",
        "-----BEGIN CERTIFICATE-----",
    ],
)
def test_ordinary_text_stays_as_it_is(text):
    assert redact(text) == text


def test_the_standard_library_holds_next_to_nothing_that_is_taken_for_a_secret():
    files = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))
    texts = [file.read_text("utf-8", "replace") for file in files]
    found = sum(redact(text).count("[redacted ") for text in texts)
    assert len(files) > 100
    assert found <= 3  # documented URLs such as ftp://joe:password@host


def test_nothing_that_is_stored_holds_the_secret(tmp_path):
    key = SECRETS["openai-key"]
    with Headgate.open(settings=Settings(store=str(tmp_path / "kb"))) as gate:
        gate.add([{"id": "a", "text": "Refunds are paid within 14 days."}])
        gate.context(f"refunds with {key}?", window=[f"tool: token={key}"])
        gate.remember(f"The service key is {key}.")
        gate.reviews.ask(f"is {key} right?", collection="main", grades={}, reason="unsure")
    held = b"".join(file.read_bytes() for file in (tmp_path / "kb").rglob("*") if file.is_file())
    assert key.encode() not in held
    assert b"[redacted openai-key" in held


def test_redaction_can_be_turned_off(tmp_path):
    key = SECRETS["openai-key"]
    settings = Settings(store=str(tmp_path / "kb"), redact=False)
    with Headgate.open(settings=settings) as gate:
        gate.add([{"id": "a", "text": "Refunds are paid within 14 days."}])
        made = gate.context(f"refunds with {key}?")
        assert key in gate.trace(made.trace.id).request.query
        assert key in gate.remember(f"The service key is {key}.").fact.content
