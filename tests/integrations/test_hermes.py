"""Millgate as hermes-agent sees it: provider, engine, manager, tools, and the ways in."""

import copy
import gc
import json
import sys
import tomllib
import types
from abc import ABC, abstractmethod
from importlib.metadata import EntryPoint
from itertools import pairwise
from pathlib import Path

import pytest
from tests.integrations.samples import FACT, QUESTION, open_gate

from millgate import Millgate
from millgate.errors import InputError
from millgate.integrations import hermes
from millgate.integrations.hermes import (
    MemoryManager,
    MillgateEngine,
    MillgateMemory,
    plugin,
)
from millgate.integrations.hermes.engine import recall_for_question
from millgate.integrations.hermes.install import FILES, install, plugin_folder, uninstall
from millgate.text.fence import without_fences
from millgate.types import ContextBudget


@pytest.fixture
def gate():
    with open_gate() as gate:
        yield gate


def initialized(gate, session="monday", **told):
    memory = MillgateMemory(gate)
    memory.initialize(session, **told)
    return memory


def use(memory, tool, **args):
    return json.loads(memory.handle_tool_call(tool, args))


# The provider


def test_a_prefetch_gives_passages_facts_with_their_ids_and_earlier_turns(gate):
    memory = initialized(gate)
    added = use(memory, "fact_store", action="add", content="Refunds are signed by Ann")
    memory.sync_turn("My refund is for a red kettle.", "I see.", session_id="monday")
    given = memory.prefetch("Who signs the refund of my kettle, and how long does it take?")
    assert FACT in given
    assert added["fact_id"] in given
    assert "red kettle" in given
    assert given.count("Refunds are signed by Ann") == 1
    assert memory.recall_status().count >= 3


def test_a_prefetch_takes_the_older_and_the_newer_signature(gate):
    memory = initialized(gate)
    for n in range(4):
        gate.remember(f"Ann signs refunds of kind {n}")
    assert memory.prefetch("Who signs refunds?", session_id="monday").count("Ann signs") == 4
    limited = memory.prefetch("Who signs refunds?", session_id="monday", limit=2, min_trust=0.2)
    assert limited.split("</ref")[0].count("Ann signs") == 2
    trusted = memory.prefetch("Who signs refunds?", min_trust=0.9)
    assert "(id " not in trusted


def test_a_greeting_and_a_full_window_get_nothing(gate):
    memory = initialized(gate)
    assert memory.prefetch("hello!") == ""
    memory.set_context_budget(ContextBudget(1000, 990))
    assert memory.prefetch(QUESTION) == ""
    assert memory.recall_status() is None


def test_before_it_is_initialized_it_knows_nothing_and_does_not_fail():
    assert MillgateMemory().prefetch(QUESTION) == ""
    MillgateMemory().sync_turn("a", "b")


def test_each_user_of_a_gateway_has_a_memory_of_their_own(gate):
    one, two = initialized(gate, user_id="ann"), initialized(gate, user_id="ben")
    use(one, "fact_store", action="add", content="The safe is behind the Vermeer")
    assert "Vermeer" in one.prefetch("Where is the safe?")
    assert "Vermeer" not in two.prefetch("Where is the safe?")


def test_it_opens_a_store_in_the_home_of_hermes_agent_and_closes_it(tmp_path):
    memory = MillgateMemory()
    memory.initialize("monday", hermes_home=str(tmp_path), platform="cli")
    memory.sync_turn("My sister Ann moved to Lisbon.", "How nice.", session_id="monday")
    memory.shutdown()
    with Millgate.open(tmp_path / "millgate") as gate:
        assert gate.collections()["turns"].chunks == 2
    assert memory.prefetch("Where did Ann move?") == ""


def test_a_gate_that_was_given_stays_open(gate):
    initialized(gate).shutdown()
    assert gate.context(QUESTION).chunks


def test_what_subagents_and_cron_say_is_not_kept(gate):
    memory = initialized(gate, agent_context="cron")
    memory.sync_turn("Run the nightly job.", "Done.")
    memory.on_memory_write("add", "user", "The user likes nightly jobs")
    assert "turns" not in gate.collections()
    assert gate.facts.all() == []


def test_what_the_built_in_memory_writes_is_a_fact_here_too(gate):
    memory = initialized(gate)
    memory.on_memory_write("add", "user", "The user drinks tea")
    memory.on_memory_write("replace", "user", "The user drinks coffee", metadata={"previous_content": "The user drinks tea"})  # fmt: skip
    assert [(f.content, f.category) for f in gate.facts.all()] == [("The user drinks coffee", "user_pref")]  # fmt: skip


def test_turns_go_to_the_session_that_the_agent_switched_to(gate):
    memory = initialized(gate)
    memory.on_session_switch("tuesday", parent_session_id="monday", reset=True)
    memory.on_pre_compress([{"role": "user", "content": "We talked of kettles."}])
    kept = list(gate.store.scan(gate.tenant, "turns"))
    assert [chunk.metadata["session"] for chunk in kept] == ["tuesday"]


# The tools


def test_every_action_of_fact_store_answers(gate):
    memory = initialized(gate)
    first = use(memory, "fact_store", action="add", content="Ann works at Initech in Leiden", tags="people, work")  # fmt: skip
    use(memory, "fact_store", action="add", content="Initech moved to Utrecht")
    assert use(memory, "fact_store", action="search", query="where does Ann work?")["results"][0]["fact_id"] == first["fact_id"]  # fmt: skip
    assert use(memory, "fact_store", action="probe", entity="ann")["count"] == 1
    related = use(memory, "fact_store", action="related", entity="Ann")["results"]
    assert [row["content"] for row in related] == ["Initech moved to Utrecht"]
    assert use(memory, "fact_store", action="reason", entities=["Ann", "Initech"])["count"] == 1
    assert use(memory, "fact_store", action="list", limit=1)["count"] == 1
    changed = use(memory, "fact_store", action="update", fact_id=first["fact_id"], trust_delta=0.9)
    assert changed["fact"]["trust"] == 1.0
    assert changed["fact"]["tags"] == ["people", "work"]
    rated = use(memory, "fact_feedback", action="unhelpful", fact_id=first["fact_id"])
    assert rated["new_trust"] == pytest.approx(0.9)
    assert use(memory, "fact_store", action="remove", fact_id=first["fact_id"]) == {"removed": True}


def test_facts_about_one_name_are_paired_for_the_model_to_compare(gate):
    memory = initialized(gate)
    use(memory, "fact_store", action="add", content="Ann lives in Berlin")
    use(memory, "fact_store", action="add", content="Ann lives in Lisbon")
    use(memory, "fact_store", action="add", content="Bob lives in Lyon")
    assert use(memory, "fact_store", action="contradict")["count"] == 1


@pytest.mark.parametrize(
    ("tool", "args"),
    [
        ("fact_store", {"action": "sing"}),
        ("fact_store", {"action": "add"}),
        ("fact_store", {}),
        ("fact_store", {"action": "remove", "fact_id": 17}),
        ("fact_store", {"action": "list", "limit": "many"}),
        ("fact_feedback", {"action": "maybe", "fact_id": "f-1"}),
        ("context_strategy", {"content_size_hint": "vast", "query": "x"}),
        ("context_strategy", {"colour": "red"}),
        ("fact_burn", {}),
    ],
)
def test_what_is_wrong_with_a_call_is_told_to_the_model(gate, tool, args):
    assert use(initialized(gate), tool, **args)["error"]


def test_context_strategy_answers(gate):
    assert use(initialized(gate), "context_strategy", query="What is X?", char_count=4_000_000)["strategy"]  # fmt: skip


# The engine


def conversation(turns):
    said = [{"role": "system", "content": "You help."}]
    for n in range(turns):
        said.append({"role": "user", "content": f"Question {n}: what of the kettle number {n}?"})
        call = {"id": f"c{n}", "type": "function", "function": {"name": "look", "arguments": "{}"}}
        said.append({"role": "assistant", "content": "", "tool_calls": [call]})
        said.append({"role": "tool", "tool_call_id": f"c{n}", "content": f"Kettle {n} is blue."})
        said.append({"role": "assistant", "content": f"Kettle {n} is blue, I found."})
    return said


def engine_on(gate, **options):
    engine = MillgateEngine(gate, **options)
    engine.on_session_start("monday")
    engine.update_model("m", 1000)
    return engine


def test_it_compresses_at_the_threshold(gate):
    engine = engine_on(gate)
    assert not engine.should_compress(700)
    assert engine.should_compress(750)
    engine.update_from_response({"prompt_tokens": 800, "completion_tokens": 5, "total_tokens": 805})
    assert engine.should_compress()
    assert engine.get_status()["usage_percent"] == 80


def test_what_leaves_the_window_is_kept_and_comes_back_when_asked_for(gate):
    engine = engine_on(gate)
    engine.update_model("m", 100_000)
    messages = conversation(12)
    engine.select_context(messages)  # hermes-agent lets it select
    shorter = engine.compress(messages)
    assert any("is recalled with it" in message["content"] for message in shorter)
    assert shorter[0] == messages[0]
    assert shorter[-6:] == messages[-6:]
    assert len(shorter) < 16
    assert engine.compression_count == 1
    asked = [*shorter, {"role": "user", "content": "What did I ask of the kettle number 5?"}]
    selected = engine.select_context(asked, budget_tokens=100_000)
    assert selected[-1] == asked[-1]
    assert "kettle number 5" in selected[-2]["content"]


@pytest.mark.parametrize("turns", range(2, 9))
def test_no_result_of_a_tool_is_parted_from_its_call(gate, turns):
    shorter = engine_on(gate).compress(conversation(turns))
    for before, message in pairwise(shorter):
        if message["role"] == "tool":
            assert before.get("tool_calls")
        if before.get("tool_calls"):
            assert message["role"] == "tool"


def test_a_short_conversation_stays_as_it_is(gate):
    messages = conversation(1)
    assert engine_on(gate).compress(messages) is messages


def test_a_focus_brings_back_what_it_is_about(gate):
    shorter = engine_on(gate).compress(conversation(12), focus_topic="kettle number 5")
    note = next(m for m in shorter if "moved to memory" in m["content"])
    assert "kettle number 5" in note["content"]


def test_if_turns_cannot_be_kept_nothing_is_dropped(gate, caplog):
    engine = engine_on(gate)
    messages = conversation(12)
    gate.close()
    assert engine.compress(messages) is messages
    assert "not compressed" in caplog.text


def test_a_question_keeps_its_block_in_later_requests(gate):
    engine = engine_on(gate)
    engine.update_model("m", 100_000)
    first = [{"role": "system", "content": "You help."}, {"role": "user", "content": QUESTION}]
    one = engine.select_context(first)
    assert FACT in one[1]["content"]
    later = [*first, {"role": "assistant", "content": "Five days."}, {"role": "user", "content": "Thanks!"}]  # fmt: skip
    gate.add([{"id": "new", "text": "A refund takes nine working days since the flood."}])
    assert engine.select_context(later)[: len(one)] == one


def test_a_request_that_nothing_fits_is_left_alone(gate):
    assert engine_on(gate).select_context([{"role": "user", "content": "hi!"}]) is None
    assert MillgateEngine().select_context([{"role": "user", "content": QUESTION}]) is None


def test_a_subagent_may_copy_the_engine(gate):
    engine = engine_on(gate)
    copied = copy.deepcopy(engine)
    copied.compression_count += 1
    assert engine.compression_count == 0


def test_agents_of_one_gateway_have_stores_of_their_own(tmp_path):
    offered = MillgateEngine()
    one, two = copy.deepcopy(offered), copy.deepcopy(offered)
    one.on_session_start("monday", hermes_home=str(tmp_path), conversation_id="chat-1")
    two.on_session_start("tuesday", hermes_home=str(tmp_path), conversation_id="chat-2")
    one.compress(conversation(12))
    asked = {"user_message": "What of the kettle number 5?", "conversation_history": []}
    assert "kettle number 5" in recall_for_question(session_id="monday", **asked)["context"]
    assert recall_for_question(session_id="tuesday", **asked) is None
    two.on_session_end("tuesday", [])
    assert one.compress(conversation(13)) != conversation(13)
    one.on_session_end("monday", [])


def test_an_engine_that_may_not_select_recalls_into_the_compressed_conversation(gate):
    engine = engine_on(gate, budget=100)
    messages = [*conversation(12), {"role": "user", "content": "What of the kettle number 5?"}]
    shorter = engine.compress(messages)
    (note,) = (m["content"] for m in shorter if "moved to memory" in m["content"])
    assert "What they say about the question" in note
    assert "Kettle 5 is blue" in note
    assert "is recalled with it" not in note


def test_without_anything_to_say_about_the_question_nothing_is_promised():
    with Millgate.open(":memory:") as gate:
        messages = [*conversation(12), {"role": "user", "content": "Hvad med det?"}]
        shorter = engine_on(gate).compress(messages)
    (note,) = (m["content"] for m in shorter if "moved to memory" in m["content"])
    assert note.endswith("earlier messages were moved to memory.]")


def test_an_engine_uses_the_store_of_the_memory_beside_it(gate):
    memory = initialized(gate, user_id="ann")
    engine = MillgateEngine(path="/nowhere")
    engine.on_session_start("monday", hermes_home="/nowhere", conversation_id="chat-1")
    engine.compress(conversation(12))
    assert "turns" in memory.gate.collections()
    assert "turns" not in gate.collections()
    asked = {"user_message": "What of the kettle number 5?", "conversation_history": []}
    assert recall_for_question(session_id="monday", **asked) is None  # the memory gives it
    assert "kettle number 5" in memory.prefetch("What of the kettle number 5?")
    engine.on_session_start("tuesday", boundary_reason="compression", old_session_id="monday")
    memory.on_session_switch("tuesday", parent_session_id="monday")
    assert engine.compress(conversation(14)) != conversation(14)


def test_what_the_model_sees_is_not_recalled_again(gate):
    memory = initialized(gate)
    given = memory.prefetch(QUESTION)
    assert FACT in given
    seen = [{"role": "user", "content": "Hm?", "api_content": f"Hm?\n\n{given}"}]
    assert recall_for_question("monday", QUESTION, seen) is None
    assert FACT not in memory.prefetch(QUESTION)


def test_a_memory_asks_the_engine_how_full_the_window_is(gate):
    memory, engine = initialized(gate), engine_on(gate)
    engine.update_model("m", 100_000)
    engine.update_from_response({"prompt_tokens": 10_000})
    assert FACT in memory.prefetch(QUESTION)
    engine.update_from_response({"prompt_tokens": 74_900})  # of 75 000, where it compresses
    assert memory.prefetch(QUESTION) == ""
    engine.last_prompt_tokens, engine.last_compression_rough_tokens = -1, 9_000
    assert FACT in memory.prefetch(QUESTION)


def test_a_memory_on_the_command_line_asks_the_engine_of_the_agent(gate):
    class Agent:
        compression_enabled = False

        def __init__(self):
            self.context_compressor = types.SimpleNamespace(
                context_length=1000, last_prompt_tokens=100, threshold_tokens=500
            )

        def emit(self, text):
            raise AssertionError(text)

    agent = Agent()
    memory = initialized(gate, status_callback=agent.emit)
    assert FACT in memory.prefetch(QUESTION)
    agent.context_compressor.last_prompt_tokens = 990
    assert memory.prefetch(QUESTION) == ""
    del agent
    gc.collect()
    assert FACT in memory.prefetch(QUESTION)


# The manager


class Older:
    """A provider of the first form: no session, no limit."""

    name = "older"

    def __init__(self):
        self.events = []

    def is_available(self):
        return True

    def initialize(self, session_id):
        self.events.append(("initialize", session_id))

    def prefetch(self, query):
        return "- deploys go out on Fridays"

    def get_tool_schemas(self):
        return []

    def shutdown(self):
        self.events.append("shutdown")


class Broken(Older):
    name = "broken"

    def initialize(self, session_id):
        raise OSError("no disk")

    def prefetch(self, query):
        raise OSError("down")


def test_a_manager_tells_providers_of_tenant_and_session_and_closes_them(gate):
    older = Older()
    manager = MemoryManager([MillgateMemory(gate), older], tenant="ann")
    manager.initialize_all("monday", platform="cli")
    manager.handle_tool_call("fact_store", {"action": "add", "content": "Deploys are Ben's"})
    manager.sync_all("When do deploys go out?", "On Fridays.", session_id="monday")
    manager.shutdown_all()
    assert older.events == [("initialize", "monday"), "shutdown"]
    assert gate.for_tenant("ann").facts.all()[0].content == "Deploys are Ben's"
    assert gate.for_tenant("ann").collections()["turns"].chunks == 2


def test_a_manager_asks_less_the_fuller_the_window_is(gate):
    for n in range(12):
        gate.remember(f"Rule {n} of the project setup is that refunds wait {n} days")
        gate.remember(f"Board {n} of the weir was cut from an oak in {1900 + n}")
        gate.remember(f"Keeper {n} goes home at {n} o'clock and feeds the geese")
    manager = MemoryManager([MillgateMemory(gate)], tenant=gate.tenant)
    manager.initialize_all("monday")
    query = "what do you remember of the project setup and refunds?"
    given = []
    for used in (10_000, 50_000, 90_000, 98_000):
        manager.set_context_budget(ContextBudget(200_000, used, threshold_tokens=100_000))
        given.append(manager.prefetch_all(query).count("(id "))
    assert given[0] > given[1] > given[2] > given[3] == 0
    manager.shutdown_all()


def test_a_budget_may_be_told_by_its_parts(gate):
    memory = initialized(gate)
    manager = MemoryManager([memory], tenant=gate.tenant)
    full = {"context_length": 1000, "used_tokens": 490, "threshold_tokens": 500}
    for teller in (manager, memory):
        teller.set_context_budget(**full, compression_enabled=True)
        assert manager.prefetch_all(QUESTION) == ""
        assert memory.prefetch(QUESTION) == ""
        teller.set_context_budget(**full, compression_enabled=False)
        assert FACT in memory.prefetch(QUESTION)
        teller.set_context_budget()
        assert FACT in memory.prefetch(QUESTION)
    with pytest.raises(InputError, match="context_length is -1"):
        manager.set_context_budget(context_length=-1)
    manager.shutdown_all()


def test_facts_too_stop_when_the_window_is_full(gate):
    gate.remember("Ann signs all refunds")
    memory = initialized(gate)
    memory.set_context_budget(context_length=1000, used_tokens=990)
    assert memory.prefetch("Who signs refunds?") == ""


def test_a_provider_that_fails_keeps_nobody_from_answering(caplog):
    manager = MemoryManager([Broken(), Older()])
    manager.initialize_all("monday")
    given = manager.prefetch_all("when do deploys go out?", session_id="monday")
    assert "Fridays" in given
    assert without_fences(given) == ""
    assert manager.degraded == ("broken: failed: OSError: down",)
    assert "no disk" in caplog.text
    manager.shutdown_all()


def test_a_tool_that_nobody_has_is_an_error_for_the_model():
    assert "error" in json.loads(MemoryManager().handle_tool_call("fact_burn", {}))


# The ways in


class Context:
    def __init__(self):
        self.given = {}

    def register_memory_provider(self, provider):
        self.given["provider"] = provider

    def register_context_engine(self, engine):
        self.given["engine"] = engine

    def register_tool(self, *, name, toolset, schema, handler):
        self.given[name] = (toolset, schema, handler)

    def register_hook(self, name, callback):
        self.given[name] = callback


@pytest.mark.parametrize(
    ("group", "module"),
    [("hermes_agent.memory_providers", hermes), ("hermes_agent.plugins", plugin)],
)
def test_hermes_agent_finds_both_by_their_entry_points(group, module):
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    entry = EntryPoint("millgate", project["entry-points"][group]["millgate"], group)
    assert entry.load() is module


def test_a_plugin_context_gets_provider_engine_and_tool():
    context = Context()
    hermes.register(context)
    plugin.register(context)
    assert context.given["provider"].name == context.given["engine"].name == "millgate"
    assert context.given["pre_llm_call"] is recall_for_question
    _, schema, handler = context.given["context_strategy"]
    assert schema["parameters"]["required"] == ["query"]
    assert json.loads(handler({"query": "what is X?"}, task_id="1"))["strategy"]


def test_inside_hermes_agent_the_provider_is_one_of_its_own(monkeypatch):
    class Base(ABC):
        @property
        @abstractmethod
        def name(self): ...

        @abstractmethod
        def is_available(self): ...

        def on_delegation(self, task, result):
            return "default"

    module = types.ModuleType("agent.memory_provider")
    module.MemoryProvider = Base
    monkeypatch.setitem(sys.modules, "agent", types.ModuleType("agent"))
    monkeypatch.setitem(sys.modules, "agent.memory_provider", module)
    context = Context()
    hermes.register(context)
    provider = context.given["provider"]
    assert isinstance(provider, Base)
    assert provider.on_delegation("a", "b") == "default"
    assert provider.name == "millgate"


def test_the_plugin_folder_is_written_once_and_taken_away_again(tmp_path):
    folder = plugin_folder(tmp_path)
    assert install(folder)
    assert not install(folder)
    assert "register_memory_provider" in (folder / "__init__.py").read_text()
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__" / "__init__.cpython-311.pyc").write_bytes(b"")
    assert uninstall(folder)
    assert not uninstall(folder)
    assert not folder.exists()


def test_a_plugin_folder_of_someone_else_is_left_alone(tmp_path):
    folder = plugin_folder(tmp_path)
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("theirs = 1\n")
    for act in (install, uninstall):
        with pytest.raises(InputError, match="is not ours"):
            act(folder)
    assert (folder / "__init__.py").read_text() == "theirs = 1\n"


def test_a_file_beside_ours_stays(tmp_path):
    folder = plugin_folder(tmp_path)
    install(folder)
    (folder / "notes.txt").write_text("mine")
    uninstall(folder)
    assert [path.name for path in folder.iterdir()] == ["notes.txt"]


def test_the_written_plugin_registers_the_provider(tmp_path):
    install(plugin_folder(tmp_path))
    found = {}
    exec(compile(FILES["__init__.py"], "plugin", "exec"), found)
    context = Context()
    found["register"](context)
    assert context.given["provider"].name == "millgate"
