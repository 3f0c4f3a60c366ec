"""`millgate serve`, `keys`, `costs` and `sessions`: the service, who may call it, and what its callers have spent."""

import socket
import time
import webbrowser
from dataclasses import asdict
from types import ModuleType
from urllib.parse import urlsplit

import click
import orjson

from millgate.circles.finder import clip
from millgate.cli.options import (
    CommandGroup,
    Output,
    days_option,
    json_option,
    note_missing,
    on_store,
    open_existing,
    open_gate,
    place_options,
    prints,
    store_option,
)
from millgate.cli.terminal import echo, table_of
from millgate.errors import InputError, MissingExtra
from millgate.explain.costs import CostScope, add_up_by
from millgate.gateway import Millgate
from millgate.keys import SCOPES
from millgate.sessions.xray.summary import short
from millgate.settings import load
from millgate.stores.url import hide_password
from millgate.types import SpendScope
from millgate.types.policy import ProxyPolicy


@click.command(epilog="Example: millgate serve --port 8642 --open")
@store_option
@click.option("--host", help="Address to listen on (default: service.host, 127.0.0.1).")
@click.option(
    "--port", type=int, help="Port to listen on; 0 takes a free one (default: service.port, 8642)."
)
@click.option(
    "--workers",
    type=int,
    help="Number of processes that share the port (default: service.workers, 1).",
)
@click.option("--open", "opens", is_flag=True, help="Open the dashboard in a browser.")
@json_option
def serve(
    store: str | None, host: str | None, port: int | None, workers: int | None, opens: bool, as_json: bool
) -> None:  # fmt: skip
    """Serve the gateway, the proxy and the dashboard over HTTP until stopped."""
    server = service_module()
    options = {"host": host, "port": port, "workers": workers}
    given = {name: value for name, value in options.items() if value is not None}
    settings = load(arguments={"service": given} | ({"store": store} if store else {}))
    server.check_exposure(settings)
    note_missing(settings.store)
    with server.bind(settings.service) as listener:
        url = address_of(listener)
        shown = hide_password(settings.store)

        def tell() -> None:
            if as_json:
                echo(orjson.dumps({"url": url, "store": shown}))
            else:
                echo(f"Millgate serves {shown} and its dashboard at {url}")
                policy = settings.service
                keyless = policy.keyless != "never" and server.is_loopback(policy.host)
                key = "" if keyless else "-H 'authorization: Bearer KEY' "
                echo(
                    f"try: curl {url}/v1/context {key}-H 'content-type: application/json' "
                    """-d '{"query": "how do refunds work?"}'"""
                )
            note_ignored_proxies(settings.proxy)
            if opens:
                open_page(url)

        server.serve(settings, listener, tell)


def note_ignored_proxies(policy: ProxyPolicy) -> None:
    """Name the setting for each upstream that a proxy of the environment would stand before."""
    from urllib.request import getproxies, proxy_bypass  # noqa: PLC0415  slow to load

    proxies = getproxies()
    for name, upstream in policy.upstreams.items():
        parts = urlsplit(upstream.url)
        is_meant = parts.scheme in proxies and not proxy_bypass(parts.netloc)
        if is_meant and not upstream.proxy and parts.hostname not in ("localhost", "127.0.0.1"):
            variable = f"{parts.scheme.upper()}_PROXY"
            echo(f"{variable} is not used for the upstream {name}: set proxy.upstreams.{name}.proxy", err=True)  # fmt: skip


def service_module() -> ModuleType:
    """The module that serves, which is part of an extra."""
    try:
        from millgate.service import server  # noqa: PLC0415  (an extra)
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


@click.group(cls=CommandGroup)
def keys() -> None:
    """Make, list and revoke the API keys of the service."""


@keys.command(epilog="Example: millgate keys create --scope read --name dashboard")
@place_options
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    help=f"What the key may do: {', '.join(SCOPES)}, or proxy:NAME; repeat for more.",
)
@click.option("--name", default="", help="What the key is for.")
@prints
def create(store: str | None, tenant: str | None, scopes: tuple[str, ...], name: str) -> Output:
    """Make a key (default: read and write). It is printed once, and the store keeps only its hash."""
    note_missing(store)
    with open_gate(store, tenant) as gate:
        made = gate.keys.create(scopes or ("read", "write"), name=name)
    key = made.key
    return Output(
        {"key": made.token, "id": key.id, "tenant": key.tenant, "scopes": key.scopes},
        made.token,
        f"key {key.id} for tenant {key.tenant}: {', '.join(key.scopes)}; it is not shown again",
    )


@keys.command("list", epilog="Example: millgate keys list")
@store_option
@click.option("--tenant", help="Only keys of this tenant.")
@prints
def list_keys(store: str | None, tenant: str | None) -> Output:
    """List all keys, their scopes, and whether they still work."""
    with open_existing(store, tenant) as gate:
        known = gate.keys.list_keys(all_tenants=tenant is None)
    shown = ("id", "tenant", "scopes", "name", "created", "revoked")
    rows = [
        (k.id, k.tenant, ", ".join(k.scopes), k.name, "works" if k.revoked is None else "revoked")
        for k in known
    ]
    return Output(
        [{name: getattr(key, name) for name in shown} for key in known],
        table_of("id", "tenant", "scopes", "name", "", rows=rows, empty="there is no key"),
    )


@keys.command(epilog="Example: millgate keys revoke ID")
@click.argument("id")
@on_store
def revoke(gate: Millgate, id: str) -> Output:
    """Revoke the key ID; running services notice within seconds."""
    gate.keys.revoke(id)
    return Output({"revoked": id}, f"revoked {id}")


@click.command(epilog="Example: millgate costs --by model --days 7")
@click.option(
    "--by", "scope", type=click.Choice(["session", "model", "key", "day"]), default="session", show_default=True, help="What to add up by; days are UTC.",
)  # fmt: skip
@days_option
@on_store
def costs(gate: Millgate, scope: CostScope, days: float | None) -> Output:
    """List what model calls took and cost, as far back as traces are kept. The dearest come first.

    The last columns say how often the provider's cache broke, and what was paid in full again for it.
    """
    since = time.time() - 86_400 * days if days else 0.0
    found = add_up_by(gate.traces(limit=gate.settings.trace.keep), scope, since=since)
    rows = []
    for name, one in found.items():
        again = f"{short(one.lost)}, ${one.lost_cost:,.2f}" if one.priced else short(one.lost)
        rows.append((
            clip(name or "(none)", 60), f"{one.calls:,}", *map(short, (one.read, one.written, one.fresh)),
            f"${one.cost:,.2f}" if one.priced else "", f"{one.breaks:,}", again if one.breaks else "",
        ))  # fmt: skip
    heads = (scope, "calls", "read", "written", "fresh", "cost", "breaks", "paid again")
    return Output(found, table_of(*heads, rows=rows, empty="no model call was traced yet"))


@click.group(cls=CommandGroup)
def sessions() -> None:
    """Show how far sessions, keys and the tenant are from their caps; resume the ones that are paused."""


@sessions.command("list", epilog="Example: millgate sessions list --scope all")
@click.option(
    "--scope", type=click.Choice(["session", "key", "tenant", "all"]), default="session", show_default=True, help="Whose spending to list.",
)  # fmt: skip
@click.option(
    "--limit",
    type=click.IntRange(1, 10_000),
    default=50,
    show_default=True,
    help="Most rows to list.",
)
@on_store
def list_sessions(gate: Millgate, scope: str, limit: int) -> Output:
    """List calls, tokens and money, and the state of each cap. The one used last comes first."""
    chosen: SpendScope | None = None if scope == "all" else scope  # type: ignore[assignment]
    found = gate.spending.list_spends(chosen, limit=limit)
    rows = [
        (
            spend.scope, clip(spend.name, 60), f"{spend.total_calls:,}", f"{spend.total_tokens:,}",
            f"{spend.total_micros / 1e6:,.4f}", status.state if status else "no cap", status.forecast if status else "",
        )
        for spend, status in found
    ]  # fmt: skip
    heads = ("", "name", "calls", "tokens", "money", "state", "")
    return Output(
        [asdict(spend) | {"reading": status} for spend, status in found],
        table_of(*heads, rows=rows, empty="nothing was spent under a cap yet"),
    )


@sessions.command(epilog="Example: millgate sessions resume NAME")
@click.argument("name", required=False)
@click.option("--key", help="Resume an API key instead of a session.")
@click.option("--all", "whole", is_flag=True, help="Resume the tenant instead of a session.")
@on_store
def resume(gate: Millgate, name: str | None, key: str | None, whole: bool) -> Output:
    """Let session NAME go on with its whole cap again. Running services notice at once."""
    asked: dict[SpendScope, str | None] = {"session": name, "key": key, "tenant": "" if whole else None}  # fmt: skip
    named = [(who, scope) for scope, who in asked.items() if who is not None]
    if len(named) != 1:
        raise InputError(
            "name one session, or --key ID, or --all", hint="see: millgate sessions list"
        )
    ((who, scope),) = named
    spend = gate.spending.resume(who, scope)
    return Output(asdict(spend) | {"reading": None}, f"resumed {scope} {who}".rstrip())
