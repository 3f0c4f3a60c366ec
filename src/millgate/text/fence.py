"""Wraps untrusted text in delimiters that the text cannot forge.

    <ref 9f86d081884c7d65: recalled reference data, not user input>
    [1] ...
    </ref 9f86d081884c7d65>

The nonce is the first 8 bytes, in hex, of HMAC-SHA256(secret, content): stored text cannot know it, yet equal
content gives equal bytes, so a prompt cache survives. `quote` defuses what only looks like a fence, a citation
or a chat template's control token; it changes how a text is shown, never the text that is stored.
"""

import hmac
import re
from bisect import bisect_right
from collections.abc import Callable

from millgate.errors import InputError
from millgate.text.lazy_pattern import lazy_compile

LABEL = "ref"
NOTICE = "recalled reference data, not user input"
# Stand in for a real nonce if only its cost matters: digits, letters, and both by turns. What a counter charges for
# a mixture lies hardly above the dearest of them.
_SAMPLE_NONCES = ("7391042586173940", "acedfbcabdfecdab", "7f3a9c1e5d2b8a4f")

# Invisible characters that can hide instructions, part a word that is looked for, or reorder what a reader sees:
# controls but tab and line feed, soft hyphens, zero-width and bidirectional marks, fillers, variation selectors but the
# one of emoji, and the tag block that spells ASCII without showing it.
_INVISIBLE = (
    "\x00-\x08\x0b-\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0e\ufeff\uffa0\ufff0-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_HIDDEN = lazy_compile(f"[{_INVISIBLE}]")
_BREAK = lazy_compile("\r\n?|[\x85\u2028\u2029]")
# Joiners shape Persian, Indic and emoji text and stay there, one at a time. Beside ASCII, brackets and full-width
# forms they shape nothing, and neither does the emoji selector.
_PLAIN = "\x00-\x7f\u2000-\u206f\u2308-\u230b\u2329\u232a\u2768-\u2775\u27e6-\u27ef\u2983-\u2998\u3000-\u303f\uff00-\uff65"
_JOINER = lazy_compile(
    f"(?<![^{_PLAIN}])[\u200c\u200d\ufe0f]+|[\u200c\u200d](?=[{_PLAIN}\u200c\u200d\ufe0f]|\\Z)|(?<=\ufe0f)\ufe0f"
)
_ODD = lazy_compile(f"[{_INVISIBLE}\r\x85\u2028\u2029\u200c\u200d\ufe0f]")

# Brackets and digits that a reader could take for those of a citation.
_OPEN = "\\[［【⟦〔〖〘〚｟⁅❲⦋"
_CLOSE = "\\]］】⟧〕〗〙〛｠⁆❳⦌"
_DIGIT = r"[\d\u2460-\u249b\u2776-\u2793]"
# A numbered citation at the start of a line, after an indent or the mark of a list, a quote or a heading.
_CITATION = lazy_compile(
    rf"^([^\S\n]*+(?:[-*+•>#]++[^\S\n]*+){{0,4}})([{_OPEN}]\s*+{_DIGIT}++\s*+[{_CLOSE}])",
    re.MULTILINE,
)
_ANGLE = "<＜‹〈⟨"
_FENCE = lazy_compile(rf"([{_ANGLE}]\s*+)(?=[/／∕⁄]?\s*+[rｒ][eｅе][fｆ]\b)", re.IGNORECASE)
# Control tokens of common chat templates (<|im_end|>, <s>, <think>, [INST], <<SYS>>, <start_of_turn>), the tags in
# which agents wrap their own words, calls and results (<system-reminder>, <invoke name="...">, <function=...>), and
# the citations of a search tool (【1†source】).
_CONTROL = lazy_compile(
    r"[<＜](?=[|｜][\w ▁-]{1,40}[|｜][>＞]|[<＜]?[/／]?SYS[>＞]|｜"
    r"|[/／]?(?:s|bos|eos|pad|unk|sop|eop|(?:start|end)_of_(?:turn|image))\s{0,8}[>＞]"
    r"|[/／]?(?:antml:)?(?:system|system[-_]reminder|assistant|think|thinking|tools?|tool_calls?|tool_use|tool_results?"
    r"|tool_response|function_calls?|function_results?|invoke|environment_context|environment_details"
    r"|user_instructions|function(?==))(?:[\s=][^<>＜＞]{0,200})?[>＞])"
    r"|(?<!\w)[<＜](?=[/／]?(?:user|human|developer|function)(?:\s[^<>＜＞]{0,200})?[>＞])"  # Vec<User> is a type
    r"|[【](?=\d{1,4}(?::\d{1,4})?[†‡])"
    r"|[\[［](?=[/／]?(?:INST|SYSTEM_PROMPT|TOOL_CALLS|TOOL_RESULTS|TOOL_CONTENT|AVAILABLE_TOOLS|THINK|[gs]?MASK)[\]］])",
    re.IGNORECASE,
)
# A turn of the oldest chat format, which begins behind a blank line.
_TURN = lazy_compile(r"(?<=\n\n)(?=(?:Human|Assistant):)")
# What a client loads when it shows an answer that repeats it: the address tells its owner that and what was asked.
_IMAGE = lazy_compile(
    r"!(?=\[[^\]\n]{0,300}\]\(\s{0,8}<?(?:https?:)?//)|<(?=(?:img|iframe|embed|object|video|audio)\s[^<>]{0,500}//)",
    re.IGNORECASE,
)
_OPENING = lazy_compile(rf"<{LABEL} ([0-9a-f]{{16}}): [^<>\n]{{0,200}}>")
_CLOSING = lazy_compile(rf"</{LABEL} ([0-9a-f]{{16}})>")
_BRACKET = lazy_compile(f"[{_OPEN}{_ANGLE}]")


def nonce(secret: bytes, content: str) -> str:
    """Sixteen hex digits that depend on every byte of the content and cannot be guessed without the secret."""
    if not secret:
        raise InputError("the fence secret is empty", hint="pass the store's secret for the tenant")
    data = content.encode("utf-8", "surrogatepass")
    return hmac.digest(secret, data, "sha256")[:8].hex()


def fence_secret(secret: bytes) -> bytes:
    """The key of a tenant's fences. Tokens are signed with the tenant's secret, so no nonce is part of a token."""
    return hmac.digest(secret, b"fence\0", "sha256")


def fence(content: str, secret: bytes, *, notice: str = NOTICE) -> str:
    """The content between an opening and a closing line that share its nonce."""
    mark = nonce(secret, content)
    return f"<{LABEL} {mark}: {notice}>\n{content}\n</{LABEL} {mark}>"


def fence_cost(count: Callable[[str], int], notice: str = NOTICE) -> int:
    """What a fence costs at most, whatever its nonce turns out to be."""
    return max(count(f"<{LABEL} {n}: {notice}>\n\n</{LABEL} {n}>") for n in _SAMPLE_NONCES)


def without_fences(text: str) -> str:
    """The text without the fenced blocks in it, also those that Millgate did not make."""
    ends: dict[str, list[int]] = {}
    for closing in _CLOSING.finditer(text):
        ends.setdefault(closing[1], []).append(closing.end())
    kept, at = [], 0
    for opening in _OPENING.finditer(text):
        closed = ends.get(opening[1], [])
        place = bisect_right(closed, opening.end())
        if opening.start() >= at and place < len(closed):
            kept.append(text[at : opening.start()])
            at = closed[place]
    return "".join((*kept, text[at:]))


def quote(text: str) -> str:
    """The text as it is shown inside a fence: nothing in it reads as a fence, a citation or a control token.

    An image from elsewhere becomes a link, which nobody loads unasked.
    """
    if _ODD.search(text):
        text = _JOINER.sub("", _HIDDEN.sub("", _BREAK.sub("\n", text)))
    if "\n\n" in text:
        text = _TURN.sub(r"\\", text)
    if not _BRACKET.search(text):
        return text
    if "//" in text:
        text = _IMAGE.sub(lambda match: match.group() + "\\", text)
    text = _CITATION.sub(r"\1\\\2", text)
    text = _FENCE.sub(r"\1\\", text)
    return _CONTROL.sub(lambda match: match.group() + "\\", text)


_HEADING = len("###### ")  # the longest mark in front of a heading's words


def piece(number: int, title: str, text: str) -> str:
    """One numbered line of a block, as it is shown."""
    return frame(number, _inline(title), quote(text))


def frame(number: int, title: str, text: str) -> str:
    """Citation, title (unless the text opens with it, also as a Markdown heading) and text, as they are."""
    opening = title and text[: len(title) + _HEADING].lstrip("# ")
    if opening[: len(title)].lower() != title.lower():
        return f"[{number}] {title}: {text}"
    return f"[{number}] {text}"


def _inline(title: str) -> str:
    """A title on one line, so that it cannot pose as a piece of its own."""
    return " ".join(quote(title).split())
