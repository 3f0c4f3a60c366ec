"""Internal: the proxy between an agent and its model API, which injects context, caps spending and cuts loops.

Start at `proxy.py`: `Proxy._answer` names every step of one `Exchange` (`exchange.py`) in its order, and `steps.py` has
the steps. `relay.py` is the hot path of a stream. `app.py` mounts the proxy in the service. The package knows the
guard, the policies and the rest of the service, but nothing of retrieval: a caller's Millgate builds the contexts.
"""
