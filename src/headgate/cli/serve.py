"""`headgate serve`: the gateway as an HTTP service."""

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
@json_option
def serve(
    store: str | None, host: str | None, port: int | None, workers: int | None, as_json: bool
) -> None:
    """Serve context, facts, traces and reviews over HTTP until stopped."""
    try:
        from headgate.service import server  # noqa: PLC0415  (an extra)
    except ModuleNotFoundError as error:
        raise MissingExtra(error.name or "fastapi", extra="service") from error
    asked = {"host": host, "port": port, "workers": workers}
    given = {name: value for name, value in asked.items() if value is not None}
    settings = load(arguments={"service": given} | ({"store": store} if store else {}))
    server.check_exposure(settings)
    with server.bind(settings.service) as listener:
        address, number = listener.getsockname()[:2]
        url = f"http://[{address}]:{number}" if ":" in address else f"http://{address}:{number}"
        if as_json:
            echo(orjson.dumps({"url": url, "store": hide_password(settings.store)}).decode())
        else:
            echo(f"Headgate serves {hide_password(settings.store)} at {url}")
            echo(
                f"try: curl {url}/v1/context -H 'content-type: application/json' "
                """-d '{"query": "how do refunds work?"}'"""
            )
        server.serve(settings, listener)
