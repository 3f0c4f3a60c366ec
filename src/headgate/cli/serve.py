"""`headgate serve`: the gateway as an HTTP service."""

import socket
import webbrowser
from types import ModuleType

import click
import orjson

from headgate.cli.options import json_option, store_option
from headgate.cli.terminal import echo
from headgate.errors import MissingExtra
from headgate.settings import load
from headgate.stores.url import hide_password


@click.command()
@store_option
@click.option("--host", help="Address to listen on (default: service.host, 127.0.0.1).")
@click.option("--port", type=int, help="Port; 0 takes a free one (default: service.port, 8642).")
@click.option("--workers", type=int, help="Processes that share the port (default: 1).")
@click.option("--open", "opens", is_flag=True, help="Open the dashboard in a browser.")
@json_option
def serve(
    store: str | None, host: str | None, port: int | None, workers: int | None, opens: bool, as_json: bool
) -> None:  # fmt: skip
    """Serve the dashboard, context, facts, traces and reviews over HTTP until stopped."""
    server = service_module()
    asked = {"host": host, "port": port, "workers": workers}
    given = {name: value for name, value in asked.items() if value is not None}
    settings = load(arguments={"service": given} | ({"store": store} if store else {}))
    server.check_exposure(settings)
    with server.bind(settings.service) as listener:
        url = address_of(listener)
        if as_json:
            echo(orjson.dumps({"url": url, "store": hide_password(settings.store)}).decode())
        else:
            shown = hide_password(settings.store)
            echo(f"Headgate serves {shown} and its dashboard at {url}")
            echo(
                f"try: curl {url}/v1/context -H 'content-type: application/json' "
                """-d '{"query": "how do refunds work?"}'"""
            )
        if opens:
            open_page(url)
        server.serve(settings, listener)


def service_module() -> ModuleType:
    """The module that serves, which is part of an extra."""
    try:
        from headgate.service import server  # noqa: PLC0415  (an extra)
    except ModuleNotFoundError as error:
        raise MissingExtra(error.name, extra="service") from error
    return server


def address_of(listener: socket.socket) -> str:
    """The address that a listening socket is reached at from this machine."""
    host, port = listener.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104  (read, not bound)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def open_page(url: str) -> None:
    """Open a page in a browser; the service that is about to start answers it."""
    if not webbrowser.open(url):
        echo(f"no browser was found; open {url} in one", err=True)
