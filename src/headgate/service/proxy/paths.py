"""Paths: which of those under /v1 are the gate's own; all others belong to the upstreams."""

PREFIX = "/v1/"
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


def is_proxied(path: str) -> bool:
    """Whether a path is passed on."""
    return path.startswith(PREFIX) and path[len(PREFIX) :].split("/", 1)[0] not in OWN
