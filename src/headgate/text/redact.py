"""Redact: secrets of well-known forms are replaced before a text is stored.

A secret becomes `[redacted openai-key 3f2a9c]`: what it was, and six digits of its hash, so that equal secrets have
equal placeholders and a text stays comparable. Only forms that ordinary text does not have are recognized: a prefix
that the issuer chose, or a frame such as that of a private key. A password without a form of its own is not found.
"""

import re
from hashlib import sha256

from headgate.text.cache import Cache
from headgate.text.lazy_pattern import lazy_compile

# name, what must stand in the text before the pattern is tried, and the pattern
_FORMS: tuple[tuple[str, tuple[str, ...], re.Pattern[str]], ...] = tuple(
    (name, hints, lazy_compile(pattern))
    for name, hints, pattern in (
        ("headgate-key", ("hg_",), r"(?<!\w)hg_[\w-]{43}(?![\w-])"),
        ("anthropic-key", ("sk-ant-",), r"(?<!\w)sk-ant-[\w-]{20,200}"),
        ("openai-key", ("sk-",), r"(?<![\w-])sk-(?:proj-|svcacct-|admin-|or-v1-)?(?=[\w-]{0,200}\d)[\w-]{32,200}"),
        ("aws-key-id", ("AKIA", "ASIA"), r"(?<![A-Z0-9])A[KS]IA[A-Z2-7]{16}(?![A-Z0-9])"),
        ("github-token", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"), r"(?<!\w)(?:gh[pousr]_[A-Za-z0-9]{36,255}|github_pat_\w{60,255})"),
        ("gitlab-token", ("glpat-",), r"(?<!\w)glpat-[\w-]{20,60}"),
        ("slack-token", ("xox",), r"(?<!\w)xox[abeoprs]-[A-Za-z0-9-]{10,250}"),
        ("slack-webhook", ("://hooks.slack.com",), r"https://hooks\.slack\.com/services/[\w/]{20,100}"),
        ("google-key", ("AIza",), r"(?<!\w)AIza[\w-]{35}(?![\w-])"),
        ("google-oauth", ("GOCSPX-", "ya29."), r"(?<!\w)(?:GOCSPX-[\w-]{28}|ya29\.[\w-]{20,400})"),
        ("stripe-key", ("_live_", "_test_"), r"(?<!\w)(?:sk|rk|whsec)_(?:live|test)_[A-Za-z0-9]{16,250}"),
        ("huggingface-token", ("hf_",), r"(?<!\w)hf_[A-Za-z]{34}(?!\w)"),
        ("npm-token", ("npm_",), r"(?<!\w)npm_[A-Za-z0-9]{36}(?!\w)"),
        ("pypi-token", ("pypi-",), r"(?<!\w)pypi-AgE[\w-]{50,400}"),
        ("sendgrid-key", ("SG.",), r"(?<!\w)SG\.[\w-]{22}\.[\w-]{43}"),
        ("telegram-token", (":AA",), r"(?<!\d)\d{8,10}:AA[\w-]{33}(?![\w-])"),
        ("jwt", ("eyJ",), r"(?<![\w-])eyJ[\w-]{10,2000}\.eyJ[\w-]{10,4000}\.[\w-]{20,1000}"),
        ("private-key", ("-----BEGIN",),
         r"-----BEGIN (?:[A-Z]{1,20} ){0,3}PRIVATE KEY(?: BLOCK)?-----[^-]{20,20000}-----END [A-Z ]{0,60}-----"),
        ("url-password", ("://",), r"(?<=://)[\w.%+~-]{1,64}:[^\s:@/\"'<>{}$]{3,128}(?=@[\w.-])"),
    )
)  # fmt: skip

_RARE = "_JKXz9GIx:-"  # signs of hints, those that ordinary text has least first
# a sign -> the hints that have it: one sign is found ten times as fast as a hint
_HINTS: dict[str, list[str]] = {}
for _hint in (hint for _, hints, _ in _FORMS for hint in hints):
    _HINTS.setdefault(next(sign for sign in _RARE if sign in _hint), []).append(_hint)

# Hashes of 10 000 texts that hold no hint. All candidates of a trace are looked at, and chunks come back request after
# request: a request that keeps its trace takes 2 % more CPU without it.
_CLEAN = Cache[int, bool](2_500_000)


def redact(text: str) -> str:
    """The text with a placeholder for every secret of a form that is known."""
    key = hash(text)
    if _CLEAN.get(key):
        return text
    # nearly every text has none
    if not any(sign in text and any(map(text.__contains__, _HINTS[sign])) for sign in _HINTS):
        _CLEAN.put_many({key: True})
        return text
    for name, hints, pattern in _FORMS:
        if any(hint in text for hint in hints):
            text = pattern.sub(lambda found, name=name: _placeholder(name, found[0]), text)  # type: ignore[misc]
    return text


def _placeholder(name: str, secret: str) -> str:
    return f"[redacted {name} {sha256(secret.encode('utf-8', 'surrogatepass')).hexdigest()[:6]}]"
