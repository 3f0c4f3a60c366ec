"""Origin: which page a browser says it sent a request from."""

from collections.abc import Mapping
from urllib.parse import urlsplit

Headers = Mapping[bytes, bytes]


def is_same_origin(headers: Headers) -> bool:
    """Whether the request comes from no web page at all, or from a page of the host it was sent to."""
    if headers.get(b"sec-fetch-site", b"none") not in (b"none", b"same-origin"):
        return False
    origin = headers.get(b"origin")
    if origin is None:
        return True
    try:
        return urlsplit(origin.decode("latin-1")).netloc.encode("latin-1") == headers.get(b"host")
    except ValueError:
        return False
