"""The environment: which of its MILLGATE_* variables are settings.

MILLGATE_PENALIZE__EXPONENT=1.2 sets what the file calls `exponent` under `[penalize]`. Lists and tables are JSON.
A variable that looks like a setting, with `__` in it or close to a known name, must be one. Others are not ours:
Kubernetes sets MILLGATE_SERVICE_HOST, MILLGATE_PORT_8642_TCP and more in every pod beside a service named millgate.
The names of published/self_reference.py are read too; if both are set, ours holds.
"""

import logging
import re
from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from millgate.errors import ConfigError
from millgate.published.self_reference import ENVIRONMENT, ENVIRONMENT_PREFIX
from millgate.settings.schema import Settings, names
from millgate.text import meant

PREFIX = "MILLGATE_"
CONFIG = PREFIX + "CONFIG"

_KUBERNETES = re.compile(
    r"(^|_)(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$"
)

log = logging.getLogger("millgate.settings")


def variables(environ: Mapping[str, str]) -> Iterator[tuple[str, str, Any]]:
    """The variables that are meant as settings: as spelled, the dotted name, and the value; later ones hold."""
    yield from _read_gateway_names(environ)
    ignored = []
    for variable, value in sorted(environ.items()):
        if not variable.startswith(PREFIX) or variable == CONFIG:
            continue
        bare = variable.removeprefix(PREFIX)
        if bare == "STORE" and not value:  # left blank in a template: it names no folder
            continue
        if "__" in bare or bare.lower() in Settings.model_fields or nearest(variable):
            yield variable, bare.lower().replace("__", "."), parse(value)
        else:
            ignored.append(variable)
    if ignored:
        log.debug("not settings, and ignored: %s", ", ".join(ignored))


def _read_gateway_names(environ: Mapping[str, str]) -> Iterator[tuple[str, str, Any]]:
    """The variables that other gateways of this design read. Others with their prefix belong to another program."""
    for suffix, name in ENVIRONMENT.items():
        variable = ENVIRONMENT_PREFIX + suffix
        if variable in environ:
            yield variable, name, parse(environ[variable])


def nearest(variable: str) -> str:
    """The variable of a setting that this one may be a slip for; empty when it looks like none."""
    bare = variable.removeprefix(PREFIX)
    if "__" not in bare and _KUBERNETES.search(bare):
        return ""
    known = {name.replace(".", "_"): name for name in names()} | {"config": "config"}
    found = meant.nearest(bare.lower().replace("__", "_"), known, alike=meant.CLOSE)
    return PREFIX + known[found].replace(".", "__").upper() if found else ""


def parse(value: str) -> object:
    """Lists and tables are written as JSON; everything else stays text and is converted by its type."""
    if value[:1] in ("[", "{"):
        try:
            return orjson.loads(value)
        except orjson.JSONDecodeError:
            return value
    return value


def check(variable: str, name: str) -> None:
    """An error for a variable without `__` that is close to a setting and is none."""
    if "." in name or name in Settings.model_fields:
        return
    raise ConfigError(
        f"the environment variable {variable} is not a setting",
        hint=f"did you mean {nearest(variable)}?",
    )
