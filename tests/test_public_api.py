"""Millgate.open: every component that a user replaces is the one that is used."""

import numpy as np
import pytest

from millgate.errors import ConfigError, InputError, NotFound
from millgate.gateway import Millgate
from millgate.settings import Settings
from millgate.stores.temporary import TemporaryStore
from millgate.testing import FixedClock
from millgate.types import Chunk, Edge
from millgate.types.policy import LogPolicy

ROWS = [
    {"id": "tides", "text": "The tide in the harbor turns twice a day."},
    {"id": "boats", "text": "Fishing boats leave the harbor before dawn."},
]


class LetterEmbedder:
    """Counts a few letters."""

    name = "letters"
    dimension = 4

    def __init__(self):
        self.seen = []

    def embed(self, texts):
        self.seen += texts
        counts = np.array([[1 + text.count(c) for c in "aeio"] for text in texts], np.float32)
        return counts / np.linalg.norm(counts, axis=1, keepdims=True)


class PickyGrader:
    """Is sure of boats, and of nothing else."""

    async def grade(self, query, candidates):
        return [1.0 if "boats" in c.chunk.text else 0.0 for c in candidates]


class Almanac:
    """A web search that knows one page."""

    def __init__(self):
        self.asked = []

    async def search(self, query, *, limit):
        self.asked.append((query, limit))
        page = "https://example.org/moon"
        return [Chunk("moon", "The moon moves the tides.", document=page, source="web")]


class Diary:
    """A memory provider of the older kind."""

    name = "diary"

    def is_available(self):
        return True

    def prefetch(self, query):
        return "- the harbor master is called Ann"


def test_a_store_of_ones_own_is_written_to_and_read_from():
    store = TemporaryStore()
    with Millgate.open(store=store) as gate:
        gate.add(ROWS)
        assert [c.id for c in store.scan("default", "main")] == ["tides", "boats"]
        assert gate.context("when do fishing boats leave?", budget=100).chunks[0].id == "boats"


def test_beside_a_store_of_ones_own_the_path_is_the_folder_of_the_index_and_the_log(tmp_path):
    with Millgate.open(tmp_path / "derived", store=TemporaryStore()) as gate:
        gate.add([{"id": f"r{n}", "text": f"Row {n} tells of the harbor."} for n in range(1_100)])
    assert {p.name for p in (tmp_path / "derived").iterdir()} == {"index"}


def test_nothing_is_written_beside_a_store_of_ones_own_without_a_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with Millgate.open(store=TemporaryStore()) as gate:
        gate.add(ROWS)
        gate.context("boats", budget=100)
    assert list(tmp_path.iterdir()) == []


def test_an_embedder_of_ones_own_embeds_chunks_and_queries():
    embedder = LetterEmbedder()
    with Millgate.open(":memory:", embedder=embedder) as gate:
        gate.add(ROWS)
        gate.context("when does the tide turn?", budget=100)
        assert gate.embed("boats").shape == (4,)
    assert "when does the tide turn?" in embedder.seen
    assert any("Fishing boats" in text for text in embedder.seen)


def test_a_grader_of_ones_own_decides_what_is_relevant():
    with Millgate.open(":memory:", grader=PickyGrader()) as gate:
        gate.add(ROWS)
        found = gate.context("what happens in the harbor?", budget=100)
    assert [chunk.id for chunk in found.chunks] == ["boats"]


def test_a_search_of_ones_own_is_asked_if_the_collection_does_not_know():
    search = Almanac()
    with Millgate.open(":memory:", search=search) as gate:
        gate.add(ROWS)
        found = gate.context("what moves the moon and the stars?", budget=100)
    assert search.asked
    assert "moon" in [chunk.id for chunk in found.chunks]


def test_a_memory_provider_of_ones_own_takes_part():
    with Millgate.open(":memory:", providers=[Diary()]) as gate:
        gate.add(ROWS)
        found = gate.context("who is the harbor master?", budget=200)
    assert "Ann" in found.text


def test_a_token_counter_of_ones_own_measures_the_budget():
    counted = []

    def count(text):
        counted.append(text)
        return len(text)

    with Millgate.open(":memory:", counter=count) as gate:
        gate.add(ROWS)
        assert gate.count_tokens("harbor") == 6
        assert gate.context("fishing boats in the harbor", budget=30).chunks == ()
        assert gate.context("fishing boats in the harbor", budget=1000).chunks != ()
    assert any("Fishing boats" in text for text in counted)


def test_a_clock_of_ones_own_dates_everything():
    clock = FixedClock(1_000_000.0)
    with Millgate.open(":memory:", clock=clock) as gate:
        gate.add(ROWS)
        assert gate.remember("The quay is 300 m long.").fact.created == 1_000_000.0
        assert gate.context("boats", budget=100).trace.created == 1_000_000.0
        assert gate.keys.create().key.created == 1_000_000.0
        assert gate.graph.rotate_secret(days=1) == 1_086_400.0


def test_settings_and_arguments_meet_in_the_folder_that_is_opened(tmp_path):
    settings = Settings(log=LogPolicy(enabled=False))
    with Millgate.open(tmp_path / "kb", settings=settings, gate={"min_ratio": 0.01}) as gate:
        assert (gate.settings.gate.min_ratio, gate.settings.log.enabled) == (0.01, False)


@pytest.mark.parametrize("address", ["mysql://ann:s3cret@db/kb", "redis://:s3cret@h"])
def test_an_address_of_an_unknown_kind_is_refused_and_its_password_kept_quiet(
    tmp_path, monkeypatch, address
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="://") as caught:
        Millgate.open(address)
    assert "s3cret" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_the_graph_links_follows_and_signs_for_its_tenant_alone():
    with Millgate.open(":memory:") as gate:
        assert gate.graph.link([Edge("harbor", "Part Of", "town")]) == 1
        ((path, score),) = gate.graph.paths("harbor", max_hops=1)
        assert (path.line, score) == ("harbor -[part_of]-> town", 0.6)
        assert gate.for_tenant("other").graph.paths("harbor") == []
        turns = gate.add_turns("s", ["Ann: the tide turns", "Ben: at six"])
        signed = gate.graph.cut_slice(turns.ids[0], admit=True)
        assert gate.graph.verify(signed)
        assert not gate.for_tenant("other").graph.verify(signed)
        assert gate.graph.unlink(gate.graph.edges("harbor")) == 1


def test_keys_are_made_found_and_revoked():
    with Millgate.open(":memory:") as gate:
        made = gate.keys.create(["read"], name="ci")
        assert gate.keys.find(made.token) == made.key
        assert gate.keys.find("mg_nonsense") is None
        assert [key.name for key in gate.keys.list_keys()] == ["ci"]
        assert list(gate.for_tenant("other").keys.list_keys()) == []
        gate.keys.revoke(made.key.id)
        assert gate.keys.find(made.token).revoked is not None


async def test_facts_reviews_and_keys_have_async_forms_too():
    async with Millgate.open(":memory:") as gate:
        fact = (await gate.facts.aadd("The quay is 300 m long.")).fact
        assert (await gate.facts.asearch("how long is the quay?"))[0].fact.id == fact.id
        await gate.facts.aforget(fact.id)
        asked = gate.reviews.ask("why?", collection="main", grades={}, reason="a test")
        assert (await gate.reviews.aanswer(asked.id, "Since it is so.")).review.status == "answered"
        made = await gate.keys.acreate(["read"])
        assert (await gate.keys.afind(made.token)).id == made.key.id
        assert await gate.graph.alink([Edge("harbor", "part_of", "town")]) == 1


@pytest.fixture
def gate():
    with Millgate.open(":memory:") as opened:
        yield opened


def test_one_row_texts_and_a_path_are_added_as_people_guess(gate, tmp_path):
    (tmp_path / "notes.md").write_text("The harbor closes at ten.")
    assert gate.add(ROWS[0]).documents == 1
    assert gate.add("Ferries run on Sundays.").documents == 1
    assert gate.add(["Ferries run daily.", "The pier is long."]).documents == 2
    assert gate.add(tmp_path).documents == 1


def test_a_list_of_paths_is_refused_with_how_to_give_them(gate, tmp_path):
    with pytest.raises(InputError, match=r"add_files\(\*paths\)"):
        gate.add_files([tmp_path])


def test_the_constructor_says_how_a_store_is_opened():
    with pytest.raises(ConfigError, match=r"Millgate\.open\('\./kb'\)"):
        Millgate("./kb")


def test_an_argument_of_open_that_is_misspelt_names_the_right_one():
    with pytest.raises(ConfigError, match="did you mean embedder"):
        Millgate.open(":memory:", embeder=LetterEmbedder())


def test_a_store_may_be_named_as_the_store():
    with Millgate.open(store=":memory:") as gate:
        assert repr(gate) == "<Millgate ':memory:', tenant 'default'>"
    assert "closed" in repr(gate)


def test_two_stores_are_refused():
    with pytest.raises(ConfigError, match="two stores"):
        Millgate.open("./kb", store=":memory:")


def test_an_embedder_may_be_named_and_an_unknown_name_is_refused():
    with Millgate.open(":memory:", embedder="none") as gate:
        assert gate.settings.embed.model == "none"
    with pytest.raises(ConfigError, match="'nope' is neither known"):
        Millgate.open(":memory:", embedder="nope")


def test_a_grader_that_is_a_name_is_refused():
    with pytest.raises(ConfigError, match="grader is a text"):
        Millgate.open(":memory:", grader="judge")


def test_a_replay_takes_fields_of_the_request_as_keywords(gate):
    gate.add(ROWS)
    context = gate.context("when do fishing boats leave?", budget=100)
    by_name = gate.replay(context.trace.id, budget=0)
    assert by_name.left == gate.replay(context, {"budget": 0}).left == context.sources
    with pytest.raises(InputError, match="did you mean budget"):
        gate.replay(context, bugdet=5)


def test_both_forms_of_why_agree_about_a_chunk_that_was_never_found(gate):
    gate.add(ROWS)
    gate.add([{"id": "zebra", "text": "Zebras graze."}])
    context = gate.context("fishing boats")
    told = gate.why(context, "zebra")
    assert told.notes == context.why("zebra")
    assert told.reason == context.why("zebra")[-1].reason


def test_why_of_an_id_that_the_store_has_not_says_so(gate):
    gate.add([*ROWS, {"id": "long", "text": "Zebras graze. " * 400}])
    context = gate.context("fishing boats")
    with pytest.raises(NotFound, match="there is no chunk 'nope' in what was asked"):
        gate.why(context, "nope")
    with pytest.raises(NotFound, match="did you mean boats"):
        gate.why(context, "boatz")
    with pytest.raises(NotFound, match="'long' is a document; its chunks are long#"):
        gate.why(context, "long")
    assert context.why("nope")[-1].reason == "not among the candidates"


def test_the_last_trace_and_the_beginning_of_an_id_are_enough():
    with Millgate.open(":memory:") as gate:
        gate.add([{"id": "a", "text": "Boats float."}, {"id": "b", "text": "Boats sink."}])
        with pytest.raises(NotFound, match="no trace 'last'"):
            gate.why("last", "a")
        id = gate.context("boats").trace.id
        assert gate.why("last", "a").trace == gate.why(id[:8], "a").trace == id
        with pytest.raises(InputError, match="needs the id of a chunk"):
            gate.why("last")


def test_a_replay_says_why_a_chunk_leaves():
    with Millgate.open(":memory:") as gate:
        gate.add([{"id": n, "text": f"Boats of class {n} float on {n} seas."} for n in "abc"])
        gate.context("Which boats float?", budget=200)
        made = gate.replay("last", budget=80)
        assert made.left
        assert all("no room for" in made.reasons[id] for id in made.left)
