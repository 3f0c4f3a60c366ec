"""How Headgate's parts live inside hermes-agent: as subclasses of its own, over a store in its home folder."""

from importlib import import_module
from pathlib import Path
from typing import TypeVar

from headgate.gateway import Headgate

T = TypeVar("T")


def host_class(own: type[T], module: str, name: str) -> type[T]:
    """The class as a subclass of hermes-agent's too, with its optional hooks; itself if that is missing."""
    try:
        base = getattr(import_module(module), name)
    except (ImportError, AttributeError):
        return own
    return type(own.__name__, (own, base), {})


class Store:
    """A gate that was given, or one that is opened with the first session and closed at the end."""

    def __init__(self, gate: Headgate | None = None, path: str | Path | None = None) -> None:
        self._given, self._path = gate, path
        self._opened: Headgate | None = None
        self.gate: Headgate | None = gate

    def open(self, *, hermes_home: str = "", tenant: str = "") -> Headgate:
        """The gate of a tenant; without a path the store is the folder `headgate` in hermes-agent's home."""
        root = self._given or self._opened
        if root is None:
            home = Path(hermes_home, "headgate") if hermes_home else None
            root = self._opened = Headgate.open(self._path or home)
        self.gate = root.for_tenant(tenant) if tenant and tenant != root.tenant else root
        return self.gate

    def close(self) -> None:
        """Close what was opened here."""
        opened, self._opened = self._opened, None
        self.gate = self._given
        if opened is not None:
            opened.close()
