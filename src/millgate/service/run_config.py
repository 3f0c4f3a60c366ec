"""Run config: how uvicorn runs an app of ours, and what is logged."""

from collections.abc import Callable
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from millgate.service.edge.protocol import MARGIN_S, BoundedProtocol
from millgate.types.policy import ServicePolicy

BACKLOG = 2048
# A worker that served and then says nothing for longer is replaced.
HEALTHCHECK_S = 20

# Request lines as they are, everything else with its level, both on stderr.
LOGGING: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "line": {"format": "%(message)s"},
        "named": {"format": "%(levelname)s %(name)s: %(message)s"},
    },
    "handlers": {
        name: {"class": "logging.StreamHandler", "formatter": name, "stream": "ext://sys.stderr"}
        for name in ("line", "named")
    },
    "loggers": {
        "millgate.request": {"handlers": ["line"], "level": "INFO", "propagate": False},
        "millgate": {"handlers": ["named"], "level": "WARNING", "propagate": False},
        "uvicorn": {"handlers": ["named"], "level": "WARNING", "propagate": False},
    },
}


def configure_uvicorn(
    make_app: Callable[[], ASGIApp],
    policy: ServicePolicy,
    *,
    log_config: dict[str, Any] | None = None,
) -> uvicorn.Config:
    """How uvicorn runs the app that a call makes."""
    return uvicorn.Config(
        make_app,
        factory=True,
        http=BoundedProtocol,
        ws="none",
        workers=policy.workers,
        proxy_headers=False,  # else a caller could choose the address it seems to come from
        server_header=False,
        access_log=False,  # the request log says more
        log_config=log_config,
        backlog=BACKLOG,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=int(policy.drain_s + MARGIN_S),
        timeout_worker_healthcheck=HEALTHCHECK_S,
    )
