"""Loading on bad days: two writers at once, and a store that fails halfway."""

import gc

import pytest

from millgate.errors import InputError
from millgate.ingest import load
from millgate.ingest.load import add_rows, add_stream
from millgate.stores.temporary import TemporaryStore

ONE = "The ferry leaves Lagos at nine and reaches Porto in the evening."
OTHER = "Refunds are paid within five working days after the return arrives."


class Overtaken:
    """A store on which another writer changes a document right after the first put."""

    def __init__(self, store, row):
        self._store, self._row = store, row

    def __getattr__(self, name):
        return getattr(self._store, name)

    def put(self, *args, **options):
        done = self._store.put(*args, **options)
        add_rows(self._store, "t", [self._row])
        return done


def test_a_stream_of_nothing_but_a_byte_order_mark_is_skipped():
    store = TemporaryStore()
    add_stream(store, "t", b"\xef\xbb\xbf", id="a")
    assert list(store.scan("t", "main")) == []


def test_documents_of_many_chunks_are_written_a_few_at_a_time(monkeypatch):
    monkeypatch.setattr(load, "_MAX_CHUNKS", 40)
    store, puts = TemporaryStore(), []
    put = store.put
    store.put = lambda tenant, documents, **more: puts.append(len(documents)) or put(tenant, documents, **more)  # fmt: skip
    chat = "".join(f"User: this is turn {n}\n" for n in range(30))
    done = add_rows(store, "t", [{"id": f"d{n}", "text": chat} for n in range(5)])
    assert [count for count in puts if count] == [2, 2, 1]
    assert (done.documents, done.chunks) == (5, 150)


def test_the_garbage_collector_goes_on_while_a_batch_is_written():
    during = []
    add_rows(
        TemporaryStore(), "t", [{"text": ONE}], on_progress=lambda _: during.append(gc.isenabled())
    )
    assert during == [True]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"id": "a", "txt": "boats"}, "did you mean text?"),
        ({"text": "boats", "colection": "b"}, "did you mean collection?"),
        ({"Title": "A", "text": "boats"}, "did you mean title?"),
        ({"id": "a", "text": 5}, "the text of a row is int, not a text"),
        ({"page": "boats"}, "a row has no text, but 'page'"),
    ],
)
def test_a_bad_row_says_what_was_meant(row, said):
    with pytest.raises(InputError) as refused:
        add_rows(TemporaryStore(), "t", [row])
    assert said in str(refused.value)


@pytest.mark.parametrize("key", ["sources", "subtitle", "author", "source_id", "Ünïcode", 7])
def test_keys_of_ones_own_join_the_metadata(key):
    assert add_rows(TemporaryStore(), "t", [{"text": "boats", str(key): "x"}]).documents == 1
