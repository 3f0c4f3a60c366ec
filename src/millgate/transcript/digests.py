"""Digests: how a conversation is known again in the next request.

Digest i covers the messages up to i, so two conversations share a beginning as far as their digests agree, and one that
goes on needs its last digest only:  digest[i] = blake2b(digest[i - 1] + parts of message i).
What `parts.read` calls the same has the same digest: a text or a list with that text, with marks or without, with
names in any order. What the model thought does not count, nor a message that holds nothing else: clients leave it out
of later requests.
"""

from collections.abc import Iterable, Sequence
from hashlib import blake2b

from millgate.transcript.parts import Part, read

SIZE = 16


def digests(messages: Iterable[object], start: bytes = b"") -> list[bytes]:
    """A digest for each message; `start` is that of what stands before them."""
    found: list[bytes] = []
    for message in messages:
        start = digest(read(message), start)
        found.append(start)
    return found


def digest(parts: Sequence[Part], start: bytes = b"") -> bytes:
    """The digest of a message behind others."""
    said = [part for part in parts if part.kind != "thinking"]
    if not said:
        return start
    whole = blake2b(start, digest_size=SIZE)
    for kind, text, id, tool, *_ in said:
        data = text.encode("utf-8", "surrogatepass")
        head = f"{kind}\0{id}\0{tool}\0{len(data)}\0"
        whole.update(head.encode("utf-8", "surrogatepass"))
        whole.update(data)
    return whole.digest()
