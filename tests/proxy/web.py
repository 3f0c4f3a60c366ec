"""Plain HTTP calls that do not load the system's certificates each time, which takes longer than the call."""

import ssl
from functools import partial

import httpx2

CONTEXT = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)

request = partial(httpx2.request, verify=CONTEXT, trust_env=False)
get, post, head = (partial(request, method) for method in ("GET", "POST", "HEAD"))
stream = partial(httpx2.stream, verify=CONTEXT, trust_env=False)
