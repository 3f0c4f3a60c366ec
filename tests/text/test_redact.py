"""Secrets of well-known forms are found and replaced, and ordinary text is left alone."""

import sysconfig
from pathlib import Path

import pytest

from millgate.gateway import Millgate
from millgate.settings import Settings
from millgate.text.redact import redact

# Written in two halves, so that no scanner takes this file for a leak.
SECRETS = {
    "millgate-key": "mg_" + "a1B2c3D4-_" * 4 + "xyz",
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
    "aws-secret-key": "wJalrXUtnFEMI/K7MDENG/" + "bPxRfiCYzzzzzzzKEY",
    "bedrock-key": "ABSK" + "QmVkcm9ja0FQSUtleS0x" * 6,
    "groq-key": "gsk_" + "a1B2c3D4e5" * 5 + "zz",
    "xai-key": "xai-" + "a1B2c3D4e5" * 8,
    "nvidia-key": "nvapi-" + "a1B2c3D4-_" * 6 + "abcd",
    "perplexity-key": "pplx-" + "a1B2c3D4" * 6,
    "replicate-token": "r8_" + "a1B2c3D4e" * 4 + "z",
    "cerebras-key": "csk-" + "a1b2c3d4" * 6,
    "langsmith-key": "lsv2_pt_" + "0123456789abcdef" * 2 + "_0123456789",
    "vault-token": "hvs." + "CAESIJ1a2b3c4d5e" * 6,
    "docker-token": "dckr_pat_" + "a1B2c3D4e5_-a1B2c3D4e5f6g7h",
    "grafana-token": "glsa_" + "a1B2c3D4" * 4 + "_0123abcd",
    "sentry-token": "sntrys_" + "eyJpYXQiOjE2" * 10,
    "atlassian-token": "ATATT3" + "xFfGF0a1B2c3D4" * 12,
    "digitalocean-token": "dop_v1_" + "0123456789abcdef" * 4,
    "shopify-token": "shpat_" + "0123456789abcdef" * 2,
    "linear-key": "lin_api_" + "a1B2c3D4e5" * 4,
    "notion-token": "ntn_" + "123456789012" + "a1B2c3D4e5" * 4,
    "figma-token": "figd_" + "a1B2c3D4_-" * 4,
    "supabase-token": "sbp_" + "0123456789abcdef0123" * 2,
    "databricks-token": "dapi" + "0123456789abcdef" * 2,
    "age-key": "AGE-SECRET-KEY-1" + "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA" + "QPZRY9X8GF2TVDW0S3JN54KHCE6M",
    "postman-key": "PMAK-" + "0123456789abcdef01234567" + "-" + "0123456789abcdef0123456789abcdef01",
    "newrelic-key": "NRAK-" + "ABCDEFGHIJKLMNOPQRSTUVWXYZ1",
    "azure-key": "Zm9vYmFyYmF6cXV4" * 5 + "abcdef==",
    "azure-secret": "abc8Q~" + "a1B2c3D4e5f6g7h8i9j0k1l2m3n4o5p6q7",
    "azure-signature": "a1B2c3D4e5" * 4 + "abc%3D",
    "jwe": "eyJhbGciOiJkaXIiLCJlbmMi" + "..a1B2c3D4e5f6g7h8." + "a1B2c3D4" * 8 + ".a1B2c3D4e5f6g7h8i9j0kk",
}  # fmt: skip
BEFORE = {
    "url-password": "postgresql://",
    "aws-secret-key": "aws_secret_access_key = ",
    "azure-key": "AccountName=x;AccountKey=",
    "azure-signature": "https://x.blob.core.windows.net/c?sv=1&sig=",
}


def text_with(name):
    return f"{BEFORE.get(name, 'the key is ')}{SECRETS[name]}{'@db/x' if name == 'url-password' else ', keep it'}"


@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_becomes_a_placeholder_that_names_its_kind(name):
    shown = redact(text_with(name))
    assert SECRETS[name] not in shown
    assert f"[redacted {name} " in shown


ESCAPED = (
    "a line\\n{}\\nanother",
    "a%3D{}&b=c",
    "\x1b[32m{}\x1b[0m",
    '{{"key":"{}"}}',
    "\\u003d{}",
)


@pytest.mark.parametrize("form", ESCAPED)
@pytest.mark.parametrize(
    "name", sorted(SECRETS.keys() - BEFORE.keys() - {"private-key", "telegram-token"})
)
def test_a_secret_is_found_behind_an_escape_that_ends_with_a_letter_or_a_digit(name, form):
    shown = redact(form.format(SECRETS[name]))
    assert f"[redacted {name} " in shown
    assert SECRETS[name][-12:-2] not in shown


LINES = [f"{n:02}" + "MIIEowIBAAKCAQEA7+/a" * 3 for n in range(16)]


@pytest.mark.parametrize("line_end", ["\n", "\\n", "\\\\n"])
@pytest.mark.parametrize(
    ("first", "headers", "last"),
    [
        ("-----BEGIN RSA PRIVATE KEY-----", ["Proc-Type: 4,ENCRYPTED", "DEK-Info: AES-256-CBC,AB12", ""], "-----END RSA PRIVATE KEY-----"),
        ("-----BEGIN PGP PRIVATE KEY BLOCK-----", ["Comment: a-b", ""], "-----END PGP PRIVATE KEY BLOCK-----"),
        ("---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----", ['Comment: "a-b"'], "---- END SSH2 ENCRYPTED PRIVATE KEY ----"),
        ("-----BEGIN PRIVATE KEY-----", [], "MIIE7"),
        ("-----BEGIN PRIVATE KEY-----", LINES * 20, "-----END PRIVATE KEY-----"),
    ],
)  # fmt: skip
def test_a_private_key_is_found_with_headers_cut_off_and_very_long(line_end, first, headers, last):
    shown = redact(f"cat key{line_end}{line_end.join([first, *headers, *LINES, last])} and so on")
    assert not any(line in shown for line in LINES)
    assert "MIIE7" not in shown
    assert shown.endswith("and so on")


def test_nothing_of_a_long_key_stays():
    for prefix in ("sk-ant-", "sk-proj-", "xoxb-", "ya29.", "ghp_", "gsk_"):
        assert redact(f"({prefix}{'a1B2c3D4' * 200})").count("a1B2") == 0


@pytest.mark.parametrize("password", ["pa:ss-w0rd", "pa/ss-w0rd", "pa$$-w0rd", "p" * 100])
@pytest.mark.parametrize("user", ["", "admin"])
def test_a_password_in_a_url_may_hold_any_sign_but_blanks_and_quotes(user, password):
    assert password not in redact(f"redis://{user}:{password}@db:6379/0")


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
        "http://localhost:3000/@vite/client and http://proxy:8080?u=me@x.org",
        "docker://alpine:3.18@sha256:0123456789abcdef",
        "postgres://user:$PASSWORD@host and postgres://user:${PASSWORD}@host",
        "csk-learn dapi_deadbeef_is_not_a_key gsk_keys r8_float glrt-is-the-name-of-a-thing",
        "-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----",
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
    with Millgate.open(settings=Settings(store=str(tmp_path / "kb"))) as gate:
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
    with Millgate.open(settings=settings) as gate:
        gate.add([{"id": "a", "text": "Refunds are paid within 14 days."}])
        made = gate.context(f"refunds with {key}?")
        assert key in gate.trace(made.trace.id).request.query
        assert key in gate.remember(f"The service key is {key}.").fact.content
