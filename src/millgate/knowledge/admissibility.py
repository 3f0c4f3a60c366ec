"""Admissibility: the token that makes a slice usable. Only this file makes or verifies one.

token = hex of the first 16 bytes of HMAC-SHA256(secret,
"slice_id|anchor|policy_id|params_hash|snapshot_hash|schema|version"). A slice without a token is not admissible. A
token is verified together with its slice: the hashes are computed anew from the turns, so a slice that was widened,
re-ordered or edited is refused whatever token it shows. Comparison takes the same time wherever two tokens differ, and
every secret is tried. After a rotation the former secret verifies until it expires, and no longer signs.
"""

import hmac
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any

import orjson

from millgate.errors import InputError
from millgate.knowledge.slices import SCHEMA, VERSION, Slice, SliceTurn
from millgate.types import Chunk, Secret

TOKEN_CHARS = 32
_NO_TOKEN = "0" * TOKEN_CHARS  # compared in place of a missing token, so that absence takes as long


def sign(slice: Slice, key: bytes) -> Slice:
    """The slice with its token."""
    if not key:
        raise InputError("a slice cannot be signed with an empty secret")
    if not slice.consistent:
        raise InputError("a slice that does not match its hashes is not signed", hint="cut it anew")
    return replace(slice, token=_token(slice, key))


def verify(slice: Slice, secrets: Sequence[Secret], *, now: float) -> bool:
    """Whether the slice is what one of the secrets, still valid now, has signed."""
    shown = (slice.token or _NO_TOKEN).encode("utf-8", "replace")
    verified = False
    for secret in secrets:
        alive = bool(secret.key) and (secret.expires is None or now < secret.expires)
        same = hmac.compare_digest(_token(slice, secret.key).encode(), shown)
        verified |= alive and same
    return verified and slice.token is not None and slice.consistent


def admit(chunks: Iterable[Chunk], slice: Slice) -> tuple[Chunk, ...]:
    """Those of the chunks that the signed slice holds, with the same text, carrying its token."""
    if slice.token is None:
        raise InputError("the slice has no token", hint="sign it first")
    inside = {turn.id: turn.digest for turn in slice.turns}
    return tuple(
        replace(chunk, admission=slice.token)
        for chunk in chunks
        if inside.get(chunk.id) == SliceTurn.from_chunk(chunk).digest
    )


def is_admissible(chunk: Chunk, slice: Slice, secrets: Sequence[Secret], *, now: float) -> bool:
    """Whether the chunk carries the token of a slice that verifies and that holds this very text."""
    if chunk.admission is None or slice.token is None:
        return False
    same = hmac.compare_digest(
        chunk.admission.encode("utf-8", "replace"), slice.token.encode("utf-8", "replace")
    )
    return verify(slice, secrets, now=now) and same and bool(admit([chunk], slice))


def load(data: object) -> Slice:
    """The slice in the values that `asdict` gives; a clear error for anything else. Loading does not verify it."""
    if not isinstance(data, Mapping):
        raise InputError("a slice is a JSON object", hint="give what `millgate graph slice` wrote")
    try:
        orjson.dumps(
            data
        )  # refuses what cannot be hashed: half a surrogate pair, numbers without end
        names = ("id", "anchor", "policy_id", "params_hash", "snapshot_hash")
        return Slice(
            **{name: _text(data, name) for name in names},
            turns=tuple(SliceTurn(**dict(row)) for row in data["turns"]),
            edges=tuple((str(a), str(b)) for a, b in data["edges"]),
            schema=str(data.get("schema", SCHEMA)),
            version=str(data.get("version", VERSION)),
            token=None if data.get("token") is None else _text(data, "token"),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"this is not a slice: {error}", hint="give it unchanged") from None


def _text(data: Mapping[str, Any], name: str) -> str:
    if not isinstance(data[name], str):
        raise TypeError(f"{name} is {type(data[name]).__name__}, not text")
    return str(data[name])


def _token(slice: Slice, key: bytes) -> str:
    message = slice.message.encode("utf-8", "surrogatepass")
    return hmac.new(key, message, sha256).hexdigest()[:TOKEN_CHARS]
