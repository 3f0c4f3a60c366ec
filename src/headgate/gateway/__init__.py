"""Internal: `Headgate`, the object that users open (`from headgate import Headgate`).

Its methods check arguments, hand them to the pipeline, the store, memory and graph, and keep traces. Every method has
a blocking and an async version. The package knows wiring and below; the CLI, the service and integrations build on it.
Start with headgate.py: `Headgate.context`.
"""

from headgate.gateway.headgate import Headgate

__all__ = ["Headgate"]
