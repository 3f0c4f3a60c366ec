"""The gateway: its calls in both forms, what they refuse, and what adding leaves behind for the first question."""

import asyncio
import copy
import inspect
import sys
import threading
from dataclasses import fields
from pathlib import Path
from unittest.mock import create_autospec

import pytest
from tests.waiting import MOST_S

from millgate.errors import ConfigError, InputError, MillgateError, NotFound, StoreError
from millgate.gateway import Millgate
from millgate.guard import adapters, tools
from millgate.settings import load
from millgate.stores.temporary import TemporaryStore
from millgate.types import ContextBudget, Request

SECRET = "sk-" + "a1B2" * 12


def rows(count):
    return [{"id": f"r{n}", "text": f"Row {n} tells of the harbor."} for n in range(count)]


@pytest.mark.parametrize(
    ("count", "indexed"), [(3, False), (999, False), (1_000, True), (2_500, True)]
)
def test_a_long_add_is_indexed_by_the_time_it_returns_a_short_one_by_the_next_question(
    tmp_path, count, indexed
):
    with Millgate.open(tmp_path / "kb") as gate:
        gate.add(rows(count))
        assert any((tmp_path / "kb" / "index").rglob("*.json")) is indexed
        assert gate.index().count == count


def test_an_add_stands_over_a_damaged_index_and_rebuilds_it(tmp_path):
    with Millgate.open(tmp_path / "kb") as gate:
        gate.add(rows(1_500))
    with Millgate.open(tmp_path / "kb") as gate:
        folder = next((tmp_path / "kb" / "index").rglob("*.json")).parent
        for file in folder.iterdir():
            file.write_bytes(b"damaged")
        gate.add([{"id": f"s{n}", "text": "More."} for n in range(1_500)])
        assert gate.index().count == 3_000


def example(gate):
    """What README does, without its prints."""
    gate.add([
        {"id": "policy", "text": "Refunds are paid within 14 days to the card that was charged."},
        {"id": "steps", "text": "To get a refund the customer sends the order number."},
        {"id": "shipping", "text": "Parcels leave the warehouse every weekday at noon."},
    ])  # fmt: skip
    window = ["tool: Refunds are paid within 14 days to the card that was charged."]
    return gate.context("how do refunds work?", window=window, budget=100)


async def test_the_example_runs_and_closes_inside_a_running_event_loop():
    before = set(threading.enumerate())
    with Millgate.open(":memory:") as gate:
        assert [chunk.id for chunk in example(gate).chunks] == ["steps"]
    assert {t for t in threading.enumerate() if t not in before and t.is_alive()} == set()


async def test_everything_that_waits_or_writes_has_an_async_form(tmp_path):
    (tmp_path / "tide.md").write_text("The tide turns at six.")
    async with Millgate.open(":memory:") as gate:
        assert (await gate.aadd(rows(3))).documents == 3
        assert (await gate.aadd_files(tmp_path / "tide.md")).documents == 1
        assert (await gate.aadd_stream(b"Boats leave at dawn.", id="boats")).documents == 1
        assert (await gate.aadd_turns("s", ["Ann: hello"])).new == 1
        fact = (await gate.aremember("The quay is 300 m long.")).fact
        assert [hit.fact.id for hit in await gate.arecall("how long is the quay?")] == [fact.id]
        assert (await gate.afeedback(fact.id, helpful=True)).new > fact.trust
        found = await gate.acontext("when do boats leave?", budget=100)
        assert (await gate.atrace(found.trace.id)).id == found.trace.id
        assert (await gate.awhy(found.trace.id, found.chunks[0].id)).entered
        assert (await gate.areplay(found.trace.id, {"budget": 5})).after.tokens <= 5
        assert (await gate.areindex()).count == 5
        assert set(await gate.acollections()) == {"main", "turns"}
        assert await gate.aremove(documents=["boats"]) == 1
    with pytest.raises(StoreError, match="closed"):
        await gate.acontext("boats")


def test_help_shows_the_parameters_and_defaults_of_context():
    for method in (Millgate.context, Millgate.acontext):
        parameters = inspect.signature(method).parameters
        assert parameters["budget"].default == Request("").budget
        assert {f.name for f in fields(Request)} - {"tenant", "asker"} <= set(parameters)
    assert (Millgate.context.__name__, Millgate.aadd.__name__) == ("context", "aadd")
    assert not inspect.iscoroutinefunction(Millgate.context)


ARGUMENTS = {
    "add": ([[{"id": "x", "text": "x"}]], {}),
    "add_stream": ([b"x"], {}),
    "add_turns": (["s", ["x"]], {}),
    "check": (["store"], {}),
    "context_for": ([Request("x")], {}),
    "document": (["x"], {}),
    "feedback": (["x"], {"helpful": True}),
    "for_tenant": (["other"], {}),
    "replay": (["x", {}], {}),
    "why": (["x", "x"], {}),
}


async def use(gate, name):
    """Read a property, or call a method in either form."""
    found = getattr(gate, name)
    bare = name if name in ARGUMENTS else name.removeprefix("a")
    nothing = bare in ("collections", "remove", "traces")
    args, kwargs = ARGUMENTS.get(bare, ([] if nothing else ["x"], {}))
    result = found(*args, **kwargs)
    return await result if inspect.isawaitable(result) else result


PUBLIC = sorted(
    name
    for name in vars(Millgate)
    if not name.startswith("_") and name not in ("open", "close", "aclose")
)


@pytest.mark.parametrize("who", ["itself", "a tenant's gate", "its owner"])
@pytest.mark.parametrize("name", PUBLIC)
async def test_after_closing_every_public_name_says_that_it_is_closed(name, who):
    owner = Millgate.open(":memory:")
    gate = owner if who == "itself" else owner.for_tenant("other")
    (owner if who == "its owner" else gate).close()
    with pytest.raises(StoreError, match="this Millgate is closed"):
        await use(gate, name)
    owner.close()


def test_closing_twice_is_no_mistake():
    gate = Millgate.open(":memory:")
    gate.context("x")
    gate.close()
    gate.close()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("detail", "brief"),
        ("order", "best"),
        ("budget", "10"),
        ("budget", 10.5),
        ("budget", True),
        ("budget", -1),
        ("window", 5),
        ("window", [5]),
        ("k", 0),
        ("k", -1),
        ("k", True),
        ("k", "3"),
        ("collection", 7),
        ("collection", []),
        ("collection", ["main", 7]),
        ("context_budget", 1000),
        ("task", 3),
        ("session", None),
        ("cwd", 1),
        ("penalize", "no"),
        ("graph", 1),
        ("best_effort", None),
        ("query", 5),
    ],
)
def test_a_wrong_value_is_an_error_that_names_the_parameter(name, value):
    with Millgate.open(":memory:") as gate:
        asked = {"query": "boats"} | {name: value}
        with pytest.raises(InputError, match=name):
            gate.context(**asked)


def test_settings_that_are_no_settings_say_how_to_write_them():
    with pytest.raises(ConfigError, match="settings is dict, not Settings"):
        Millgate.open(":memory:", settings={"retrieve.k1": 1})


def test_a_misspelt_keyword_of_a_part_names_the_right_one():
    with (
        Millgate.open(":memory:") as gate,
        pytest.raises(InputError, match="did you mean category"),
    ):
        gate.facts.add("boats float", catgory="a")


@pytest.mark.parametrize(
    ("method", "given", "meant"),
    [
        ("context", {"budgett": 100}, "did you mean budget?"),
        ("context", {"messages": []}, "it takes query, window"),
        ("add", {"colection": "a"}, "did you mean collection?"),
        ("replay", {"chnges": {}}, ""),
        ("collections", {"limit": 3}, "it takes none"),
    ],
)
def test_a_misspelt_keyword_is_an_error_that_says_what_the_method_takes(method, given, meant):
    with Millgate.open(":memory:") as gate:
        gate.add({"id": "boats", "text": "boats"})
        first = [gate.context("boats").trace.id] if method == "replay" else ["boats"]
        first = [] if method == "collections" else first
        with pytest.raises(InputError, match=next(iter(given))) as blocking:
            getattr(gate, method)(*first, **given)
        with pytest.raises(InputError, match=next(iter(given))) as waiting:
            asyncio.run(getattr(gate, f"a{method}")(*first, **given))
    assert meant in blocking.value.hint
    assert meant in waiting.value.hint


WRONG = {
    "session is None": lambda gate: gate.add_turns(None, ["Hello there."]),
    "the turns are NoneType, not a list": lambda gate: gate.add_turns("monday", None),
    "changes is None": lambda gate: gate.replay(gate.context("boats"), None),
    "helpful is 'no'": lambda gate: gate.feedback("f-1", helpful="no"),
    "query is None": lambda gate: gate.recall(None),
    "limit is '5'": lambda gate: gate.recall("boats", limit="5"),
    "tags are str, not a list": lambda gate: gate.remember("Ada runs the ferry.", tags="boats"),
    "edges is NoneType, not several": lambda gate: gate.graph.link(None),
    "messages is NoneType, not a list": lambda _: tools.check(None),
    "client is NoneType, and has no chat": lambda _: adapters.chat(None, messages=[]),
}


@pytest.mark.parametrize("said", WRONG)
def test_a_value_of_the_wrong_type_is_an_error_that_names_it(said):
    with Millgate.open(":memory:") as gate, pytest.raises(InputError, match=said):
        WRONG[said](gate)


@pytest.mark.parametrize("name", ["", None, 5, "x" * 2_000])
def test_a_tenant_or_collection_that_no_store_can_hold_is_refused_before_anything_is_stored(
    name, tmp_path
):
    (tmp_path / "a.md").write_text("Boats leave at noon.")
    with Millgate.open(":memory:") as gate:
        with pytest.raises(InputError, match="tenant "):
            gate.for_tenant(name)
        for add in (
            lambda: gate.add(["boats"], collection=name),
            lambda: gate.add_files(tmp_path, collection=name),
            lambda: gate.add_stream(b"boats", collection=name),
            lambda: gate.add_turns("monday", ["boats"], collection=name),
        ):
            with pytest.raises(InputError, match="collection "):
                add()
        assert not gate.collections()


@pytest.mark.parametrize("rows", [5, None])
def test_what_is_no_row_at_all_is_an_error_that_says_what_add_takes(rows):
    with (
        Millgate.open(":memory:") as gate,
        pytest.raises(InputError, match=f"this is {type(rows).__name__}"),
    ):
        gate.add(rows)


def test_a_gate_without_a_store_says_how_to_open_one():
    with pytest.raises(ConfigError, match="opens nothing"):
        Millgate()


def test_a_wrong_number_of_the_models_window_is_named_too():
    with pytest.raises(InputError, match="used_tokens"):
        ContextBudget(1000, "12")


def test_closing_while_others_wait_is_our_own_error_for_them(tmp_path):
    started, failures = threading.Event(), []

    class Slow:
        async def grade(self, query, candidates):
            started.set()
            await asyncio.sleep(60)

    gate = Millgate.open(tmp_path, grader=Slow())
    gate.add(rows(3))

    def ask():
        try:
            gate.context("harbor")
        except MillgateError as error:
            failures.append(error)

    waiting = threading.Thread(target=ask)
    waiting.start()
    assert started.wait(MOST_S)
    gate.close()
    waiting.join(MOST_S)
    assert [type(error) for error in failures] == [StoreError]


class Counted:
    """A store that counts how often all collections are listed."""

    def __init__(self, store):
        self._store, self.listed = store, 0

    def __getattr__(self, name):
        return getattr(self._store, name)

    def collections(self, tenant):
        self.listed += 1
        return self._store.collections(tenant)


def test_no_request_lists_all_collections():
    store = Counted(TemporaryStore())
    with Millgate.open(store=store) as gate:
        gate.add(rows(3))
        gate.context("harbor")
        assert store.listed == 0


def test_a_gate_that_does_not_wait_answers_from_what_was_just_added(tmp_path):
    with Millgate.open(tmp_path / "kb", wait_for_index=False) as gate:
        gate.add(rows(900))
        assert gate.index(wait=False).count == 900
        gate.add([{"id": "late", "text": "A late row tells of the lighthouse."}])
        assert gate.context("lighthouse", budget=100).chunks[0].id == "late"


@pytest.mark.parametrize("waits", [True, False])
def test_progress_is_told_after_each_batch_whether_or_not_the_index_follows(waits):
    seen = []
    with Millgate.open(":memory:", wait_for_index=waits) as gate:
        gate.add(rows(3), on_progress=lambda progress: seen.append(progress.chunks))
    assert seen[-1] == 3


def test_a_document_that_is_not_there_is_named():
    with Millgate.open(":memory:") as gate:
        gate.add(rows(1))
        assert [chunk.id for chunk in gate.document("r0")] == ["r0"]
        with pytest.raises(NotFound, match="no document 'r1' in 'main'"):
            gate.document("r1")


def test_a_trace_at_hand_stands_for_itself_but_not_for_another_tenant():
    with Millgate.open(":memory:") as gate:
        gate.add(rows(1))
        trace = gate.context("harbor").trace
        assert gate.trace(trace) is trace
        assert gate.trace(trace.id).id == trace.id
        with pytest.raises(NotFound, match="there is no trace"):
            gate.for_tenant("other").trace(trace)
        with pytest.raises(NotFound):
            gate.trace("nonsense")


@pytest.mark.parametrize(("keep", "kept"), [(0, 0), (5, 1)])
def test_traces_are_kept_if_the_settings_say_so(keep, kept):
    with Millgate.open(":memory:", trace={"keep": keep}) as gate:
        gate.add(rows(1))
        trace = gate.context("harbor").trace
        assert len(gate.traces()) == kept
        gate.save_trace(trace)
        assert len(gate.traces()) == kept


@pytest.mark.parametrize(("redact", "text", "kept"), [(True, True, "[redacted"), (False, True, SECRET), (True, False, "")])  # fmt: skip
def test_a_secret_is_taken_out_of_what_is_kept_of_a_request(redact, text, kept):
    with Millgate.open(":memory:", redact=redact, trace={"text": text}) as gate:
        gate.add(rows(1))
        made = gate.context("harbor", window=[f"The key is {SECRET}."], budget=100)
        stored = gate.trace(made.trace.id).request.window.texts
    assert stored == () if not kept else kept in stored[0]
    assert (SECRET in str(stored)) is not redact


def test_each_part_says_whether_it_can_serve():
    class Lame:
        name = "lame"

        def is_available(self):
            return True

        def prefetch(self, query):
            raise OSError("broke its leg")

    with Millgate.open(":memory:", providers=[Lame()]) as gate:
        gate.add(rows(1))
        assert [gate.check(part) for part in ("store", "index", "providers")] == ["", "", ""]
        gate.context("harbor")
        assert gate.check("store") == gate.check("index") == ""
        assert gate.check("providers").startswith("lame: ")
        assert "failures in a row: 1" in gate.check("providers")


def test_a_gate_of_another_tenant_may_be_closed_and_the_store_stays_open():
    with Millgate.open(":memory:") as gate:
        gate.for_tenant("other").close()
        gate.add(rows(1))
        assert gate.collections()["main"].chunks == 1


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_gates_of_other_tenants_share_one_loop_and_open_nothing_of_their_own():
    def loops_and_descriptors():
        loops = [thread for thread in threading.enumerate() if thread.name == "millgate"]
        return len(loops), len(list(Path("/proc/self/fd").iterdir()))

    with Millgate.open(":memory:") as gate:
        gate.for_tenant("first").add(rows(1))
        assert gate.for_tenant("first").context("harbor").chunks
        before = loops_and_descriptors()
        for n in range(60):
            assert gate.for_tenant(f"tenant {n}").context("harbor").chunks == ()
        loops, descriptors = loops_and_descriptors()
        assert loops == before[0]
        assert descriptors < before[1] + 40  # the store may have opened a few connections more


def test_closing_the_gate_of_a_tenant_leaves_the_calls_of_others_alone():
    with Millgate.open(":memory:") as gate:
        gate.add(rows(1))
        with gate.for_tenant("other") as other:
            assert other.context("harbor").chunks == ()
        with pytest.raises(StoreError, match="closed"):
            other.context("harbor")
        assert gate.context("harbor").chunks
    with pytest.raises(StoreError, match="closed"):
        gate.for_tenant("late")


def test_a_log_that_cannot_be_written_is_a_degraded_step_and_the_answer_stands(tmp_path):
    with Millgate.open(":memory:", log={"path": str(tmp_path / "no" / "where.log")}) as gate:
        gate.add(rows(1))
        made = gate.context("harbor", budget=100)
        assert made.chunks
        assert [step.stage.value for step in made.trace.steps if step.degraded] == ["log"]
        assert not any(step.stage.value == "trace" for step in made.trace.steps)


def test_a_ready_made_request_is_answered_for_the_tenant_of_the_gate():
    with Millgate.open(":memory:") as gate:
        gate.add([{"id": "ours", "text": "The harbor opens at nine."}])
        other = gate.for_tenant("acme")
        other.add([{"id": "theirs", "text": "The harbor opens at ten."}])
        request = Request("when does the harbor open?")
        assert [chunk.id for chunk in other.context_for(request).chunks] == ["theirs"]
        assert [chunk.id for chunk in gate.context_for(request).chunks] == ["ours"]
        with pytest.raises(InputError, match="for the tenant 'acme'"):
            gate.context_for(Request("when does the harbor open?", tenant="acme"))


STREET = "Die Straße nach Köln ist lang und schön und führt am Rhein entlang."


@pytest.mark.parametrize("german", [1, 3])
@pytest.mark.parametrize("question", ["Köln", "Straße", "führt", "Straße nach Köln", "Where is Köln?"])  # fmt: skip
def test_a_word_of_any_language_is_found_beside_texts_of_another(question, german):
    english = ["Parcels leave at noon every weekday.", "The tide turns at six in the harbor.", "def tide(): return 6"]  # fmt: skip
    texts = [STREET, "Die Pakete liegen im Lager.", "Das Wasser steigt am Abend."][:german]
    with Millgate.open(":memory:") as gate:
        gate.add([*texts, *english])
        found = gate.context(question)
    assert [chunk.text for chunk in found.chunks][:1] == [STREET]


@pytest.mark.parametrize("path", ["", 5])
def test_what_names_no_folder_opens_nothing(tmp_path, monkeypatch, path):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="the path is"):
        Millgate.open(path)
    with pytest.raises(InputError, match="a path is"), Millgate.open(":memory:") as gate:
        gate.add_files(path)
    assert list(tmp_path.iterdir()) == []


def test_a_blank_variable_names_no_store(monkeypatch):
    monkeypatch.setenv("MILLGATE_STORE", "")
    assert load().store == ".millgate"


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("search", r"did you mean context\(question\)"),
        ("get", r"did you mean document\(id\)"),
        ("delete", r"did you mean remove\(documents=\[id\]\)"),
        ("status", "millgate status"),
        ("contxt", "did you mean context"),
        ("zzzz", "Millgate has no zzzz$"),
        ("_private", "Millgate has no _private$"),
    ],
)
def test_a_name_that_is_no_method_names_the_one_that_was_meant(name, meant):
    with Millgate.open(":memory:") as gate:
        assert not hasattr(gate, name)
        with pytest.raises(AttributeError, match=meant):
            getattr(gate, name)


def test_an_error_inside_a_property_is_not_taken_for_a_missing_name(monkeypatch):
    monkeypatch.setattr(Millgate, "facts", property(lambda self: self.store.nothing_there))
    with Millgate.open(":memory:") as gate, pytest.raises(AttributeError, match="nothing_there"):
        gate.facts  # noqa: B018


def test_a_gate_can_be_copied_and_mocked():
    with Millgate.open(":memory:") as gate:
        gate.add([{"id": "a", "text": "Refunds are paid within 14 days."}])
        assert copy.copy(gate).context("when are refunds paid?").chunks
        mock = create_autospec(gate, instance=True)
        mock.context("anything")
        with pytest.raises(AttributeError):
            mock.search("anything")


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (
            lambda gate: gate.remove("nope"),
            "remove takes no values without a name (name what is given: collection=..., ",
        ),
        (lambda gate: gate.add(["a"], "main"), "add takes only 1 value without a name"),
        (lambda gate: gate.traces(limit="x"), "limit is 'x'; it must be a whole number"),
        (lambda gate: gate.trace(5), "the id of a trace is 5; it must be a text"),
        (lambda gate: gate.count_tokens(5), "text is 5; it must be a text"),
        (lambda gate: gate.context("refunds", collection=""), "the name of a collection is empty"),
    ],
)
def test_a_value_that_cannot_be_used_is_an_input_error(call, said):
    with Millgate.open(":memory:") as gate, pytest.raises(InputError) as raised:
        call(gate)
    assert said in str(raised.value)


def test_a_message_that_only_calls_a_tool_may_stand_in_a_window():
    with Millgate.open(":memory:") as gate:
        gate.context(
            "refunds",
            window=[
                {"role": "assistant"},
                {"role": "assistant", "tool_calls": []},
                {"type": "function_call"},
                {},
            ],
        )
