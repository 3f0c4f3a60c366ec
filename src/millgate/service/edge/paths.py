"""Paths: which belong to the dashboard, which need no key, and which are passed on to an upstream.

The dashboard is under one prefix, so that the cookie with the key is sent to no other route.
"""

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
