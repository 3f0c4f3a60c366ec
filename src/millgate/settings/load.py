"""Load: the settings in force, from the layers that set them. Nothing else in the package reads the environment.

Arguments > environment > `millgate.toml` > defaults. A key that is unknown, or a value out of its range, is an error
that names both, and where they came from. The file is the one named by MILLGATE_CONFIG, else `millgate.toml` in the
current folder if there is one; that one may set less, and never stops a command. Tuning arguments of the policies are
taken from Python only.

The author of a repository writes the file that is found there, and entering a folder is not consent. So it may tune
retrieval, and place the store within its folder, where it would be without the file as well. All else comes from the
environment, or from a file that MILLGATE_CONFIG names: what guards, redacts, caps or limits, what is kept and logged,
and every name of a model, a command, an address or words for the model. What it may not set, or sets wrongly, is left
out with a warning: whoever clones a repository goes on working.

MILLGATE_PENALIZE__EXPONENT=1.2 sets what the file calls `exponent` under `[penalize]`. Lists and tables are JSON.
A variable that looks like a setting, with `__` in it or close to a known name, must be one. Others are not ours:
Kubernetes sets MILLGATE_SERVICE_HOST, MILLGATE_PORT_8642_TCP and more in every pod beside a service named millgate.
The names of published/self_reference.py are read too; if both are set, ours holds.
"""

import logging
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import orjson
from pydantic import ValidationError

from millgate.errors import ConfigError
from millgate.published.self_reference import ENVIRONMENT, ENVIRONMENT_PREFIX
from millgate.settings.schema import (
    Settings,
    describe,
    hide_secrets,
    is_secret,
    is_tuning,
    names,
    names_in,
    values,
)
from millgate.text import meant
from millgate.text.table import clip, printable
from millgate.types.policy import Policy

FILE = "millgate.toml"
_FILE_BYTES = 4 << 20  # of a settings file; one with a cap for each of 50 000 keys has half of that
_FILE_DEPTH = 20  # groups inside groups; the settings have five
_FOUND = 1_000  # settings of a file that was only found; there are a hundred, and each wrong one takes a millisecond

Tree = dict[str, Any]

PREFIX = "MILLGATE_"
CONFIG = PREFIX + "CONFIG"
_KUBERNETES = re.compile(
    r"(^|_)(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$"
)
_log = logging.getLogger("millgate.settings")


HINT = "set it in the environment, or name the file yourself: MILLGATE_CONFIG=millgate.toml"
MOST_NAMED = 5  # settings that a warning names


class IgnoredSetting(ConfigError):
    """Something in a found file that is left out."""


GROUPS = frozenset(
    {"decide", "retrieve", "propagate", "facts", "recall", "graph", "penalize", "expand", "gate", "grade"}
)  # fmt: skip
"""Groups of settings that tune retrieval. A setting that is added to one of them may be set by a found file."""
NAMES = frozenset({"tokens", "ingest.chunk.target", "ingest.chunk.maximum"})
"""Further settings that do."""
NOT_TUNING = frozenset({"grade.weights"})
"""Settings of these groups that name a file or a model."""


@lru_cache(maxsize=64)  # a command loads the settings several times, and says this once
def warn(ignored: tuple[tuple[str, str], ...]) -> None:
    """Say in the log what of a found file is left out, and what to do: pairs of a message and its hint."""
    named = "; ".join(_tell(*one) for one in ignored[:MOST_NAMED])
    more = f"; and {len(ignored) - MOST_NAMED} more" if len(ignored) > MOST_NAMED else ""
    refused = any(hint == HINT for _, hint in ignored)
    advice = " (to set what a found file may not: MILLGATE_CONFIG=millgate.toml)" if refused else ""
    _log.warning("ignored: %s%s%s", named, more, advice)


def _tell(message: str, hint: str) -> str:
    """What is left out, and what to do; the advice for what may not be set is given once, for all."""
    said = clip(printable(message), 200)
    return said if hint in ("", HINT) else f"{said} ({clip(printable(hint), 100)})"


def refuse(name: str, value: object, folder: Path) -> IgnoredSetting | None:
    """Why a file found in the folder may not set this; None if it may."""
    if name == "store":
        if value == ":memory:" or _is_inside(str(value), folder):
            return None
        what = "names a path outside its folder"
    elif name in NAMES or (name.partition(".")[0] in GROUPS and name not in NOT_TUNING):
        return None
    else:
        what = "tunes no retrieval"
    return IgnoredSetting(
        f"{name} {what}, so a millgate.toml found in the current folder may not set it", hint=HINT
    )


def _is_inside(path: str, folder: Path) -> bool:
    with suppress(
        OSError, RuntimeError, ValueError
    ):  # a link that leads to itself, a name that no path can have
        return (folder / path).resolve().is_relative_to(folder.resolve())
    return False


class Layer(NamedTuple):
    """Settings from one origin: a file, an environment variable, or the caller's arguments."""

    origin: str
    tree: Tree


class File(NamedTuple):
    """A settings file, and whether the user named it or it was only"""

    path: Path
    named: bool


class Fault(NamedTuple):
    """A setting that cannot be used, and why."""

    name: str
    error: ConfigError


def load(
    path: str | Path | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    arguments: Mapping[str, Any] | None = None,
) -> Settings:
    """The settings in force; an error names the key, its value, where it came from and what is allowed."""
    layers, errors = read_layers(path, environ)
    for error in errors:
        if not isinstance(error, IgnoredSetting):
            raise error
    if errors:
        warn(tuple((error.message, error.hint) for error in errors))
    return _validate([*layers, Layer("arguments", _nest(arguments or {}))])


def with_changes(settings: Settings, changes: Mapping[str, Any]) -> Settings:
    """The settings with some of them, by dotted name, set otherwise."""
    return _validate([Layer("settings", settings.model_dump()), Layer("changes", _nest(changes))])


def read_layers(
    path: str | Path | None, environ: Mapping[str, str] | None
) -> tuple[list[Layer], list[ConfigError]]:
    """What file and environment set, weakest first, and what of it cannot be used."""
    environ = os.environ if environ is None else environ
    layers: list[Layer] = []
    errors: list[ConfigError] = []
    file = settings_file(path, environ)
    if file and not file.named:
        layer, errors = _read_found(file.path)
        layers.append(layer)
    elif file:
        try:
            layers.append(Layer(str(file.path), _read(file.path)))
        except ConfigError as error:
            errors.append(error)
    for variable, name, value in variables(environ):
        try:
            layer = Layer(variable, _nest({name: value}))
        except ConfigError as error:
            errors.append(error)
            continue
        foreign = variable.startswith(ENVIRONMENT_PREFIX)  # it may be meant for another program
        faults = validate([layer])[1] if foreign else []
        errors += [IgnoredSetting(fault.error.message) for fault in faults]
        layers += [] if faults else [layer]
    faults = [fault for layer in layers for fault in _refuse(layer)]
    usable = without(layers, (fault.name for fault in faults))
    return usable, [*errors, *(fault.error for fault in faults)]


def settings_file(
    path: str | Path | None = None, environ: Mapping[str, str] | None = None
) -> File | None:
    """The settings file in force: the one that is named, else the one found in the current folder, else none."""
    named = path or (os.environ if environ is None else environ).get(CONFIG)
    if named:
        return File(Path(named), named=True)
    found_here = os.path.isfile(FILE)  # noqa: PTH113  (Path.is_file raises in a folder that may not be read)
    return File(Path(FILE), named=False) if found_here else None


def list_public_settings(file: File) -> dict[str, Any]:
    """What a found file sets, by dotted name, to be shown: without secrets, and without what is left out of it."""
    layer, _ = _read_found(file.path)
    return {name: value for name, value in _flatten(layer.tree) if not is_secret(name)}


def validate(layers: Iterable[Layer]) -> tuple[Settings | None, list[Fault]]:
    """The settings that the layers make together, or what is wrong with them."""
    layers = list(layers)
    tree: Tree = {}
    for layer in layers:
        tree = _merge(tree, layer.tree)
    try:
        return _check_groups(tree) or Settings.model_validate(tree), []
    except ValidationError as invalid:
        given = origins(layers)
        return None, [_fault(error, given) for error in invalid.errors()]


def _check_groups(tree: Tree) -> Settings | None:
    """The settings of a tree by the checks of the groups that it sets; None if those of all are needed.

    Making the checks of one group takes a millisecond or two, and most runs set none or few.
    """
    checked: Tree = {}
    for name, value in tree.items():
        field = Settings.model_fields.get(name)
        if field and isinstance(field.default, Policy) and isinstance(value, Mapping):
            try:
                checked[name] = type(field.default).model_validate(value)
            except ValidationError:
                return None
        elif field and type(value) is field.annotation and not field.metadata:
            checked[name] = value  # a plain text or switch: its type is all that is asked of it
        else:
            return None
    return Settings.model_construct(**checked)


def origins(layers: Iterable[Layer]) -> dict[str, str]:
    """Where each dotted name was set last."""
    return {name: layer.origin for layer in layers for name, _ in _flatten(layer.tree)}


def origin_of(name: str, given: Mapping[str, str]) -> str:
    """Where a setting came from: what set it, a part of it, or the group that it is in."""
    found = [o for n, o in given.items() if n == name or name.startswith(n + ".")]
    below = [o for n, o in given.items() if n.startswith(name + ".")]
    return (found or below or ["default"])[-1]


def without(layers: Iterable[Layer], gone: Iterable[str]) -> list[Layer]:
    """The layers with some names left out of each."""
    paths = [name.split(".") for name in gone]
    kept = []
    for layer in layers:
        tree = layer.tree
        for path in paths:
            tree = _drop(tree, path)
        kept.append(Layer(layer.origin, tree))
    return kept


def _validate(layers: list[Layer]) -> Settings:
    settings, faults = validate(layers)
    if settings is None:
        raise faults[0].error
    return settings


def _refuse(layer: Layer) -> Iterator[Fault]:
    """What a file or a variable may not set: tuning arguments, and a whole group at once."""
    for name, value in _flatten(layer.tree):
        if is_tuning(name):
            error = ConfigError(
                f"{name} (from {layer.origin}) is not a setting but an argument in Python",
                hint=f'write it in Python: Millgate.open(path, **{{"{name}": ...}})',
            )
            yield Fault(name, error)
        elif not isinstance(value, Mapping) and any(n.startswith(f"{name}.") for n in names()):
            error = ConfigError(
                f"{name} (from {layer.origin}) is a group of settings and takes no value itself",
                hint="see: millgate config show",
            )
            yield Fault(name, error)


def _read_found(path: Path) -> tuple[Layer, list[ConfigError]]:
    """What a file sets that was only found in the current folder, and what of it is left out: it may not set that, or
    the setting does not exist, or its value is wrong.
    """
    nothing = Layer(str(path), {})
    try:
        layer = Layer(str(path), _read(path))
    except ConfigError as unreadable:
        return nothing, [IgnoredSetting(unreadable.message, hint=unreadable.hint)]
    if sum(1 for _ in _flatten(layer.tree)) > _FOUND:
        message = f"{path} sets more than {_FOUND:,} things"
        return nothing, [IgnoredSetting(message, hint="shorten it")]
    ignored: list[ConfigError] = []
    folder = path.absolute().parent
    known = names()
    refused = [
        Fault(name, error if _is_setting(name, known) else _unknown(name, layer.origin))
        for name, value in _flatten(layer.tree)
        if (error := refuse(name, value, folder))
    ]
    faults = [*refused, *_refuse(layer)] or validate([layer])[1]
    while faults:
        ignored += [IgnoredSetting(f.error.message, hint=f.error.hint) for f in faults]
        (usable,) = without([layer], (fault.name for fault in faults))
        # a fault that no setting answers for costs the whole file; each round leaves something out, so this ends
        layer = usable if usable.tree != layer.tree else Layer(layer.origin, {})
        _, faults = validate([layer])
    return layer, ignored


def _fault(error: Any, given: Mapping[str, str]) -> Fault:  # noqa: ANN401  (pydantic's error dict)
    name = ".".join(map(str, error["loc"]))
    origin = origin_of(name, given)
    if error["type"] != "extra_forbidden":
        shown = "(hidden)" if is_secret(name) else repr(error["input"])[:200]
        message = f"{name} is {shown} (from {origin}): {error['msg'].lower().removeprefix('value error, ')}"
        return Fault(name, ConfigError(message, hint="see: millgate config show"))
    return Fault(name, _unknown(name, origin))


def _unknown(name: str, origin: str) -> ConfigError:
    """The error for a name that is no setting."""
    close = nearest(origin) if origin.startswith(PREFIX) else _nearest(name)
    hint = f"did you mean {close}?" if close else "see: millgate config show"
    return ConfigError(f"{name} is not a setting (from {origin})", hint=hint)


def _nearest(name: str) -> str:
    """The setting that a name may be a slip for: one like it in its own group, else one like it as a whole, else one
    whose last part is like its last.
    """
    known = names()
    group, _, last = name.rpartition(".")
    if close := meant.nearest(last, names_in(group)):
        return f"{group}.{close}" if group else close
    if close := meant.nearest(name, known):
        return close
    by_last = {each.rpartition(".")[2]: each for each in known}
    close = meant.nearest(last, by_last, alike=meant.CLOSE)
    return by_last[close] if close else ""


def _is_setting(name: str, known: Iterable[str]) -> bool:
    """Whether a name is a setting, an entry of one that is a table, a group of settings, or an argument in Python."""
    return is_tuning(name) or any(
        name == each or name.startswith(f"{each}.") or each.startswith(f"{name}.") for each in known
    )


def _read(file: Path) -> Tree:
    import tomllib  # noqa: PLC0415  (most runs have no file)

    try:
        with file.open("rb") as opened:
            written = opened.read(_FILE_BYTES + 1)
        if len(written) > _FILE_BYTES:
            raise ConfigError(f"{file} has more than {_FILE_BYTES:,} bytes", hint="shorten it")
        tree = tomllib.loads(written.decode("utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read {file}: {error.strerror}", hint="check its path") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{file} is not valid TOML: {error}", hint="mend that line") from error
    groups = [tree]
    for _ in range(_FILE_DEPTH):
        groups = [value for group in groups for value in group.values() if isinstance(value, dict)]
        if not groups:
            return tree
    raise ConfigError(f"{file} has groups more than {_FILE_DEPTH} deep", hint="mend their names")


def _nest(dotted: Mapping[str, Any]) -> Tree:
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
        if isinstance(below, dict) and isinstance(value, Mapping):
            merged[key] = _merge(below, value)
        else:
            merged[key] = value
    return merged


def _drop(tree: Tree, path: list[str]) -> Tree:
    """The tree without what a path leads to, or without the last of it that is there; no empty group stays.

    TOML allows dots in a quoted key, so a key may be several steps of the path.
    """
    heads = (".".join(path[:count]) for count in range(1, len(path) + 1))
    head = next((head for head in heads if head in tree), None)
    if head is None:
        return tree
    inner, rest = tree[head], path[head.count(".") + 1 :]
    if rest and isinstance(inner, dict) and rest[0] in inner and (left := _drop(inner, rest)):
        return {**tree, head: left}
    return {key: value for key, value in tree.items() if key != head}


def _flatten(tree: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        if isinstance(value, Mapping) and value:
            yield from _flatten(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", value


def variables(environ: Mapping[str, str]) -> Iterator[tuple[str, str, Any]]:
    """The variables that are meant as settings: as spelled, the dotted name, and the value; later ones hold."""
    for suffix, name in ENVIRONMENT.items():  # others with their prefix belong to another program
        if (variable := ENVIRONMENT_PREFIX + suffix) in environ:
            yield variable, name, parse(environ[variable])
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
        _log.debug("not settings, and ignored: %s", ", ".join(ignored))


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


class Setting(NamedTuple):
    """One setting as it is in force: its dotted name, value, default, and where the value came from."""

    name: str
    value: object
    default: object
    origin: str
    doc: str


class Inspection(NamedTuple):
    """Every setting, and what could not be used; the settings are those that stand without it."""

    settings: list[Setting]
    errors: list[ConfigError]


def inspect(
    path: str | Path | None = None, *, environ: Mapping[str, str] | None = None
) -> Inspection:
    """Every setting with its value, default and origin, in the order of the schema."""
    layers, errors = read_layers(path, environ)
    settings, faults = validate(layers)
    while settings is None:
        errors += [fault.error for fault in faults]
        layers = without(layers, (fault.name for fault in faults))
        settings, faults = validate(layers)
    given = origins(layers)
    now = dict(values(settings))
    found = [
        Setting(name, hide_secrets(now[name]), default, origin_of(name, given), describe(name))
        for name, default in values(Settings())
    ]
    return Inspection(found, errors)
