"""Fingerprints: what can be compared and stored instead of a text.

sha256 of the normal form; simhash64 over tokens (one changed token of 190 is still seen); minhash128 over
shingles of 5 tokens (3 under 20). They are stored for years, so constants are literals and FORMAT_VERSION
changes whenever any value would. Coverage (`WindowIndex`) sees more than these can and needs the text. A window
travels as
{version, global_sha256, global_simhash64 (hex), global_minhash128 (128 ints),
 spans: [{span_id, sha256, simhash64, minhash128, token_count}], sketch?: {bits, count, data}}.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from millgate.errors import InputError
from millgate.text.coverage import SHINGLE, WindowIndex, shingle_size
from millgate.text.hashes import U32, U64, Tokens, mix, shingle_hashes
from millgate.text.sketch import Sketch
from millgate.text.words import normal, split_spans

__all__ = [
    "FORMAT_VERSION",
    "MINHASH_PERM",
    "SHINGLE",
    "Fingerprint",
    "WindowFingerprint",
    "WindowIndex",
    "fingerprint",
    "fingerprints",
]

FORMAT_VERSION = 1  # of normal form, tokens, hashes, shingle size and permutations together
MINHASH_PERM = 128

# Spans of one window. Each is 128 numbers, and a payload of 500 000 values is the largest that is read over HTTP.
MAX_SPANS = 3_000

_EMPTY = 0xFFFFFFFF  # MinHash of nothing
_ORDER = np.arange(1, MINHASH_PERM + 1, dtype=np.uint64)
_TIMES = mix(_ORDER * np.uint64(0x9E3779B97F4A7C15)) | np.uint64(1)
_PLUS = mix(_ORDER * np.uint64(0xD1B54A32D192ED03))
_HEX_256 = re.compile(r"[0-9a-f]{64}")
_HEX_64 = re.compile(r"[0-9a-f]{16}")


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """One text, in 560 bytes: equal texts have equal ones, similar texts similar ones."""

    sha256: str
    simhash64: int
    minhash128: tuple[int, ...]
    token_count: int
    shingle_count: int
    version: int = FORMAT_VERSION


def fingerprint(text: str) -> Fingerprint:
    """The fingerprint of one text; for many, `fingerprints` is ten times faster."""
    return fingerprints([text])[0]


def fingerprints(texts: Sequence[str]) -> list[Fingerprint]:
    """The fingerprints of many texts at once."""
    digests = [digest(normal(text)) for text in texts]
    return prints(digests, Tokens.of(texts))


def digest(form: str) -> str:
    """sha256 of a normal form, in hex."""
    return sha256(form.encode("utf-8", "surrogatepass")).hexdigest()


def prints(digests: Sequence[str], tokens: Tokens) -> list[Fingerprint]:
    """Fingerprints from digests and token hashes."""
    parts = [tokens.values[a:b] for a, b in pairwise(tokens.bounds.tolist())]
    shingles = [shingle_hashes(part, shingle_size(part.size)) for part in parts]
    mins = minhashes(shingles).tolist()
    return [
        Fingerprint(digests[i], simhash(part), tuple(mins[i]), part.size, _shingle_count(part.size))
        for i, part in enumerate(parts)
    ]


def _shingle_count(tokens: int) -> int:
    return tokens - shingle_size(tokens) + 1 if tokens else 0


def simhash(tokens: U32) -> int:
    """Bit i is the majority of bit i over the tokens' 64-bit hashes; 0 for no tokens."""
    ones = np.zeros(64, dtype=np.int64)
    for start in range(0, tokens.size, 65_536):  # 4 MB of bits at a time
        spread = mix(tokens[start : start + 65_536].astype(np.uint64)).astype("<u8")
        bits = np.unpackbits(spread.view(np.uint8), bitorder="little").reshape(-1, 64)
        ones += bits.sum(axis=0, dtype=np.int64)
    return int.from_bytes(
        np.packbits(2 * ones > tokens.size, bitorder="little").tobytes(), "little"
    )


def minhashes(shingles: Sequence[U64]) -> NDArray[np.uint32]:
    """One row of 128 per text: the least of each permutation a·h + b (mod 2^64), its top 32 bits."""
    rows = np.full((len(shingles), MINHASH_PERM), _EMPTY, dtype=np.uint32)
    filled = [i for i, part in enumerate(shingles) if part.size]
    if not filled:
        return rows
    hashes = mix(np.concatenate([shingles[i] for i in filled]))
    starts = np.cumsum([0, *(shingles[i].size for i in filled[:-1])])
    least = np.empty((MINHASH_PERM, len(filled)), dtype=np.uint64)
    buffer = np.empty_like(hashes)
    for k in range(MINHASH_PERM):
        np.multiply(hashes, _TIMES[k], out=buffer)
        np.add(buffer, _PLUS[k], out=buffer)
        np.minimum.reduceat(buffer, starts, out=least[k])
    rows[filled] = (least >> np.uint64(32)).T
    return rows


@dataclass(frozen=True, slots=True)
class WindowFingerprint:
    """A window without its text: one fingerprint of the whole, one of each span, and perhaps a sketch."""

    whole: Fingerprint
    spans: tuple[Fingerprint, ...] = ()
    sketch: Sketch | None = None

    @classmethod
    def of(cls, texts: Sequence[str], *, sketch: bool = True) -> "WindowFingerprint":
        """Of a window's blocks, each a span; a single text is cut into spans of 190 tokens.

        Of more than MAX_SPANS neighbors are joined.
        """
        # what takes most memory on the way comes first, while little else is held
        own = digest(normal("\n".join(texts)))
        pieces = (
            list(texts)
            if len(texts) > 1
            else [span for text in texts for span in split_spans(text)]
        )
        pieces = _join_neighbors(pieces, MAX_SPANS)
        index = WindowIndex.of(texts)
        sketched = Sketch.of(index) if sketch else None
        whole = prints([own], Tokens(index.tokens, np.array([0, index.tokens.size])))[0]
        del index
        return cls(whole, tuple(fingerprints(pieces)), sketched)

    def to_json(self) -> dict[str, Any]:
        """As plain values, ready for any JSON writer."""
        value: dict[str, Any] = {
            "version": self.whole.version,
            "global_sha256": self.whole.sha256,
            "global_simhash64": f"{self.whole.simhash64:016x}",
            "global_minhash128": list(self.whole.minhash128),
            "spans": [
                {
                    "span_id": str(i),
                    "sha256": span.sha256,
                    "simhash64": f"{span.simhash64:016x}",
                    "minhash128": list(span.minhash128),
                    "token_count": span.token_count,
                }
                for i, span in enumerate(self.spans)
            ],
        }
        return value | ({"sketch": self.sketch.to_json()} if self.sketch else {})

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "WindowFingerprint":
        """From such values; another version, or a field of wrong form, is an InputError that names it.

        A payload without a version is of version 1.
        """
        version = value.get("version", 1)
        if version != FORMAT_VERSION:
            raise _payload_error("version", f"is {version!r}; this release reads {FORMAT_VERSION}")
        rows = value.get("spans", [])
        if not isinstance(rows, Sequence) or not all(isinstance(row, Mapping) for row in rows):
            raise _payload_error("spans", "must be a list of objects")
        pieces = tuple(_parse(row, "", f"spans[{i}].") for i, row in enumerate(rows))
        sketch = value.get("sketch")
        return cls(
            _parse(
                {"token_count": sum(p.token_count for p in pieces) or 1, **value}, "global_", ""
            ),
            pieces,
            None if sketch is None else Sketch.from_json(sketch),
        )


def _join_neighbors(texts: list[str], most: int) -> list[str]:
    """The texts, or, if there are more than `most`, neighbors joined to at most that many."""
    each = -(-len(texts) // most)
    if each <= 1:
        return texts
    return ["\n".join(texts[at : at + each]) for at in range(0, len(texts), each)]


def _parse(row: Mapping[str, Any], prefix: str, where: str) -> Fingerprint:
    """One fingerprint from a payload, with every field checked."""
    digest_, sim, mins, count = (
        row.get(name)
        for name in (f"{prefix}sha256", f"{prefix}simhash64", f"{prefix}minhash128", "token_count")
    )
    if not isinstance(digest_, str) or not _HEX_256.fullmatch(digest_):
        raise _payload_error(f"{where}{prefix}sha256", "must be 64 hex digits")
    if not isinstance(sim, str) or not _HEX_64.fullmatch(sim):
        raise _payload_error(f"{where}{prefix}simhash64", "must be 16 hex digits")
    if not isinstance(mins, Sequence) or isinstance(mins, str) or len(mins) != MINHASH_PERM:
        raise _payload_error(
            f"{where}{prefix}minhash128", f"must be a list of {MINHASH_PERM} integers"
        )
    if not all(type(m) is int and 0 <= m <= _EMPTY for m in mins):
        raise _payload_error(
            f"{where}{prefix}minhash128", f"holds something else than 0 to {_EMPTY}"
        )
    if type(count) is not int or count < 0:
        raise _payload_error(f"{where}token_count", "must be a whole number, 0 or more")
    return Fingerprint(digest_, int(sim, 16), tuple(mins), count, _shingle_count(count))


def _payload_error(field: str, what: str) -> InputError:
    return InputError(
        f"the window fingerprint's {field} {what}",
        hint="send what WindowFingerprint.to_json gave, or the window's texts instead",
    )
