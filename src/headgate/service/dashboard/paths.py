"""Paths: where the dashboard lives, and which of its paths need no key.

Everything is under one prefix, so that the cookie with the key is sent to no other route.
"""

PREFIX = "/dashboard"
HOME = f"{PREFIX}/"
SIGN_IN = f"{PREFIX}/sign-in"
STATIC = f"{PREFIX}/static/"


def is_dashboard(path: str) -> bool:
    """Whether a path belongs to the dashboard."""
    return path == PREFIX or path.startswith(f"{PREFIX}/")


def is_open(path: str) -> bool:
    """Whether anybody may ask for a path: the way in, and files that are the same for everybody."""
    return path in ("/", SIGN_IN) or path.startswith(STATIC)
