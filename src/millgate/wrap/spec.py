"""Spec: what run, supervisor, gateway and agents must know of each other; light, so that the agent starts at once.

A model service's address is a path of ours, and back:

    https://api.openai.com/v1   ⇄   http://127.0.0.1:PORT/SECRET/to/https/api.openai.com/v1

An agent that calls the second is passed on to the first. So where a call goes is never guessed: it is what the agent
was told, and what it was told is what it would have called.
"""

from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from millgate.errors import InputError

TO = "to"
CODEX = "codex"
"""In place of an address: the service that Codex itself chooses, by how its user has logged in."""


LOST_STORE = "# lost store: "
"""Begins a line of a gateway's numbers: that it works without its store, and why."""
MEMORY = ":memory:"
"""The store of a gateway that keeps nothing."""
UPSTREAM = "wrapped"
"""The name under which the gateway knows the supervisor as its upstream."""


@dataclass(frozen=True, slots=True)
class GatewaySpec:
    """What a gateway shall be: its store, what it adds or folds, whom it asks, and who may ask it."""

    store: str | None = None
    inject: bool = False
    remember: bool = False
    """Whether what the agent's compactions lose is put back."""
    fold: bool = False
    """Whether requests are folded; False: as the settings say."""
    patience_s: float = 0.8
    """What gateways may take of one turn while nothing is under way upstream; half of it without a sign of life is too
    long.
    """
    fail_closed: bool = False
    """Whether a call that no gateway can count under a cap is refused, and none goes straight to its service."""
    upstream: str = ""
    """The supervisor's address, which the supervisor sets, as it does the secret."""
    secret: str = ""


def redirect(root: str, url: str) -> str:
    """The address that leads through us to `url`."""
    parts = urlsplit(url)
    is_plain = parts.username is None and not parts.query and not parts.fragment
    if parts.scheme not in ("http", "https") or not parts.hostname or not is_plain:
        raise InputError(
            f"{url!r} is not an address that wrap can pass calls on to",
            hint="give it as http://HOST/PATH or https://HOST/PATH, without a user and a query",
        )
    return f"{root}/{TO}/{parts.scheme}/{parts.netloc}{parts.path.rstrip('/')}"


def read_redirect(path: str) -> tuple[str, str] | None:
    """The service and the path that `to/SCHEME/HOST/PATH` stands for; None if it stands for none."""
    name, scheme, host, *rest = (*path.split("/", 3), "", "", "")[:4]
    host = unquote(host)  # some clients encode the brackets of an IPv6 address
    if name != TO or scheme not in ("http", "https") or not host or set(host) & set("/@?#\\"):
        return None
    return f"{scheme}://{host}", f"/{rest[0]}"
