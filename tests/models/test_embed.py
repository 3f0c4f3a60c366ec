"""Embedders: static vectors, an encoder built from weights, a remote endpoint, and what is missing."""

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from math import erf

import numpy as np
import pytest
from bench.build_onnx import write_encoder
from safetensors.numpy import save_file
from tokenizers import Tokenizer, models, pre_tokenizers

from millgate.errors import ConfigError, UpstreamError
from millgate.models.embed import EmbedPolicy, embedder
from millgate.models.encoder import OnnxEmbedder, _is_foreign
from millgate.models.remote import RemoteEmbedder
from millgate.models.static import StaticEmbedder

WORDS = {"[PAD]": 0, "[UNK]": 1, "red": 2, "green": 3, "boat": 4, "sea": 5}
SIZE, HEADS, WIDE, LAYERS = 8, 2, 16, 2


def tokenizer():
    made = Tokenizer(models.WordLevel(WORDS, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    return made


@pytest.fixture
def source(tmp_path):
    """A folder with a tiny BERT of random weights, and the weights."""
    dice = np.random.default_rng(3)

    def some(*shape):
        return dice.normal(0, 0.5, shape).astype(np.float32)

    weights = {
        "embeddings.word_embeddings.weight": some(len(WORDS), SIZE),
        "embeddings.position_embeddings.weight": some(16, SIZE),
        "embeddings.token_type_embeddings.weight": some(2, SIZE),
    }
    shapes = {
        "attention.self.query": (SIZE, SIZE),
        "attention.self.key": (SIZE, SIZE),
        "attention.self.value": (SIZE, SIZE),
        "attention.output.dense": (SIZE, SIZE),
        "intermediate.dense": (WIDE, SIZE),
        "output.dense": (SIZE, WIDE),
    }
    norms = ["embeddings.LayerNorm"]
    for n in range(LAYERS):
        for name, shape in shapes.items():
            weights[f"encoder.layer.{n}.{name}.weight"] = some(*shape)
            weights[f"encoder.layer.{n}.{name}.bias"] = some(shape[0])
        norms += [
            f"encoder.layer.{n}.attention.output.LayerNorm",
            f"encoder.layer.{n}.output.LayerNorm",
        ]
    for name in norms:
        weights |= {f"{name}.weight": some(SIZE), f"{name}.bias": some(SIZE)}
    path = tmp_path / "source"
    path.mkdir()
    save_file(weights, path / "model.safetensors")
    config = {"model_type": "bert", "hidden_size": SIZE, "num_attention_heads": HEADS,
              "num_hidden_layers": LAYERS, "layer_norm_eps": 1e-12}  # fmt: skip
    (path / "config.json").write_text(json.dumps(config))
    tokenizer().save(str(path / "tokenizer.json"))
    return path, weights


@pytest.fixture
def folder(source, tmp_path):
    """An encoder folder as Millgate loads it, and the weights it was built from."""
    path, weights = source
    write_encoder(path, tmp_path / "encoder")
    return tmp_path / "encoder", weights


def reference(weights, ids):
    """The same encoder in plain numpy, for one text."""

    def linear(x, name):
        return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

    def norm(x, name):
        x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-12)
        return x * weights[f"{name}.weight"] + weights[f"{name}.bias"]

    x = weights["embeddings.word_embeddings.weight"][ids]
    x = x + weights["embeddings.position_embeddings.weight"][: len(ids)]
    x = norm(x + weights["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
    for n in range(LAYERS):
        at = f"encoder.layer.{n}"
        q, k, v = (
            linear(x, f"{at}.attention.self.{part}").reshape(len(ids), HEADS, -1).swapaxes(0, 1)
            for part in ("query", "key", "value")
        )
        scores = q @ k.swapaxes(1, 2) / np.sqrt(SIZE // HEADS)
        shares = np.exp(scores - scores.max(-1, keepdims=True))
        mixed = (shares / shares.sum(-1, keepdims=True) @ v).swapaxes(0, 1).reshape(len(ids), SIZE)
        x = norm(
            x + linear(mixed, f"{at}.attention.output.dense"), f"{at}.attention.output.LayerNorm"
        )
        wide = linear(x, f"{at}.intermediate.dense")
        wide = wide * 0.5 * (1 + np.vectorize(erf)(wide / np.sqrt(2)))
        x = norm(x + linear(wide, f"{at}.output.dense"), f"{at}.output.LayerNorm")
    mean = x.mean(0)
    return mean / np.linalg.norm(mean)


def test_a_graph_built_from_weights_equals_the_formula(folder):
    path, weights = folder
    made = OnnxEmbedder.load(path)
    texts = ["red boat", "green sea red boat", "sea"]
    vectors = made.embed(texts)
    assert made.dimension == SIZE
    for text, vector in zip(texts, vectors, strict=True):
        ids = [WORDS[word] for word in text.split()]
        assert vector == pytest.approx(reference(weights, ids), abs=1e-5)


def test_an_encoder_is_named_by_its_model(folder):
    path, _ = folder
    first = OnnxEmbedder.load(path).name
    assert OnnxEmbedder.load(path).name == first
    (path / "onnx").mkdir()
    (path / "model.onnx").rename(path / "onnx" / "model.onnx")
    assert OnnxEmbedder.load(path).name == first


@pytest.mark.parametrize("name", ["tokenizer.json", "model.onnx"])
def test_a_folder_that_lacks_a_file_is_refused_by_name(folder, name):
    path, _ = folder
    (path / name).unlink()
    with pytest.raises(ConfigError, match=f"holds no {name}"):
        OnnxEmbedder.load(path)


def test_weights_without_an_onnx_file_name_the_command_that_builds_it(source):
    path, _ = source
    with pytest.raises(ConfigError, match=r"no model\.onnx") as raised:
        OnnxEmbedder.load(path)
    assert "python bench/build_onnx.py" in raised.value.hint


def test_static_vectors_weigh_rare_words_more():
    vectors = np.zeros((1000, 2), np.float32)
    vectors[WORDS["red"]], vectors[900] = (1, 0), (0, 1)
    rare = Tokenizer(models.WordLevel({**WORDS, "zither": 900}, unk_token="[UNK]"))
    rare.pre_tokenizer = pre_tokenizers.Whitespace()
    made = StaticEmbedder(vectors, rare)
    [both, nothing] = made.embed(["red zither", ""])
    assert both[1] > both[0] > 0
    assert np.linalg.norm(both) == pytest.approx(1)
    assert not nothing.any()


def test_a_static_piece_of_one_character_says_nothing_unless_it_is_chinese():
    vectors = np.zeros((1000, 2), np.float32)
    vectors[700:705] = 1
    pieces = {"[UNK]": 0, "한": 701, "<0xEB>": 702, "河": 703, "river": 704}
    tokenizer = Tokenizer(models.WordLevel(pieces, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    made = StaticEmbedder(vectors, tokenizer)
    said = made.embed(["한", "<0xEB>", "河", "river"]).any(axis=1)
    assert said.tolist() == [False, False, True, True]


def test_what_all_static_vectors_have_in_common_says_nothing():
    vectors = np.full((1000, 2), 3, np.float32)
    vectors[WORDS["red"]] = 3, 4
    made = StaticEmbedder(vectors, tokenizer())
    assert made.embed(["red boat"])[0] == pytest.approx([0, 1], abs=1e-2)


def test_a_text_is_not_what_it_repeats():
    vectors = np.zeros((1000, 2), np.float32)
    vectors[WORDS["boat"]], vectors[WORDS["sea"]] = (1, 0), (0, 1)
    [x, y] = StaticEmbedder(vectors, tokenizer()).embed(["boat boat boat boat sea"])[0]
    assert 1.5 < x / y < 2.5


def test_an_encoder_gives_no_vector_to_a_text_that_it_cannot_read(folder):
    path, _ = folder
    said = OnnxEmbedder.load(path).embed(["red boat", "red kite", "kite zither red", "kite"])
    assert said.any(axis=1).tolist() == [True, True, False, False]


@pytest.mark.parametrize(
    ("piece", "foreign"),
    [("[UNK]", True), ("##л", True), ("한", True), ("河", False), ("x", False), ("##ing", False), ("—", False)],
)  # fmt: skip
def test_single_letters_of_other_scripts_are_foreign_to_an_encoder(piece, foreign):
    assert _is_foreign(piece) is foreign


class Endpoint(BaseHTTPRequestHandler):
    answer = staticmethod(lambda texts: {"data": []})
    status = 200

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        data = json.dumps(type(self).answer(body["input"])).encode()
        self.send_response(type(self).status)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args):
        pass


@pytest.fixture
def endpoint():
    class Mine(Endpoint):
        pass

    server = HTTPServer(("127.0.0.1", 0), Mine)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield Mine, f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()
    thread.join()
    server.server_close()


def rows(texts):
    data = [{"index": n, "embedding": [len(text), 4.0]} for n, text in enumerate(texts)]
    return {"data": data[::-1]}


def test_a_remote_endpoint_is_asked_in_batches_and_put_in_order(endpoint):
    handler, url = endpoint
    handler.answer = staticmethod(rows)
    made = RemoteEmbedder(url, "tiny")
    vectors = made.embed(["x" * (n % 5 + 1) for n in range(130)])
    assert made.dimension == 2
    assert vectors[2] == pytest.approx([0.6, 0.8])
    assert made.embed([]).shape[0] == 0


@pytest.mark.parametrize(
    ("status", "answer"),
    [
        (500, lambda texts: {}),
        (200, lambda texts: {"data": [{"index": 0}]}),
        (200, lambda texts: {"data": []}),
        (200, lambda texts: ["what"]),
        (200, lambda texts: {"data": [{"index": 0, "embedding": [10**400, 1.0]}]}),
        (200, lambda texts: {"data": [{"index": 0, "embedding": [1e300, 1.0]}]}),
        (200, lambda texts: {"data": [{"index": 0, "embedding": ["nan", 1.0]}]}),
        (200, lambda texts: {"data": [{"index": 0, "embedding": [1.0] * 600_000}]}),
    ],
    ids=[
        "error",
        "no vector",
        "too few",
        "nonsense",
        "huge",
        "overflow",
        "not a number",
        "endless",
    ],
)
def test_an_endpoint_that_answers_nonsense_is_an_upstream_error(endpoint, status, answer):
    handler, url = endpoint
    handler.status, handler.answer = status, staticmethod(answer)
    with pytest.raises(UpstreamError, match=r"embeddings|answered 500|instead of JSON"):
        RemoteEmbedder(url, "tiny")


def test_an_endpoint_that_answers_deep_json_is_an_upstream_error(endpoint, monkeypatch):
    handler, url = endpoint
    monkeypatch.setattr(handler, "answer", staticmethod(lambda texts: {"data": []}))
    monkeypatch.setattr(json, "dumps", lambda _: "[" * 100_000)
    with pytest.raises(UpstreamError, match="instead of JSON"):
        RemoteEmbedder(url, "tiny")


def test_an_endpoint_that_is_down_is_an_upstream_error():
    with pytest.raises(UpstreamError, match="cannot be reached"):
        RemoteEmbedder("http://127.0.0.1:9/v1", "tiny", timeout_s=2)


def test_no_model_is_the_default_and_an_unknown_one_is_refused():
    assert embedder(EmbedPolicy()) is None
    with pytest.raises(ConfigError, match="neither known nor a folder"):
        embedder(EmbedPolicy(model="does-not-exist"))


def test_an_endpoint_and_its_model_are_named_apart(endpoint):
    handler, url = endpoint
    handler.answer = staticmethod(rows)
    assert embedder(EmbedPolicy(url=url, model="tiny")).name == "remote-tiny"
    with pytest.raises(ConfigError, match="none of its models"):
        embedder(EmbedPolicy(url=url))
    with pytest.raises(ConfigError) as refused:
        embedder(EmbedPolicy(model=url))
    assert "embed.url" in refused.value.hint


class Hub:
    """Stands for the hub's client: hands out a folder, or fails as it does without a network."""

    def __init__(self, folder=None):
        self.folder = folder
        self.asked = []

    def snapshot_download(self, name, *, allow_patterns, revision=None):
        self.asked.append((name, revision))
        if self.folder is None:
            raise RuntimeError("no network")
        assert "tokenizer.json" in allow_patterns
        return str(self.folder)


def test_a_name_on_the_hub_is_fetched_and_loaded(folder, monkeypatch):
    hub = Hub(folder[0])
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub)
    found = embedder(EmbedPolicy(model="someone/tiny-encoder@0123abc"))
    assert hub.asked == [("someone/tiny-encoder", "0123abc")]
    assert found.embed(["red boat"]).shape == (1, found.dimension)


@pytest.mark.parametrize(
    ("hub", "said"),
    [(None, "huggingface_hub is not installed"), (Hub(), "cannot be fetched: no network")],
)
def test_a_hub_that_is_not_there_is_an_error(hub, said, monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub)
    with pytest.raises(ConfigError, match=said):
        embedder(EmbedPolicy(model="someone/tiny-encoder"))
