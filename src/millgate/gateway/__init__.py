"""Internal: `Millgate`, the object that users open (`from millgate import Millgate`).

Its methods check arguments, hand them to the pipeline, the store, memory and graph, and keep traces. Every method has
a blocking and an async version. The package knows wiring and below; the CLI, the service and integrations build on it.
Start with millgate.py: `Millgate.context`.
"""

from millgate.gateway.millgate import Millgate

__all__ = ["Millgate"]
