"""Paths: which belong to the dashboard, which need no key, which are passed on to an upstream, and what a client meant.

The dashboard is under one prefix, so that the cookie with the key is sent to no other route.
"""

import re

from starlette.types import Scope

DASHBOARD = "/dashboard"
HOME = f"{DASHBOARD}/"
SIGN_IN = f"{DASHBOARD}/sign-in"
STATIC = f"{DASHBOARD}/static/"
API = "/v1/"
GEMINI = ("/v1beta/", "/v1alpha/")
# what of it is the gate's own; all else belongs to the upstreams
OWN = frozenset(
    {
        "context",
        "documents",
        "facts",
        "fingerprint",
        "graph",
        "hitl_sessions",
        "hooks",
        "reviews",
        "sessions",
        "strategy",
        "traces",
        "turns",
    }
)
# Half of all clients write a base address without /v1, and some libraries add one of their own to it.
_unversioned = re.compile(r"/(?:chat/completions|completions|embeddings|messages|models|responses)(?:/|$)")  # fmt: skip


def set_version(scope: Scope) -> None:
    """Give the path of a model call its one /v1, if the client's base address lacks it or has it twice."""
    path: str = scope["path"]
    raw: bytes = scope.get("raw_path") or path.encode()
    if path.startswith("/v1/v1/"):
        scope["path"], scope["raw_path"] = path[3:], raw[3:]
    elif _unversioned.match(path):
        scope["path"], scope["raw_path"] = f"/v1{path}", b"/v1" + raw


def is_dashboard(path: str) -> bool:
    """Whether a path belongs to the dashboard."""
    return path == DASHBOARD or path.startswith(f"{DASHBOARD}/")


def is_open(path: str) -> bool:
    """Whether anybody may ask for a path: the way in, and files that are the same for everybody."""
    return path in ("/", SIGN_IN) or path.startswith(STATIC)


def is_proxied(path: str) -> bool:
    """Whether a path is passed on: those of Gemini's versions, and of /v1 what is not ours."""
    if path.startswith(GEMINI):
        return True
    return path.startswith(API) and path[len(API) :].split("/", 1)[0] not in OWN
