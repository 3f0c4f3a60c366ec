"""Redact: secrets of well-known forms are replaced before a text is stored.

A secret becomes `[redacted openai-key 3f2a9c]`: what it was, and six digits of its hash, so that equal secrets have
equal placeholders and a text stays comparable. Only forms that ordinary text does not have are recognized: a prefix
that the issuer chose, or a frame such as that of a private key. A password without a form of its own is not found.
"""

import re
from hashlib import sha256

from millgate.text.cache import Cache
from millgate.text.lazy_pattern import lazy_compile

# Signs before which a key may begin, beside those that are not part of a word. JSON, a URL and a terminal write a sign
# as an escape that ends with a letter or a digit: backslash n, %3D, ESC[32m.
_ESCAPES = (r"\\[nrtbf]", r"\\u[0-9a-fA-F]{4}", r"%[0-9A-F]{2}", r"\[\dm", r"\[\d\dm")

_BEHIND_ESCAPE = "|".join(f"(?<={sign})" for sign in _ESCAPES)


def _pattern(form: str) -> str:
    """The pattern of a form, in which || ends the letters that every such key begins with: no word runs into them.

    The letters stand first, and what may stand before them is looked at behind them: so `re` searches for the letters.
    """
    letters, mark, rest = form.partition("||")
    if not mark:
        return form
    begins = "|".join((f"(?<!\\w{letters})", *(f"(?<={sign}{letters})" for sign in _ESCAPES)))
    return f"{letters}(?:{begins}){rest}"


# The frame of a private key: all up to its end; if it was cut off before, its headers and the lines of base64.
_PRIVATE_KEY = (
    r"-{4,5} ?BEGIN (?:[A-Z0-9]{1,20} ){0,3}PRIVATE KEY(?: BLOCK)? ?-{4,5}"
    r"(?=(?:[^A-Za-z0-9+/=-]++|-(?!---)|[A-Za-z0-9+/=]{1,31}+(?![A-Za-z0-9+/=])){0,400}+[A-Za-z0-9+/=]{32})"
    r"(?:(?:[^-]|-(?!---))++-{4,5} ?END [A-Z0-9 ]{0,60}-{4,5}"
    r"|(?:(?:[\s>|]|\\{1,4}[nrt])++(?:[A-Za-z-]{3,30}: [^\n\\]{1,200}+|[A-Za-z0-9+/=]{32,}+))++"
    r"(?:(?:[\s>|]|\\{1,4}[nrt])++(?=[A-Za-z+/=]{0,31}[0-9+/=])[A-Za-z0-9+/=]{4,31}+)?)"
)
# A name, the hints, of which one must stand in the text before the pattern is tried, and the pattern. A group "before"
# stays in the text. Lengths are those of real keys, with room for longer ones: issuers lengthen them, never shorten.
_FORMS: tuple[tuple[str, tuple[str, ...], re.Pattern[str]], ...] = tuple(
    (name, hints, lazy_compile(_pattern(form)))
    for name, hints, form in (
        ("millgate-key", ("mg_",), r"mg_||[\w-]{43}(?![\w-])"),
        ("anthropic-key", ("sk-ant-",), r"sk-ant-||[\w-]{20,}+"),
        ("openai-key", ("sk-",), r"sk-||(?<!-sk-)(?:proj-|svcacct-|admin-|or-v1-)?(?=[\w-]{0,200}\d)[\w-]{32,}+"),
        ("aws-key-id", ("AKIA", "ASIA"), r"A||[KS]IA[A-Z2-7]{16}(?![A-Z0-9])"),
        ("aws-secret-key", ("ecretAccessKey", "ecret_access_key", "ECRET_ACCESS_KEY"),
         r"(?P<before>(?:[Ss]ecretAccessKey|secret_access_key|SECRET_ACCESS_KEY)[\"'\\]{0,8}\s{0,4}[=:]\s{0,4}[\"'\\]{0,8})[A-Za-z0-9/+]{40}(?![\w/+])"),
        ("bedrock-key", ("ABSK",), r"ABSK||[A-Za-z0-9+/]{80,}+={0,2}"),
        ("github-token", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"), r"g||(?:h[pousr]_[A-Za-z0-9]{36,}+|ithub_pat_\w{60,}+)"),
        ("gitlab-token", ("glpat-", "glrt-", "gldt-", "glcbt-", "glptt-", "glsoat-", "glft-", "glimt-", "glagent-", "gloas-"),
         r"gl||(?:pat|rt|dt|cbt|ptt|soat|ft|imt|agent|oas)-(?=[\w.-]{0,60}\d)[\w-]{20,}+(?:\.[\w-]{2,12}+){0,2}"),
        ("slack-token", ("xox", "xapp-"), r"x||(?:ox[abeoprs](?:\.xox[bp])?-[A-Za-z0-9-]{10,}+|app-\d-[A-Za-z0-9-]{20,}+)"),
        ("slack-webhook", ("://hooks.slack.com",), r"https://hooks\.slack\.com/(?:services|workflows|triggers)/[\w/]{20,}+"),
        ("google-key", ("AIza",), r"AIza||[\w-]{35}(?![\w-])"),
        ("google-oauth", ("GOCSPX-",), r"GOCSPX-||[\w-]{28}"),
        ("google-oauth", ("ya29.",), r"ya29\.||[\w-]{20,}+"),
        ("google-oauth", ("1//0",), r"1//0||[\w-]{30,}+"),
        ("stripe-key", ("sk_live_", "sk_test_"), r"sk_||(?:live|test)_[A-Za-z0-9]{16,}+"),
        ("stripe-key", ("rk_live_", "rk_test_"), r"rk_||(?:live|test)_[A-Za-z0-9]{16,}+"),
        ("stripe-key", ("whsec_",), r"whsec_||(?:(?:live|test)_)?[A-Za-z0-9+/]{16,}+={0,2}"),
        ("groq-key", ("gsk_",), r"gsk_||[A-Za-z0-9]{40,}+"),
        ("xai-key", ("xai-",), r"xai-||[A-Za-z0-9]{60,}+"),
        ("nvidia-key", ("nvapi-",), r"nvapi-||[\w-]{50,}+"),
        ("perplexity-key", ("pplx-",), r"pplx-||[A-Za-z0-9]{40,}+"),
        ("replicate-token", ("r8_",), r"r8_||[A-Za-z0-9]{36,}+"),
        ("cerebras-key", ("csk-",), r"csk-||[a-z0-9]{40,}+"),
        ("langsmith-key", ("lsv2_",), r"lsv2_||(?:pt|sk)_[a-f0-9]{32}_[a-f0-9]{10}"),
        ("vault-token", ("hvs.", "hvb."), r"hv||[sb]\.(?=[\w-]{0,60}\d)[\w-]{24,}+"),
        ("docker-token", ("dckr_pat_", "dckr_oat_"), r"dckr_||[po]at_[\w-]{20,}+"),
        ("grafana-token", ("glsa_", "glc_"), r"gl||(?:sa_[A-Za-z0-9]{32}_[a-fA-F0-9]{8}|c_[A-Za-z0-9+/]{50,}+={0,2})"),
        ("sentry-token", ("sntrys_", "sntryu_"), r"sntry||(?:s_[A-Za-z0-9+/=_]{40,}+|u_[a-f0-9]{64})"),
        ("atlassian-token", ("ATATT3",), r"ATATT3||[\w=-]{50,}+"),
        ("digitalocean-token", ("_v1_",), r"do||[opr]_v1_[a-f0-9]{64}"),
        ("shopify-token", ("shpat_", "shpca_", "shppa_", "shpss_"), r"shp||(?:at|ca|pa|ss)_[a-fA-F0-9]{32}"),
        ("linear-key", ("lin_api_",), r"lin_api_||[A-Za-z0-9]{32,}+"),
        ("notion-token", ("ntn_",), r"ntn_||[A-Za-z0-9]{40,}+"),
        ("figma-token", ("figd_",), r"figd_||[\w-]{36,}+"),
        ("supabase-token", ("sbp_",), r"sbp_||[a-f0-9]{40}"),
        ("databricks-token", ("dapi",), r"dapi||[a-f0-9]{32}(?:-\d)?(?!\w)"),
        ("age-key", ("AGE-SECRET-KEY-1",), r"AGE-SECRET-KEY-1||[0-9A-Z]{58}"),
        ("postman-key", ("PMAK-",), r"PMAK-||[a-f0-9]{24}-[a-f0-9]{34}"),
        ("newrelic-key", ("NRAK-",), r"NRAK-||[A-Z0-9]{27}"),
        ("azure-key", ("AccountKey=", "AccessKey="), r"(?P<before>A(?:ccount|ccess)Key=)[A-Za-z0-9+/]{40,}+={0,2}"),
        ("azure-secret", ("Q~",), rf"(?:(?<![\w~.-])|{_BEHIND_ESCAPE})[\w~.-]{{3}}\dQ~[\w~.-]{{31,34}}(?![\w~-])"),
        ("azure-signature", ("sig=",), r"(?P<before>[?&;]sig=)[A-Za-z0-9%+/]{40,}+={0,2}"),
        ("huggingface-token", ("hf_",), r"hf_||[A-Za-z]{34}(?!\w)"),
        ("npm-token", ("npm_",), r"npm_||[A-Za-z0-9]{36}(?!\w)"),
        ("pypi-token", ("pypi-",), r"pypi-AgE||[\w-]{50,}+"),
        ("sendgrid-key", ("SG.",), r"SG\.||[\w-]{22}\.[\w-]{43}"),
        ("telegram-token", (":AA",), r"(?<!\d)\d{8,10}:AA[\w-]{33}(?![\w-])"),
        ("jwt", ("eyJ",), r"eyJ||(?<!-eyJ)[\w-]{10,}+\.eyJ[\w-]{10,}+\.[\w-]{20,}+"),
        ("jwe", ("eyJ",), r"eyJ||(?<!-eyJ)[\w-]{10,}+\.[\w-]*+\.[\w-]{10,}+\.[\w-]{10,}+\.[\w-]{16,}+"),
        ("private-key", ("PRIVATE KEY",), _PRIVATE_KEY),
        # Not a port with a path behind it, not a variable, and not the tag of an image.
        ("url-password", ("://",), r"(?P<before>://[\w.%+~-]{0,64}:)(?!\d{1,5}[/?#]|\$[\w{(]{1,64}[})]?@)[^\s@\"'<>{}\\]{3,128}(?=@(?!sha\d)[\w.\[-])"),
    )
)  # fmt: skip

# Hints that may stand in a short word. All others are part of a key, without a blank and with this many characters
# (that of AWS has fewest), so they are looked for in long words alone: of ordinary text that is a small part.
_IN_SHORT_WORDS = ("://", "PRIVATE KEY", "ecretAccessKey", "xox")
_LONG = 20
_RARE = "_JKXz9GIx~/=:-."  # signs of hints, those that ordinary text has least first
# a sign -> the hints that have it: one sign is found ten times as fast as a hint
_HINTS: dict[str, list[str]] = {}
for _hint in (hint for _, hints, _ in _FORMS for hint in hints if hint not in _IN_SHORT_WORDS):
    _HINTS.setdefault(next((sign for sign in _RARE if sign in _hint), _hint[0]), []).append(_hint)

# Hashes of 10 000 texts that hold no hint. All candidates of a trace are looked at, and chunks come back request after
# request: a request that keeps its trace takes 2 % more CPU without it.
_CLEAN = Cache[int, int](2_500_000)


def redact(text: str) -> str:
    """The text with a placeholder for every secret of a form that is known."""
    key = hash(text)
    if _CLEAN.get(key):
        return text
    forms = _likely_forms(text)
    if not forms:  # as for nearly every text
        _CLEAN.put(key, 1)
        return text
    for name, pattern in forms:
        text = pattern.sub(lambda found, name=name: _replace(name, found), text)  # type: ignore[misc]
    return text


def _likely_forms(text: str) -> list[tuple[str, re.Pattern[str]]]:
    """The forms of which a hint stands in the text."""
    words = " ".join([word for word in text.split() if len(word) >= _LONG])
    hints = [hint for hint in _IN_SHORT_WORDS if hint in text]
    for sign, of_sign in _HINTS.items():
        if sign in words:
            hints += [hint for hint in of_sign if hint in words]
    return [(name, pattern) for name, of_form, pattern in _FORMS if not set(hints).isdisjoint(of_form)] if hints else []  # fmt: skip


def _replace(name: str, found: re.Match[str]) -> str:
    before = found.groupdict().get("before", "")
    return before + _placeholder(name, found[0][len(before) :])


def _placeholder(name: str, secret: str) -> str:
    return f"[redacted {name} {sha256(secret.encode('utf-8', 'surrogatepass')).hexdigest()[:6]}]"
