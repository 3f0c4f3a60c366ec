"""Settings: arguments > environment > `headgate.toml` > defaults.

HEADGATE_PENALIZE__EXPONENT=1.2 sets what the file calls `exponent` under `[penalize]`. Nothing else reads the
environment. A key that is unknown, or a value out of its range, is an error that names both; nothing is ignored.
The file is the one named by HEADGATE_CONFIG, else `headgate.toml` in the current folder where there is one.
"""

import difflib
import os
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import orjson
from pydantic import BaseModel, ValidationError

from headgate.errors import ConfigError
from headgate.graph.kernel import SlicePolicy
from headgate.graph.knowledge import GraphPolicy
from headgate.guard.policy import GuardPolicy
from headgate.ingest.load import IngestPolicy
from headgate.memory.facts import FactsPolicy
from headgate.memory.provider_pool import RecallPolicy
from headgate.memory.review import ReviewPolicy
from headgate.models.embed import EmbedPolicy
from headgate.models.grade import JudgePolicy
from headgate.models.search import SearchPolicy
from headgate.policy import Limits, LogPolicy, Policy, ProxyPolicy, ServicePolicy, TracePolicy
from headgate.stages.compose import ComposePolicy
from headgate.stages.decide import DecidePolicy
from headgate.stages.expand import ExpandPolicy
from headgate.stages.gate import GatePolicy
from headgate.stages.grade import GradePolicy
from headgate.stages.penalize import PenalizePolicy
from headgate.stages.propagate import PropagatePolicy
from headgate.stages.retrieve import RetrievePolicy

PREFIX = "HEADGATE_"
FILE = "headgate.toml"
CONFIG = PREFIX + "CONFIG"

Tree = dict[str, Any]


class Settings(Policy):
    """Everything that can be set, with its default."""

    store: str = ".headgate"
    """Folder of the store, or ':memory:'."""
    tenant: str = "default"
    """Whose data is read and written."""
    tokens: str = "estimate"
    """Token counter: 'estimate', or an exact one by vocabulary, as 'o200k_base' (extra 'tokens')."""
    limits: Limits = Limits()
    """The largest inputs a request may bring."""
    ingest: IngestPolicy = IngestPolicy()
    """How much is read and written at a time, and how texts are cut."""
    embed: EmbedPolicy = EmbedPolicy()
    """Which model turns texts into vectors."""
    decide: DecidePolicy = DecidePolicy()
    """Whether to retrieve, and how much."""
    retrieve: RetrievePolicy = RetrievePolicy()
    """How chunks are found and scored."""
    propagate: PropagatePolicy = PropagatePolicy()
    """How far hits lift what they are wired to."""
    facts: FactsPolicy = FactsPolicy()
    """How remembered facts are trusted, found and forgotten."""
    recall: RecallPolicy = RecallPolicy()
    """How long memory providers may take, and when they are left alone."""
    graph: GraphPolicy = GraphPolicy()
    """How far knowledge is followed, and what a path is worth."""
    slice: SlicePolicy = SlicePolicy()
    """How far admissibility reaches from an anchor turn."""
    penalize: PenalizePolicy = PenalizePolicy()
    """How hard what the model already sees is pushed down."""
    expand: ExpandPolicy = ExpandPolicy()
    """When and how to ask a second time."""
    gate: GatePolicy = GatePolicy()
    """What is worth its tokens."""
    grade: GradePolicy = GradePolicy()
    """When found text counts as relevant."""
    judge: JudgePolicy = JudgePolicy()
    """Which language model judges relevance."""
    search: SearchPolicy = SearchPolicy()
    """Where to look when a collection does not know."""
    review: ReviewPolicy = ReviewPolicy()
    """When a person is asked, and what an answer is worth."""
    compose: ComposePolicy = ComposePolicy()
    """How the block is filled and laid out."""
    log: LogPolicy = LogPolicy()
    """The line per request beside the store."""
    trace: TracePolicy = TracePolicy()
    """How long the stories of requests are kept."""
    guard: GuardPolicy = GuardPolicy()
    """How the model's stream is watched, held back and resumed."""
    proxy: ProxyPolicy = ProxyPolicy()
    """The door that speaks like OpenAI and Anthropic."""
    service: ServicePolicy = ServicePolicy()
    """The HTTP service."""


class Setting(NamedTuple):
    """One setting as it is in force: its dotted name, value, default, and where the value came from."""

    name: str
    value: object
    default: object
    origin: str
    doc: str


def load(
    path: str | Path | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    arguments: Mapping[str, Any] | None = None,
) -> Settings:
    """The settings in force; an error names the key, its value, where it came from and what is allowed."""
    return _validated(_layers(path, environ, arguments))


def changed(settings: Settings, changes: Mapping[str, Any]) -> Settings:
    """The settings with some of them, by dotted name, set otherwise."""
    return _validated([("settings", settings.model_dump()), ("changes", _nested(changes))])


def inspect(
    path: str | Path | None = None, *, environ: Mapping[str, str] | None = None
) -> list[Setting]:
    """Every setting with its value, default and origin, in the order of the schema."""
    layers = _layers(path, environ, None)
    given = {name: origin for origin, tree in layers for name, _ in _flat(tree)}
    now = dict(_leaves(_validated(layers)))
    return [
        Setting(name, now[name], default, _origin(name, given), _doc(name))
        for name, default in _leaves(Settings())
    ]


def page() -> str:
    """The page of all settings, as Markdown."""
    head = (
        "# Settings\n\n"
        "Arguments beat the environment, which beats `headgate.toml`, which beats the defaults below. `gate.order` is\n"
        "`order` under `[gate]` in the file and `HEADGATE_GATE__ORDER` in the environment; lists are written as JSON\n"
        "there. `headgate config show` prints what is in force and where it came from. This page is generated by\n"
        "`make docs`.\n\n"
        "| setting | default | what it does |\n|---|---|---|\n"
    )
    return head + "".join(
        f"| `{name}` | {_shown(default)} | {_doc(name)} |\n"
        for name, default in _leaves(Settings())
    )


def _shown(value: object) -> str:
    if isinstance(value, frozenset | set):
        value = sorted(value)
    return f"`{value}`" if value not in (None, "", [], ()) else ""


def _layers(
    path: str | Path | None, environ: Mapping[str, str] | None, arguments: Mapping[str, Any] | None
) -> list[tuple[str, Tree]]:
    """Where values come from, weakest first."""
    environ = os.environ if environ is None else environ
    file = _file(path, environ)
    return [
        *([(str(file), _read(file))] if file else []),
        ("environment", _from_environment(environ)),
        ("arguments", _nested(arguments or {})),
    ]


def _file(path: str | Path | None, environ: Mapping[str, str]) -> Path | None:
    named = path or environ.get(CONFIG)
    if named:
        return Path(named)
    return Path(FILE) if Path(FILE).is_file() else None


def _read(file: Path) -> Tree:
    try:
        return tomllib.loads(file.read_text("utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read {file}: {error.strerror}", hint="check its path") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} is not valid TOML: {error}", hint="mend that line") from error


def _from_environment(environ: Mapping[str, str]) -> Tree:
    dotted = {
        key.removeprefix(PREFIX).lower().replace("__", "."): _parsed(value)
        for key, value in sorted(environ.items())
        if key.startswith(PREFIX) and key != CONFIG
    }
    return _nested(dotted)


def _parsed(value: str) -> object:
    """Lists and tables are written as JSON; everything else stays text and is converted by its type."""
    if value[:1] in ("[", "{"):
        try:
            return orjson.loads(value)
        except orjson.JSONDecodeError:
            return value
    return value


def _nested(dotted: Mapping[str, Any]) -> Tree:
    tree: Tree = {}
    for name, value in dotted.items():
        *parents, leaf = name.split(".")
        place = tree
        for parent in parents:
            place = place.setdefault(parent, {})
            if not isinstance(place, dict):
                raise ConfigError(f"{name} is set below {parent}, which is itself set to a value")
        place[leaf] = value
    return tree


def _merge(under: Tree, over: Mapping[str, Any]) -> Tree:
    merged = dict(under)
    for key, value in over.items():
        below = merged.get(key)
        both = isinstance(below, dict) and isinstance(value, Mapping)
        merged[key] = _merge(below, value) if both and below is not None else value
    return merged


def _validated(layers: list[tuple[str, Tree]]) -> Settings:
    tree: Tree = {}
    for _, layer in layers:
        tree = _merge(tree, layer)
    try:
        return Settings.model_validate(tree)
    except ValidationError as invalid:
        first = invalid.errors()[0]
        raise _error(first, {n: o for o, t in layers for n, _ in _flat(t)}) from invalid


def _error(first: Any, given: Mapping[str, str]) -> ConfigError:  # noqa: ANN401  (pydantic's error dict)
    name = ".".join(map(str, first["loc"]))
    origin = _origin(name, given)
    if first["type"] == "extra_forbidden":
        near = difflib.get_close_matches(name, [n for n, _ in _leaves(Settings())], n=1)
        hint = f"did you mean {near[0]}?" if near else "see: headgate config show"
        return ConfigError(f"{name} is not a setting (from {origin})", hint=hint)
    return ConfigError(
        f"{name} is {first['input']!r} (from {origin}): {first['msg'].lower()}",
        hint="see: headgate config show",
    )


def _origin(name: str, given: Mapping[str, str]) -> str:
    found = [o for n, o in given.items() if n == name or name.startswith(n + ".")]
    below = [o for n, o in given.items() if n.startswith(name + ".")]
    return (found or below or ["default"])[-1]


def _flat(tree: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", value


def _leaves(model: BaseModel, above: str = "") -> Iterator[tuple[str, Any]]:
    for key in type(model).model_fields:
        value = getattr(model, key)
        if isinstance(value, Policy):
            yield from _leaves(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", value


def _doc(name: str) -> str:
    model: type[BaseModel] = Settings
    *parents, leaf = name.split(".")
    for parent in parents:
        annotation = model.model_fields[parent].annotation
        assert isinstance(annotation, type)
        model = annotation
    return " ".join((model.model_fields[leaf].description or "").split())
