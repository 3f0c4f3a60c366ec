"""TraceContract: what every store promises about traces."""

from dataclasses import replace

from millgate.protocols import Store
from millgate.testing.samples import document, trace
from millgate.types import Chunk, Trace, Window
from millgate.types.notes import Stage


class TraceContract:
    """Traces: whole if that matters, bounded in number, age and bytes, and listed by their summaries."""

    def test_a_trace_comes_back_whole(self, store: Store) -> None:
        one = trace("1")
        store.save_trace(one)
        assert store.trace("t", "1") == one
        assert store.trace("u", "1") is None
        assert store.trace("t", "2") is None

    def test_a_trace_can_be_kept_without_text(self, store: Store) -> None:
        store.save_trace(trace("1"), text=False)
        kept = store.trace("t", "1")
        assert kept
        assert kept.request.query == ""
        assert not kept.request.window
        assert kept.candidates[0].chunk.text == ""
        assert kept.candidates[0].chunk.admission == "token"
        assert kept.candidates[0].notes == trace("1").candidates[0].notes
        assert store.traces("t")[0].query == ""

    def test_traces_come_newest_first_as_summaries(self, store: Store) -> None:
        for n in range(6):
            store.save_trace(trace(str(n), created=n), keep=4)
        store.save_trace(trace("x", tenant="u"), keep=4)
        assert [t.id for t in store.traces("t")] == ["5", "4", "3", "2"]
        assert [t.id for t in store.traces("t", limit=2)] == ["5", "4"]
        assert [t.id for t in store.traces("u")] == ["x"]
        newest = store.traces("t")[0]
        assert (newest.query, newest.candidates, newest.kept, newest.created) == ("who?", 1, 1, 5.0)

    def test_the_first_candidates_keep_all_notes_and_the_others_the_last(
        self, store: Store
    ) -> None:
        one = trace("1")
        (candidate,) = one.candidates
        twice = replace(candidate, notes=candidate.notes * 2)
        many = tuple(replace(twice, chunk=Chunk(f"c{n}", "")) for n in range(30))
        store.save_trace(replace(one, candidates=many))
        kept = store.trace("t", "1")
        assert kept
        assert [len(c.notes) for c in kept.candidates] == [2] * 20 + [1] * 10
        assert [c.chunk.id for c in kept.candidates] == [c.chunk.id for c in many]

    def test_the_text_of_a_stored_chunk_comes_back(self, store: Store) -> None:
        page = document("a", "a text that the store holds")
        store.put("t", [page])
        one = trace("1")
        (candidate,) = one.candidates
        with_chunk = replace(one, candidates=(replace(candidate, chunk=page.chunks[0]),))
        store.save_trace(with_chunk)
        assert store.trace("t", "1") == with_chunk

    def test_a_huge_window_is_not_kept_and_the_trace_says_so(self, store: Store) -> None:
        one = trace("1")
        huge = replace(one.request, window=Window(("word " * 100_000,)))
        store.save_trace(replace(one, request=huge))
        kept = store.trace("t", "1")
        assert kept
        assert not kept.request.window
        last = kept.steps[-1]
        assert (last.stage, last.facts["window_chars"]) == (Stage.TRACE, 500_000)

    def test_pruning_holds_count_age_and_bytes_for_every_tenant(self, store: Store) -> None:
        clock = 1_000_000.0

        def fill(tenant: str) -> None:
            for n in range(6):
                store.save_trace(trace(str(n), tenant=tenant, created=clock + n))

        def ids(tenant: str) -> list[str]:
            return [one.id for one in store.traces(tenant)]

        fill("t")
        fill("u")
        assert store.prune_traces(keep=10) == 0
        assert store.prune_traces(keep=4) == 4
        assert ids("t") == ids("u") == ["5", "4", "3", "2"]
        assert store.prune_traces(keep=10, max_bytes=1) == 8
        fill("t")
        assert store.prune_traces(keep=0) == 6
        fill("t")
        assert store.prune_traces(keep=10, age_s=1.0) == 6

    def test_a_trace_saved_again_replaces_itself(self, store: Store) -> None:
        store.save_trace(trace("1"))
        again: Trace = replace(trace("1"), created=9.0)
        store.save_trace(again)
        assert store.trace("t", "1") == again
        assert len(store.traces("t")) == 1
