"""The reference pages, made from the code: `make docs` writes them, a test compares them.

    python docs/generate.py       writes api.md, commands.md, errors.md, http.md, metrics.md, settings.md, millgate.toml

What a page says stands in the code: signatures and docstrings, the commands' own help, the OpenAPI schema. Only the
bodies in EXAMPLES, which a test sends to the service, and the openings of the pages are written here.
"""

import inspect
import json
import re
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from textwrap import wrap
from types import GenericAlias
from typing import Annotated, Any, get_args, get_origin

import click
from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from millgate.settings import Settings
from millgate.settings.schema import describe, values

HERE = Path(__file__).parent

SECTIONS = {
    "The gate": ("gateway", "settings"),
    "Nouns": ("types", "types.notes"),
    "What you may replace": ("protocols",),
    "The guard, and folding": ("guard", "sessions.folding.folder"),
    "Errors": ("errors",),
}
"""What the reference is divided into, by the modules that the promised names come from."""

EXAMPLES: dict[str, Any] = {
    "POST /v1/documents": {
        "documents": [{"id": "refunds", "text": "Refunds are paid within 14 days."}]
    },
    "POST /v1/context": {
        "query": "how do refunds work?",
        "budget": 500,
        "window": [{"role": "user", "content": "how do refunds work?"}],
    },
    "POST /v1/fingerprint": {"current_window_text": "user: how do refunds work?"},
    "POST /v1/strategy": {
        "query": "summarize the report",
        "char_count": 240000,
        "model_context_length": 128000,
        "used_tokens": 40000,
    },
    "POST /v1/turns": {
        "session": "monday",
        "messages": [{"role": "user", "content": "The staging server is called Heron."}],
    },
    "POST /v1/facts": {"content": "The staging server is called Heron", "tags": ["ops"]},
    "PATCH /v1/facts/{id}": {"content": "The staging server is called Egret"},
    "POST /v1/facts/{id}/feedback": {"helpful": True, "note": "it was the right one"},
    "POST /v1/graph/edges": {
        "edges": [{"source": "Heron", "predicate": "runs_on", "target": "Debian", "weight": 0.9}]
    },
    "POST /v1/graph/slices": {"anchor": "turn-12"},
    "POST /v1/graph/verify": {"slice": {"id": "…", "anchor": "turn-12", "token": "…"}},
    "POST /v1/hooks/prompt": {"prompt": "how do refunds work?", "session_id": "monday"},
    "POST /v1/reviews/{id}/draft": {"answer": "Refunds take 14 days."},
    "POST /v1/reviews/{id}": {
        "status": "answered",
        "answer": "Refunds take 14 days.",
        "who": "Ana",
    },
    "POST /v1/sessions/resume": {"scope": "session", "name": "monday"},
    "POST /v1/traces/{id}/replay": {"changes": {"budget": 1000}},
}

MADE = "<!-- made by `make docs`; do not edit -->\n"

PUBLIC = """These names stay: `from millgate import Chunk`. Everything else is internal and may change in any release,
apart from what a page of its own names: the fakes and contract tests of [`millgate.testing`](bring-your-own.md#a-store), the
[integrations](integrations.md), the guard's adapters ([guard](guard.md)), and the four designs in `millgate.published`
([origins](origins.md)), which stay as they were published.
"""

ERRORS_HEAD = """Everything Millgate raises on purpose is a `MillgateError`. It has a message (what happened, where, which
values are allowed), a hint (what to do) and the HTTP status that a server should answer. The command line prints
message and hint and exits with 2; the service answers problem JSON. An error with … in front is a kind of the one above it.
"""

ERRORS_EXAMPLE = """
```python
from millgate import Millgate, MillgateError

with Millgate.open(":memory:") as gate:
    try:
        gate.context("refunds", budget=-1)
    except MillgateError as error:
        print(f"{error.status}: {error.message}\\n{error.hint}")
```

```text
413: budget is -1; it must be 0 to 10,000,000
the limit is set by limits.budget
```

A stage that fails does not fail the request: [what a failure leaves](troubleshooting.md#what-a-failure-leaves).
"""


# -- Python ----------------------------------------------------------------------------------------


def api_page() -> str:
    """Every promised name with its signature and what it promises."""
    import millgate

    parts = ["# Python API\n", MADE, PUBLIC.rstrip()]
    for title, homes in SECTIONS.items():
        parts += ["", f"## {title}", ""]
        for home in homes:
            for name in millgate._NAMES[home].split():
                parts += _describe(name, getattr(millgate, name))
    return "\n".join(parts).rstrip() + "\n"


def _describe(name: str, value: object) -> list[str]:
    if inspect.isclass(value) and not isinstance(value, GenericAlias):
        return _describe_class(name, value)
    if inspect.isfunction(inspect.unwrap(value)):  # a cached one too
        return [f"### `{name}{_signature(value)}`", "", _first_paragraph(value), ""]
    return [f"### `{name}`", "", f"`{_short(_without_modules(repr(value)))}`", ""]


def _describe_class(name: str, value: type) -> list[str]:
    if issubclass(value, Enum):
        return _describe_enum(name, value)
    if issubclass(value, BaseModel):
        value.model_rebuild()  # its signature is made late
    is_protocol = getattr(value, "_is_protocol", False)
    kind, called = ("protocol", "") if is_protocol else ("class", _signature(value))
    lines = [f"### {kind} `{name}{called}`", "", _first_paragraph(value), ""]
    if is_protocol:
        fields = inspect.get_annotations(value)
        lines += [f"- `.{field}: {_type_name(of)}`" for field, of in fields.items()]
    members = _members(value)
    for method, member in members.items():
        if method.startswith(("_", "test_")) or method == "model_config" or method[1:] in members:
            continue  # an async twin stands beside its plain one
        twin = f" Async: `.a{method}`." if f"a{method}" in members else ""
        plain = inspect.unwrap(getattr(member, "__func__", member))
        said = f"{_first_sentence(member if isinstance(member, property) else plain)}{twin}"
        if isinstance(member, property):
            lines.append(f"- `.{method}`: {said}".rstrip(": "))
        elif inspect.isfunction(plain):
            lines.append(f"- `.{method}{_signature(plain)}`: {said}".rstrip(": "))
    return [*lines, ""] if lines[-1] else lines


def _describe_enum(name: str, value: type[Enum]) -> list[str]:
    members = ", ".join(f"`{member.name}`" for member in value)
    return [f"### enum `{name}`", "", _first_paragraph(value), "", f"Members: {members}.", ""]


def _members(value: type) -> dict[str, Any]:
    """What the class defines, and what it has from classes of the same package that have no entry of their own."""
    package = f"{value.__module__.rpartition('.')[0]}."
    hidden = [
        base
        for base in value.__mro__[1:]
        if base.__module__.startswith(package) and not _has_entry(base)
    ]
    return {n: m for each in (*reversed(hidden), value) for n, m in vars(each).items()}


def _has_entry(value: type) -> bool:
    import millgate

    return getattr(millgate, value.__name__, None) is value


def _signature(value: Any) -> str:
    if getattr(value, "__name__", "") == "Settings":
        return "(*, …)"  # the page of settings has them
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return ""
    asked = [
        p.replace(annotation=_bare(p.annotation), default=_in_order(p.default))
        for p in signature.parameters.values()
    ]
    gives = inspect.Signature.empty if inspect.isclass(value) else signature.return_annotation
    text = str(signature.replace(parameters=asked, return_annotation=gives))
    text = re.sub(r"\((self|cls)(, )?", "(", text, count=1)
    text = re.sub(r" at 0x[0-9a-f]+", "", text)
    text = re.sub(r"(: |-> )'([^']*)'", r"\1\2", _without_modules(text))
    return _short(text, 1000)


def _in_order(default: Any) -> Any:
    """A set as a sorted tuple: its own order is another in each process."""
    return tuple(sorted(default)) if isinstance(default, set | frozenset) else default


def _bare(annotation: Any) -> Any:
    """The type without its bounds, which the settings page and the error of a wrong value name."""
    return get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation


def _type_name(annotation: Any) -> str:
    return _without_modules(inspect.formatannotation(annotation)).strip("'")


def _without_modules(text: str) -> str:
    text = re.sub(r"ForwardRef\('([^']*)'\)", r"\1", text)
    return re.sub(r"\b(?:[A-Za-z_]\w*\.)+(\w+)", r"\1", text)


# -- commands --------------------------------------------------------------------------------------


def commands_page() -> str:
    """Every command with its help."""
    from millgate.cli import app

    parts = ["# Commands\n", MADE, "`millgate COMMAND --help` prints the same. [Start](start.md#what-all-commands-share) says what all commands\nshare.\n"]  # fmt: skip
    for path, command in _commands(app, "millgate"):
        context = click.Context(command, info_name=path, max_content_width=100, terminal_width=100)
        parts += [f"## {path}", "", "```text", command.get_help(context).rstrip(), "```", ""]
    return "\n".join(parts).rstrip() + "\n"


def _commands(command: click.Command, path: str) -> Iterator[tuple[str, click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command, info_name=path)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            if found is not None and not found.hidden:
                yield from _commands(found, f"{path} {name}")


# -- HTTP ------------------------------------------------------------------------------------------


def http_page() -> str:
    """Every route with its fields, and a body for those that take one."""
    schema = openapi()
    parts = ["# HTTP reference\n", MADE, "`GET /openapi.json` of a running service has the same as a schema. [The service](service.md) explains keys,\nlimits and errors. A `?` marks what may be left out; what holds\nthen stands behind its type.\n"]  # fmt: skip
    for path, operations in schema["paths"].items():
        for method, operation in operations.items():
            parts += _describe_route(schema, f"{method.upper()} {path}", operation)
    return "\n".join([*parts, *_lengths(schema)]).rstrip() + "\n"


LENGTHS_HEAD = """## Lengths

Every text and every list that comes from outside has a length. A longer one is refused before any work is done with
it: with 413 or 422, an error of the tool, or exit code 2. Lengths that are settings are shown as they are by default.
Commands and the library have those of the fields of the same name. Objects of any shape have the length of the body,
`service.body_bytes`. What a store keeps of titles, metadata, chunks and names is checked once more when it is written."""


def _lengths(schema: dict[str, Any]) -> list[str]:
    """The length of every field, header and argument, and where each is."""
    rows: dict[tuple[str, str], list[str]] = {}
    for path, operations in schema["paths"].items():
        for method, operation in operations.items():
            body = _json_schema(operation.get("requestBody", {}))
            fields = [(each["name"], each["schema"]) for each in operation.get("parameters", ())]
            for name, field in (*fields, *_named_fields(schema, body)):
                for most in _lengths_of(schema, field):
                    rows.setdefault((name, most), []).append(f"{method.upper()} {path}")
    for name, most, where in (*_tool_lengths(), *_header_lengths(), *_row_lengths()):
        rows.setdefault((name, most), []).append(where)
    table = [f"| `{name}` | {most} | {', '.join(dict.fromkeys(where))} |" for (name, most), where in sorted(rows.items())]  # fmt: skip
    return [LENGTHS_HEAD, "", "| what | at most | where |", "|---|---|---|", *table]


def _named_fields(
    schema: dict[str, Any], part: dict[str, Any]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The fields of a body, those of the objects in its lists included."""
    whole = _resolve(schema, part)
    for each in (*whole.get("anyOf", ()), *whole.get("oneOf", ())):
        yield from _named_fields(schema, each)
    for name, field in whole.get("properties", {}).items():
        yield name, field
        yield from _named_fields(schema, field.get("items", {}))


def _lengths_of(schema: dict[str, Any], field: dict[str, Any]) -> Iterator[str]:
    field = _resolve(schema, field)
    if "maxLength" in field:
        yield f"{field['maxLength']:,} characters"
    if "maxItems" in field:
        each = ", ".join(_lengths_of(schema, field.get("items", {})))
        yield f"{field['maxItems']:,} items" + (f" of {each}" if each else "")
    for one in (*field.get("anyOf", ()), *field.get("oneOf", ())):
        yield from _lengths_of(schema, one)


def _tool_lengths() -> Iterator[tuple[str, str, str]]:
    from millgate.integrations.mcp.tools import TOOLS

    for tool_name, tool in TOOLS.items():
        whole = tool.model_json_schema()
        for name, field in whole["properties"].items():
            for most in _lengths_of(whole, field):
                yield name, most, f"MCP {tool_name}"


def _header_lengths() -> Iterator[tuple[str, str, str]]:
    from millgate.service.edge.protocol import BoundedProtocol
    from millgate.types import lengths

    yield "x-millgate-*", f"{lengths.NAME_CHARS:,} characters", "headers of the proxy"
    yield (
        "x-millgate-session",
        f"{lengths.SESSION_CHARS:,} characters",
        "headers of the proxy; a longer name is hashed",
    )
    yield "x-request-id", "128 characters", "headers; a longer one is replaced"
    yield "model", f"{lengths.NAME_CHARS:,} characters", "bodies of the proxy"
    yield (
        "all headers and the path",
        f"{BoundedProtocol.HEAD_BYTES:,} bytes, {BoundedProtocol.HEAD_FIELDS} fields",
        "every request",
    )


def _row_lengths() -> Iterator[tuple[str, str, str]]:
    from millgate.types import lengths

    yield (
        "text",
        f"{lengths.CHUNK_CHARS:,} characters",
        "a stored chunk; longer texts are cut into several",
    )
    yield "metadata", f"{lengths.METADATA_BYTES:,} bytes", "a stored document or chunk"
    yield "source, target", f"{lengths.NODE_CHARS:,} characters", "a stored edge"
    yield "query, reasons", f"{lengths.SUMMARY_CHARS:,} characters", "a row of the list of traces"


def openapi() -> dict[str, Any]:
    """The schema of a service with default settings."""
    from millgate import Millgate
    from millgate.service.app import create

    with Millgate.open(":memory:") as gate:
        return create(gate).openapi()


def _describe_route(schema: dict[str, Any], route: str, operation: dict[str, Any]) -> list[str]:
    lines = [f"## {route}", "", operation.get("description", operation.get("summary", "")), ""]
    asked = [
        f"- `{each['name']}`{'' if each.get('required') else '?'} ({each['in']}): {each.get('description') or _type(schema, each['schema'])}"
        for each in operation.get("parameters", ())
    ]
    if asked:
        lines += [*asked, ""]
    body = _json_schema(operation.get("requestBody", {}))
    if body:
        lines += [*_fields(schema, body), ""]
    if route in EXAMPLES:
        lines += ["```json", json.dumps(EXAMPLES[route], indent=1, ensure_ascii=False), "```", ""]
    answer = _resolve(schema, _json_schema(operation["responses"].get("200", {})))
    if answer.get("properties"):
        lines += ["Returns " + ", ".join(f"`{name}`" for name in answer["properties"]) + ".", ""]
    return lines


def _json_schema(holder: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = holder.get("content", {}).get("application/json", {}).get("schema", {})
    return found


def _resolve(schema: dict[str, Any], part: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in part:
        part = schema["components"]["schemas"][part["$ref"].rsplit("/", 1)[1]]
    return part


def _fields(schema: dict[str, Any], body: dict[str, Any]) -> list[str]:
    whole = _resolve(schema, body)
    several = whole.get("anyOf") or whole.get("oneOf")
    if several:
        return [line for each in several for line in [_resolve(schema, each)["description"], "", *_fields(schema, each), ""]][:-1]  # fmt: skip
    needed = whole.get("required", ())
    return [
        f"- `{name}`{'' if name in needed else '?'} ({_type(schema, field)}{_default(field)}): {field.get('description', '')}".rstrip(": ")
        for name, field in whole.get("properties", {}).items()
    ]  # fmt: skip


def _default(field: dict[str, Any]) -> str:
    """The default, where it says something."""
    value = field.get("default")
    return "" if value in (None, "", [], {}) else f", `{json.dumps(value)}`"


def _type(schema: dict[str, Any], part: dict[str, Any]) -> str:
    part = _resolve(schema, part)
    if "const" in part:
        return f"`{part['const']}`"
    if "anyOf" in part:
        return " or ".join(dict.fromkeys(_type(schema, each) for each in part["anyOf"]))
    if "enum" in part:
        return " or ".join(f"`{value}`" for value in part["enum"])
    if part.get("type") == "array":
        return f"list of {_type(schema, part.get('items', {}))}"
    return str(part.get("type", "any"))


# -- errors ----------------------------------------------------------------------------------------


def errors_page() -> str:
    """Every error with its status and when it is raised, each kind below its base."""
    from millgate.errors import MillgateError

    rows = [
        f"| `{error.__name__}` | {error.status} | {'… ' * depth}{_first_paragraph(error)} |"
        for error, depth in _subclasses(MillgateError)
    ]
    head = ["# Errors\n", MADE, ERRORS_HEAD, "| error | status | when |", "|---|---|---|"]
    return "\n".join([*head, *rows, ERRORS_EXAMPLE])


def _subclasses(base: Any, depth: int = 0) -> Iterator[tuple[Any, int]]:
    for error in base.__subclasses__():
        if error.__module__ == base.__module__:
            yield error, depth
            yield from _subclasses(error, depth + 1)


# -- metrics ---------------------------------------------------------------------------------------


def metrics_page() -> str:
    """Every metric of the service with its labels."""
    from millgate.service.observe.metrics import COUNTERS, HISTOGRAMS

    found = {f"{name}_total": ("counter", *row) for name, row in COUNTERS.items()}
    found |= {name: ("histogram", *row[:2]) for name, row in HISTOGRAMS.items()}
    rows = [
        f"| `millgate_{name}` | {kind} | {', '.join(labels.split()) or '–'} | {about} |"
        for name, (kind, about, labels) in found.items()
    ]
    head = ["# Metrics\n", MADE, "`GET /metrics` has them in the format of Prometheus. No label names a tenant, a key or an id.\n", "| metric | type | labels | what it counts |", "|---|---|---|---|"]  # fmt: skip
    return "\n".join([*head, *sorted(rows)]) + "\n"


# -- text ------------------------------------------------------------------------------------------


def _first_paragraph(value: object) -> str:
    text = inspect.getdoc(value) or ""
    return re.sub(r"\s*\n\s*", " ", text.split("\n\n", 1)[0]).strip()


def _first_sentence(value: object) -> str:
    return re.split(r"(?<=\.)\s", _first_paragraph(value), maxsplit=1)[0]


def _short(text: str, most: int = 160) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def settings_page() -> str:
    """The page of all settings, as Markdown."""
    head = (
        "# Settings\n\n"
        "Arguments beat the environment, which beats `millgate.toml`, which beats the defaults below. `grade.floor` is\n"
        "`floor` under `[grade]` in the file and `MILLGATE_GRADE__FLOOR` in the environment; lists are written as JSON\n"
        "there. `millgate config show` prints what is in force and where it came from. Numbers that only a benchmark\n"
        'can set are arguments in Python: `Millgate.open("./kb", retrieve={"k1": 1.5})`.\n'
        "A `millgate.toml` that is merely found in the current folder may tune retrieval and place the store in that\n"
        "folder, and nothing else. Name the file with `MILLGATE_CONFIG=millgate.toml`, or use the environment, for the\n"
        "rest. Commands print what a found file sets, and leave out the rest of it with a warning.\n"
        "[millgate.toml](millgate.toml) has them all, commented out, to start from.\n"
        "This page and that file are generated by `make docs`.\n\n"
        "| setting | default | what it does |\n|---|---|---|\n"
    )
    return head + "".join(
        f"| `{name}` | {_as_code(default)} | {describe(name)} |\n"
        for name, default in values(Settings())
    )


def settings_file() -> str:
    """A millgate.toml with every setting, its default and what it does; each is commented out."""
    lines = [
        "# Every setting of Millgate with its default. Take away the # of what you change, and of the [group] above it.",
        "# Millgate reads this file if MILLGATE_CONFIG names it. One that is merely found in the current folder may tune",
        "# retrieval alone (docs/settings.md). A key belongs in the environment: MILLGATE_EMBED__KEY. Made by `make docs`.",
    ]
    group = ""
    for name, default in sorted(
        values(Settings()), key=lambda one: "." in one[0]
    ):  # TOML: tables come last
        above, _, leaf = name.rpartition(".")
        if above != group:
            lines += ["", f"# [{above}]"]
            group = above
        lines += ["", *wrap(describe(name), 110, initial_indent="## ", subsequent_indent="## ")]
        lines.append(
            f"# {leaf} = {_as_toml(default)}" if default is not None else f"# {leaf}: not set"
        )
    return "\n".join(lines) + "\n"


def _as_toml(value: object) -> str:
    if isinstance(value, frozenset):
        value = sorted(value)
    plain = to_jsonable_python(value)
    if isinstance(plain, dict):
        return "{" + ", ".join(f"{key} = {_as_toml(inner)}" for key, inner in plain.items()) + "}"
    return json.dumps(plain, ensure_ascii=False)


def _as_code(value: object) -> str:
    if isinstance(value, frozenset | set):
        value = sorted(value)
    return f"`{value}`" if value not in (None, "", [], ()) else ""


def pages() -> dict[str, str]:
    """File name and text of every generated page."""
    return {
        "api.md": api_page(),
        "commands.md": commands_page(),
        "errors.md": errors_page(),
        "http.md": http_page(),
        "metrics.md": metrics_page(),
        "settings.md": settings_page(),
        "millgate.toml": settings_file(),
    }


if __name__ == "__main__":
    for file, text in pages().items():
        (HERE / file).write_text(text, encoding="utf-8")
