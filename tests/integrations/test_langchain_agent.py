"""Millgate as the middleware of a LangChain agent, with scripted models."""

from itertools import pairwise

import pytest
from pydantic import Field
from tests.integrations.samples import (
    AFTER,
    CURSOR,
    FACT,
    NEEDS,
    QUESTION,
    RULE,
    SUMMARY,
    UNIT,
    long_session,
    looping,
    open_gate,
    tokens,
)


@pytest.fixture(autouse=True, scope="module")
def framework():
    """Imported here: each process of a test run reads this file, and few run it."""
    global create_agent, AIMessage, AIMessageChunk, HumanMessage, MillgateMiddleware, Scripted, Looping  # fmt: skip
    from langchain.agents import create_agent
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage
    from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult

    from millgate.integrations.langchain_agent import MillgateMiddleware

    class Scripted(BaseChatModel):
        """Answers with the next message of its script, the last one again and again; remembers what it was sent."""

        script: list = Field(default_factory=list)
        asked: list = Field(default_factory=list)

        @property
        def _llm_type(self):
            return "scripted"

        def bind_tools(self, tools, **options):
            return self

        def _generate(self, messages, stop=None, run_manager=None, **options):
            self.asked.append(messages)
            message = self.script[min(len(self.asked), len(self.script)) - 1]
            return ChatResult(generations=[ChatGeneration(message=message)])

    class Looping(Scripted):
        def _stream(self, messages, stop=None, run_manager=None, **options):
            self.asked.append(messages)
            for text in tokens(AFTER) if len(self.asked) > 1 else looping():
                yield ChatGenerationChunk(message=AIMessageChunk(text))


def look(place: str) -> str:
    """Look somewhere."""
    return "nothing there"


def call(place, id):
    return AIMessage("", tool_calls=[{"name": "look", "args": {"place": place}, "id": id}])


@pytest.fixture
def gate():
    with open_gate() as gate:
        yield gate


def ask(text):
    return {"messages": [HumanMessage(text)]}


def test_a_question_gets_its_context_once_and_keeps_it_in_later_turns(gate):
    model = Scripted(script=[call("depot", "1"), AIMessage("Five days."), AIMessage("Yes.")])  # fmt: skip
    agent = create_agent(model, [look], middleware=[MillgateMiddleware(gate)])
    first = agent.invoke(ask(QUESTION))["messages"]
    assert FACT in first[1].text
    assert first[1].name == "millgate"
    agent.invoke({"messages": [*first, HumanMessage("Are you sure?")]})
    sent = [[message.text for message in messages] for messages in model.asked]
    assert len(sent) == 3
    assert all(later[: len(earlier)] == earlier for earlier, later in pairwise(sent))
    assert sum(FACT in text for text in sent[-1]) == 1


async def test_an_agent_in_an_event_loop_gets_context_too(gate):
    model = Scripted(script=[AIMessage("Five days.")])
    agent = create_agent(model, [], middleware=[MillgateMiddleware(gate)])
    answer = await agent.ainvoke(ask(QUESTION))
    assert FACT in answer["messages"][1].text


def test_a_greeting_or_an_unknown_thing_adds_nothing(gate):
    model = Scripted(script=[AIMessage("Hello.")])
    agent = create_agent(model, [], middleware=[MillgateMiddleware(gate)])
    assert len(agent.invoke(ask("hi!"))["messages"]) == 2


def test_a_gate_that_is_closed_costs_the_context_and_not_the_turn(gate, caplog):
    gate.close()
    agent = create_agent(Scripted(script=[AIMessage("Hm.")]), [], middleware=[MillgateMiddleware(gate)])  # fmt: skip
    assert agent.invoke(ask(QUESTION))["messages"][-1].text == "Hm."
    assert "closed" in caplog.text


def test_the_answer_of_a_looping_model_is_cut():
    agent = create_agent(Looping(), [], middleware=[MillgateMiddleware()])
    said = agent.invoke(ask("Tell me of the keeper."))["messages"][-1].text
    assert said.endswith(AFTER)
    assert said.count(UNIT) <= 2


def test_streamed_messages_show_no_loop():
    agent = create_agent(Looping(), [], middleware=[MillgateMiddleware()])
    stream = agent.stream(ask("Tell me of the keeper."), stream_mode="messages")
    said = "".join(chunk.text for chunk, _ in stream if isinstance(chunk, AIMessageChunk))
    assert said.endswith(AFTER)
    assert said.count(UNIT) <= 2


def test_an_agent_in_a_circle_is_told_and_then_ended():
    model = Scripted(script=[call("depot", f"{n}") for n in range(30)])
    agent = create_agent(model, [look], middleware=[MillgateMiddleware()])
    messages = agent.invoke(ask("Where is it?"), {"recursion_limit": 100})["messages"]
    assert "going in circles" in messages[-1].text
    assert len(model.asked) == 8
    assert any("third time" in message.text for message in model.asked[-1])
    assert not any("third time" in message.text for message in messages[:-1])


def test_without_a_guard_the_model_is_left_alone():
    model = Scripted(script=[call("depot", f"{n}") for n in range(9)] + [AIMessage("Done.")])  # fmt: skip
    agent = create_agent(model, [look], middleware=[MillgateMiddleware(guard=None)])
    messages = agent.invoke(ask("Where is it?"), {"recursion_limit": 100})["messages"]
    assert messages[-1].text == "Done."


def test_a_result_that_stands_in_the_window_is_folded_for_the_model_alone():
    text = "\n".join(f"line {n} of the depot has {n * 7} crates" for n in range(60))

    def fetch(place: str) -> str:
        """Fetch a list."""
        return text

    calls = [
        AIMessage("", tool_calls=[{"name": "fetch", "args": {"place": "depot"}, "id": f"call_{n}"}])
        for n in (1, 2)
    ]
    model = Scripted(script=[*calls, AIMessage("Done.")])
    agent = create_agent(model, [fetch], middleware=[MillgateMiddleware(guard=None, fold=True)])
    kept = agent.invoke(ask("How many?"))["messages"]
    first, second = (message for message in model.asked[-1] if message.type == "tool")
    assert first.content == text
    assert second.content.startswith(
        "[These 60 lines are, character for character, lines 1 to 60 of"
    )
    assert [message.content for message in kept if message.type == "tool"] == [text, text]


def remembering(gate, *script, trigger=50, **options):
    """An agent that compacts its messages with LangChain's own middleware, and its model."""
    from langchain.agents.middleware import SummarizationMiddleware
    from langgraph.checkpoint.memory import InMemorySaver

    compacts = SummarizationMiddleware(
        Scripted(script=[AIMessage(SUMMARY)]), trigger=("messages", trigger), keep=("messages", 3)
    )
    model = Scripted(script=[*script, AIMessage("Done.")])
    middleware = [compacts, MillgateMiddleware(gate, remember=True, **options)]
    agent = create_agent(model, [look], middleware=middleware, checkpointer=InMemorySaver())
    return agent, model


def said_to(model):
    return ["\n".join(message.text for message in messages) for messages in model.asked]


def test_what_a_summary_of_langchain_forgets_comes_back(gate):
    agent, model = remembering(gate, call("depot", "1"))
    thread = {"configurable": {"thread_id": "monday"}}
    agent.update_state(thread, {"messages": long_session()[:40]}, as_node="model")
    agent.invoke(ask("Look around."), thread)
    assert RULE in said_to(model)[0]
    assert "summary of the conversation" not in said_to(model)[0]
    agent.update_state(thread, {"messages": long_session()[41:]}, as_node="model")
    agent.invoke(ask("Go on."), thread)  # compacts amid the turn
    texts = said_to(model)[-1]
    assert "summary of the conversation" in texts
    assert texts.count(RULE) == 1
    agent.invoke(ask(NEEDS), thread)
    agent.invoke(ask("Thanks, that looks good."), thread)
    last = said_to(model)[-1]
    assert (last.count(RULE), last.count(CURSOR)) == (1, 1)
    assert [m.text for m in model.asked[-1]][: len(model.asked[-2])] == [m.text for m in model.asked[-2]]  # fmt: skip
    assert "session:monday" in gate.collections()


async def test_another_thread_gets_nothing_of_it_in_an_event_loop_either(gate):
    agent, model = remembering(gate)
    for name in ("monday", "tuesday"):
        thread = {"configurable": {"thread_id": name}}
        if name == "monday":
            agent.update_state(thread, {"messages": long_session()}, as_node="model")
            await agent.ainvoke(ask("Hello there."), thread)
        await agent.ainvoke(ask(NEEDS), thread)
    assert CURSOR in said_to(model)[-2]
    assert CURSOR not in said_to(model)[-1]


def test_without_a_name_nothing_is_remembered_and_the_turn_goes_on(gate, caplog):
    middleware = MillgateMiddleware(gate, remember=True)
    agent = create_agent(Scripted(script=[AIMessage("Hm.")]), [], middleware=[middleware])
    assert agent.invoke(ask(NEEDS))["messages"][-1].text == "Hm."
    assert "session without a name" in caplog.text
