"""Embeddings: kept in the store, joined in the score, never mixed between models."""

import numpy as np
import pytest

from millgate.errors import ConfigError, NotReady
from millgate.index import collection, folder, vectors
from millgate.index.files import DamagedIndex
from millgate.index.indexes import Indexes
from millgate.index.vectors import EmbedderFailed, embedded_text
from millgate.pipeline.stages.retrieve import RetrievePolicy, retrieve
from millgate.stores.temporary import TemporaryStore
from millgate.types import Chunk, Document


class Hues:
    """An embedder that knows three colors and counts the texts it was given."""

    name, dimension = "hues", 3

    def __init__(self, name="hues"):
        self.name = name
        self.texts = []

    def embed(self, texts):
        self.texts += texts
        rows = [[1.0 * (hue in t) for hue in ("red", "green", "blue")] for t in texts]
        vectors = np.array(rows, np.float32).reshape(len(texts), 3)
        return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)


def put(store, **texts):
    store.put(
        "t",
        [Document(id, chunks=(Chunk(id, text, document=id),)) for id, text in texts.items()],
    )


@pytest.fixture
def store():
    store = TemporaryStore()
    put(store, a="a red kite", b="a green field", c="blue and green water", d="no color at all")
    return store


def test_what_is_near_joins_what_matches(store):
    hues = Hues()
    view = Indexes(store, embedder=hues).snapshot("t", "main")
    found = retrieve("field", view, RetrievePolicy(feedback=0), vector=[0.0, 0.6, 0.8])
    assert [c.chunk.id for c in found.kept][:2] == ["b", "c"]
    ords, cosines = view.nearest([0.0, 0.6, 0.8], 2)
    assert view.ids(ords) == ["c", "b"]
    assert cosines == pytest.approx([0.99, 0.6], abs=1e-3)


def test_of_equally_near_chunks_the_first_are_found():
    store = TemporaryStore()
    put(store, **{f"c{n:03}": f"red {n}" for n in range(400)})
    view = Indexes(store, embedder=Hues()).snapshot("t", "main")
    assert view.ids(view.nearest([1.0, 0.0, 0.0], 3)[0]) == ["c000", "c001", "c002"]


def test_embeddings_are_made_once_and_kept_in_the_store(store, tmp_path):
    first, second = Hues(), Hues()
    Indexes(store, tmp_path / "one", first).snapshot("t", "main")
    Indexes(store, tmp_path / "two", second).snapshot("t", "main")
    assert len(first.texts) == 4
    assert second.texts == []
    put(store, a="a blue kite")
    Indexes(store, embedder=second).snapshot("t", "main")
    assert second.texts == ["a blue kite"]


def test_saved_vectors_come_back_and_follow_changes(store, tmp_path):
    indexes = Indexes(store, tmp_path, Hues())
    indexes.snapshot("t", "main")
    indexes.close()
    put(store, b="a red field")
    store.remove("t", "main", documents=["c"])
    view = Indexes(store, tmp_path, Hues()).snapshot("t", "main")
    ords, cosines = view.nearest([1.0, 0.0, 0.0], 10)
    assert dict(zip(view.ids(ords), cosines.round(2).tolist(), strict=True)) == {
        "a": 1.0,
        "b": 1.0,
        "d": 0.0,
    }


def test_another_model_is_refused_with_the_command_that_rebuilds(store, tmp_path):
    indexes = Indexes(store, tmp_path, Hues())
    indexes.snapshot("t", "main")
    indexes.close()
    other = Indexes(store, tmp_path, Hues("tones"))
    with pytest.raises(
        ConfigError, match=r"embedding/hues/3.*embedding/tones/3.*millgate store reindex"
    ):
        other.snapshot("t", "main")
    assert other.rebuild("t", "main").count == 4
    assert other.snapshot("t", "main").nearest([1, 0, 0], 1)[1] == pytest.approx([1.0])


def test_without_an_embedder_vectors_rest(store, tmp_path):
    indexes = Indexes(store, tmp_path, Hues())
    indexes.snapshot("t", "main")
    indexes.close()
    plain = Indexes(store, tmp_path)
    assert plain.vector("red") is None
    assert [
        c.chunk.id for c in retrieve("kite", plain.snapshot("t", "main"), RetrievePolicy()).kept
    ] == ["a"]


def test_a_query_is_embedded_once():
    hues = Hues()
    indexes = Indexes(TemporaryStore(), embedder=hues)
    assert indexes.vector("red") is indexes.vector("red")
    assert hues.texts == ["red"]


def test_long_queries_are_remembered_up_to_so_many_bytes():
    hues = Hues()
    indexes = Indexes(TemporaryStore(), embedder=hues)
    queries = [f"red {n} " * 200_000 for n in range(8)]  # 1.2 MB or more each
    for query in [*queries, queries[-1], queries[0]]:
        indexes.vector(query)
    assert hues.texts == [*queries, queries[0]]


@pytest.mark.parametrize(
    ("chunk", "said"),
    [
        (Chunk("a", "plain text"), "plain text"),
        (Chunk("a", "text", title="Title"), "Title. text"),
        (Chunk("a", "[1:56 pm on 8 May, 2023] Ann: hello"), "Ann: hello"),
        (Chunk("a", "Note: keep this"), "Note: keep this"),
        (Chunk("a", "[3 May] hello there"), "[3 May] hello there"),
    ],
)
def test_a_chat_line_is_embedded_without_its_date(chunk, said):
    assert embedded_text(chunk) == said


class Random:
    """An embedder of random directions, one a word."""

    name, dimension = "random", 16

    def embed(self, texts):
        seeds = [int(text.split()[0][1:]) for text in texts]
        found = np.array([np.random.default_rng(n).normal(size=16) for n in seeds], np.float32)
        return found / np.linalg.norm(found, axis=1, keepdims=True)


def by_hand(store, query, k):
    exact = Indexes(store, embedder=Random()).snapshot("t", "main")
    return set(exact.ids(exact.nearest(query, k)[0]))


def test_a_large_segment_is_searched_by_its_neighbor_graph_as_exactly_as_by_hand(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(folder, "LARGE", 300)
    store = TemporaryStore()
    put(store, **{f"c{n}": f"c{n} text" for n in range(400)})
    indexes = Indexes(store, tmp_path, Random())
    indexes.snapshot("t", "main")
    indexes.close()
    store.remove("t", "main", documents=["c7", "c8"])
    mapped = Indexes(store, tmp_path, Random()).snapshot("t", "main")
    assert any(live.neighbors for live in mapped.lives)
    query = Random().embed(["c9"])[0]
    found = mapped.ids(mapped.nearest(query, 20)[0])
    assert len(set(found) & by_hand(store, query, 20)) >= 19
    assert found[0] == "c9"
    assert not {"c7", "c8"} & set(mapped.ids(mapped.nearest(query, 398)[0]))


class Watched(vectors.NearestNeighbors):
    """A neighbor graph that keeps how many rows it was asked for."""

    def __init__(self, path):
        super().__init__(path)
        self.asked = []

    def search(self, query, k):
        self.asked.append(k)
        return super().search(query, k)


@pytest.mark.parametrize("around_the_query", [False, True])
def test_a_neighbor_graph_is_not_asked_for_all_that_are_dead(
    tmp_path, monkeypatch, around_the_query
):
    monkeypatch.setattr(folder, "LARGE", 300)
    monkeypatch.setattr(folder, "NearestNeighbors", Watched)
    store = TemporaryStore()
    put(store, **{f"c{n}": f"c{n} text" for n in range(2_500)})
    indexes = Indexes(store, tmp_path, Random())
    indexes.snapshot("t", "main")
    indexes.close()
    query = Random().embed(["c9"])[0]
    removed = by_hand(store, query, 600) if around_the_query else {f"c{n}" for n in range(1, 601)}
    store.remove("t", "main", documents=sorted(removed))
    mapped = Indexes(store, tmp_path, Random()).snapshot("t", "main")
    (live,) = mapped.lives
    assert len(live.dead) == 600
    found = mapped.ids(mapped.nearest(query, 20)[0])
    assert live.neighbors.asked == [vectors.SEARCH_WIDTH]
    assert len(set(found) & by_hand(store, query, 20)) >= (20 if around_the_query else 19)


def test_whoever_saves_a_neighbor_graph_searches_it_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(folder, "LARGE", 300)
    store = TemporaryStore()
    put(store, **{f"c{n}": f"c{n} text" for n in range(400)})
    indexes = Indexes(store, tmp_path, Random())
    indexes.rebuild("t", "main")
    assert any(live.neighbors for live in indexes.snapshot("t", "main").lives)
    indexes.close()


@pytest.mark.parametrize("harm", ["none", "gone", "damaged"])
def test_a_neighbor_graph_grows_with_its_collection(tmp_path, monkeypatch, harm):
    monkeypatch.setattr(folder, "LARGE", 300)
    store, began, build = TemporaryStore(), [], vectors.build_graph

    def watched(vectors, path, *, first_rows):
        began.append(first_rows is not None)
        if first_rows and harm == "gone":
            first_rows.unlink()
        if first_rows and harm == "damaged":
            first_rows.write_bytes(b"not a graph")
        build(vectors, path, first_rows=first_rows)

    monkeypatch.setattr(folder, "build_graph", watched)
    for first in (0, 400):
        put(store, **{f"c{n}": f"c{n} text" for n in range(first, first + 400)})
        indexes = Indexes(store, tmp_path, Random())
        indexes.snapshot("t", "main")
        indexes.close()
    assert began == [False, True]
    query = Random().embed(["c555"])[0]
    view = Indexes(store, tmp_path, Random()).snapshot("t", "main")
    assert view.degraded == ""
    found = view.ids(view.nearest(query, 20)[0])
    assert found[0] == "c555"
    assert len(set(found) & by_hand(store, query, 20)) >= 19


@pytest.mark.parametrize(
    ("large", "installed", "made"),
    [(4, True, True), (5, True, False), (4, False, False)],
)
def test_a_neighbor_graph_is_made_for_a_large_segment_if_the_extra_is_installed(
    store, tmp_path, monkeypatch, large, installed, made
):
    monkeypatch.setattr(folder, "LARGE", large)
    monkeypatch.setattr(folder, "has_usearch", lambda: installed)
    indexes = Indexes(store, tmp_path, Hues())
    indexes.snapshot("t", "main")
    indexes.close()
    assert bool(list(tmp_path.rglob("*.near"))) is made


def harm(path, how):
    data = path.read_bytes()
    path.write_bytes({
        "zeroed": bytes(len(data)),
        "not a number": b"\xff\x7f" * (len(data) // 2),
        "one bit": bytes([data[0] ^ 1]) + data[1:],
        "half": data[: len(data) // 2],
        "another dimension": data + data,
    }[how])  # fmt: skip


@pytest.mark.parametrize("how", ["zeroed", "not a number", "one bit", "half", "another dimension"])
def test_damaged_embeddings_are_noticed_rebuilt_and_said(store, tmp_path, how):
    indexes = Indexes(store, tmp_path, Hues())
    indexes.snapshot("t", "main")
    indexes.close()
    harm(next(tmp_path.rglob("*.vectors")), how)
    with pytest.raises(DamagedIndex):
        folder.read_state(folder.folder_of(tmp_path, "t", "main"), verify=True)
    again = Indexes(store, tmp_path, Hues())
    view = again.snapshot("t", "main")
    assert "the index was rebuilt" in view.degraded
    assert view.ids(view.nearest([1.0, 0.0, 0.0], 1)[0]) == ["a"]
    again.close()
    assert Indexes(store, tmp_path, Hues()).snapshot("t", "main").degraded == ""


def test_a_damaged_neighbor_graph_is_noticed_rebuilt_and_said(tmp_path, monkeypatch):
    monkeypatch.setattr(folder, "LARGE", 300)
    store = TemporaryStore()
    put(store, **{f"c{n}": f"c{n} text" for n in range(400)})
    indexes = Indexes(store, tmp_path, Random())
    indexes.snapshot("t", "main")
    indexes.close()
    path = next(tmp_path.rglob("*.near"))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)
    view = Indexes(store, tmp_path, Random()).snapshot("t", "main")
    assert "near does not match its checksum" in view.degraded


class Faulty(Hues):
    """An embedder whose vectors are changed on their way."""

    def __init__(self, change):
        super().__init__()
        self.change = change

    def embed(self, texts):
        return self.change(super().embed(texts))


def without_numbers(rows):
    return np.full_like(rows, np.nan)


def test_a_query_vector_of_another_size_or_without_numbers_is_refused():
    with pytest.raises(ConfigError, match="gave 1 × 2 numbers for 1 texts"):
        Indexes(TemporaryStore(), embedder=Faulty(lambda rows: rows[:, :2])).vector("red")
    indexes = Indexes(TemporaryStore(), embedder=Faulty(without_numbers))
    for _ in range(2):  # nor is it remembered
        with pytest.raises(EmbedderFailed, match="gave no numbers for the query"):
            indexes.vector("red")


def test_what_is_no_number_is_never_stored_and_words_find_without_it(store, caplog):
    def spoil_one(rows):
        rows[1] = np.inf
        return rows

    view = Indexes(store, embedder=Faulty(spoil_one)).snapshot("t", "main")
    assert store.kinds("t", "main")["embedding/hues/3"] == 3
    assert "gave no numbers for 1 chunks" in caplog.text
    assert view.nearest([0.0, 1.0, 0.0], 4)[1].tolist() == pytest.approx([0.707, 0, 0, 0], abs=0.01)
    assert [c.chunk.id for c in retrieve("field", view, RetrievePolicy()).kept] == ["b"]


def test_an_embedder_that_fails_leaves_the_index_to_words_until_it_is_back(
    store, tmp_path, monkeypatch
):
    monkeypatch.setattr(collection, "_RETRY_S", 0.0)
    hues = Faulty(without_numbers)
    indexes = Indexes(store, tmp_path, hues)
    view = indexes.snapshot("t", "main")
    assert "words find alone what is new: the embedder hues gave no numbers" in view.degraded
    assert [c.chunk.id for c in retrieve("field", view, RetrievePolicy()).kept] == ["b"]
    assert "embedding/hues/3" not in store.kinds("t", "main")
    hues.change = lambda rows: rows
    view = indexes.snapshot("t", "main")
    assert view.degraded == ""
    assert view.ids(view.nearest([1.0, 0.0, 0.0], 1)[0]) == ["a"]
    indexes.close()


def test_a_request_that_does_not_wait_gets_words_too_while_the_embedder_fails(store):
    indexes = Indexes(store, embedder=Faulty(without_numbers))
    with pytest.raises(NotReady):
        indexes.latest("t", "main")
    indexes.follow("t", "main")
    view = indexes.latest("t", "main")
    assert "words find alone" in view.degraded
    assert [c.chunk.id for c in retrieve("field", view, RetrievePolicy()).kept] == ["b"]
    indexes.close()


def test_embeddings_that_an_older_release_stored_without_numbers_are_made_anew(store):
    Indexes(store, embedder=Hues()).snapshot("t", "main")
    bad = np.full(3, np.nan, np.float16).tobytes()
    store.attach("t", "main", "embedding/hues/3", {"a": bad, "b": b"short"})
    hues = Hues()
    view = Indexes(store, embedder=hues).snapshot("t", "main")
    assert sorted(hues.texts) == ["a green field", "a red kite"]
    assert view.ids(view.nearest([1.0, 0.0, 0.0], 1)[0]) == ["a"]
