"""pydantic-ai agents with Millgate as history processor and toolset, on models of functions."""

import pytest
from tests.integrations.samples import (
    CURSOR,
    FACT,
    NEEDS,
    QUESTION,
    RULE,
    SUMMARY,
    long_session,
    open_gate,
)


@pytest.fixture(autouse=True, scope="module")
def framework():
    """Imported here: each process of a test run reads this file, and few run it."""
    global Agent, ProcessHistory, ModelRequest, ModelResponse, TextPart, ToolCallPart, ToolReturnPart, UserPromptPart, FunctionModel, add_context, toolset  # fmt: skip
    from pydantic_ai import Agent
    from pydantic_ai.capabilities import ProcessHistory
    from pydantic_ai.messages import (
        ModelRequest,
        ModelResponse,
        TextPart,
        ToolCallPart,
        ToolReturnPart,
        UserPromptPart,
    )
    from pydantic_ai.models.function import FunctionModel

    from millgate.integrations.pydantic_ai import add_context, toolset


@pytest.fixture
def gate():
    with open_gate() as gate:
        yield gate


def agent_with(model, processor=None, **options):
    if processor is not None:
        options["capabilities"] = [ProcessHistory(processor)]
    return Agent(model, **options)


class Script:
    """Answers with the next of its parts; remembers the texts that it was sent."""

    def __init__(self, *parts):
        self.parts = list(parts)
        self.sent = []
        self.model = FunctionModel(self.answer)

    def answer(self, messages, info):
        self.sent.append([str(part.content) for message in messages for part in message.parts if hasattr(part, "content")])  # fmt: skip
        return ModelResponse(parts=[self.parts.pop(0)])


def look(place: str) -> str:
    """Look somewhere."""
    return "nothing there"


async def test_a_question_gets_its_context_once_and_keeps_it_in_later_turns(gate):
    script = Script(ToolCallPart("look", {"place": "depot"}), TextPart("Five days."), TextPart("Yes."))  # fmt: skip
    agent = agent_with(script.model, add_context(gate), tools=[look])
    first = await agent.run(QUESTION)
    await agent.run("Are you sure?", message_history=first.all_messages())
    one, two, three = script.sent
    assert FACT in one[0]
    assert one[1] == QUESTION
    assert two[: len(one)] == one
    assert three[: len(two)] == two
    assert sum(FACT in text for text in three) == 1


async def test_a_question_that_nothing_answers_stays_as_it_is(gate):
    script = Script(TextPart("Hello."))
    done = await agent_with(script.model, add_context(gate)).run("hi!")
    prompts = [p for m in done.all_messages() for p in m.parts if isinstance(p, UserPromptPart)]
    assert [part.content for part in prompts] == ["hi!"]


async def test_a_full_window_gets_nothing(gate):
    script = Script(TextPart("Hm."))
    processor = add_context(gate, context_length=40)
    await agent_with(script.model, processor).run(f"{'word ' * 60} {QUESTION}")
    assert not any(FACT in text for text in script.sent[0])


async def test_a_gate_that_is_closed_costs_the_context_and_not_the_turn(gate, caplog):
    gate.close()
    script = Script(TextPart("Hm."))
    done = await agent_with(script.model, add_context(gate)).run(QUESTION)
    assert done.output == "Hm."
    assert "closed" in caplog.text


async def test_the_tools_look_up_remember_recall_and_judge(gate):
    script = Script(
        ToolCallPart("get_context", {"query": QUESTION}),
        ToolCallPart("remember", {"content": "The staging server is called Heron"}),
        ToolCallPart("recall", {"query": "staging server"}),
        ToolCallPart("fact_feedback", {"id": "nobody", "helpful": True}),
        ToolCallPart("context_strategy", {"query": "summarize this", "char_count": 8000}),
        TextPart("Done."),
    )
    done = await agent_with(script.model, toolsets=[toolset(gate)]).run("go")
    said = "\n".join(script.sent[-1])
    assert done.output == "Done."
    assert FACT in said
    assert "Heron" in said
    assert "nobody" in said
    assert "confidence" in said
    assert gate.recall("staging server")[0].fact.content == "The staging server is called Heron"


def test_every_parameter_of_the_tools_is_described(gate):
    for name, tool in toolset(gate).tools.items():
        schema = tool.function_schema.json_schema["properties"]
        if name != "context_strategy":
            assert all(field.get("description") for field in schema.values()), name


def summarize(messages):
    """A processor as users write it: a long history becomes a summary and the last request."""
    if len(messages) < 20:
        return messages
    text = f"Summary of the conversation so far:\n{SUMMARY}"
    return [ModelRequest(parts=[UserPromptPart(text)]), messages[-1]]


def history():
    """The long session as pydantic-ai's messages."""
    out = []
    for message in long_session():
        if message["role"] == "user":
            out.append(ModelRequest(parts=[UserPromptPart(message["content"])]))
        elif message["role"] == "tool":
            part = ToolReturnPart("read_file", message["content"], tool_call_id=message["tool_call_id"])  # fmt: skip
            out.append(ModelRequest(parts=[part]))
        else:
            calls = [ToolCallPart("read_file", c["function"]["arguments"], tool_call_id=c["id"]) for c in message.get("tool_calls", ())]  # fmt: skip
            out.append(ModelResponse(parts=[TextPart(message["content"]), *calls]))
    return out


async def test_what_a_summary_of_the_history_forgets_comes_back(gate):
    adds = add_context(gate, session="monday", remember=True)
    script = Script(TextPart("A"), TextPart("B"), TextPart("C"), TextPart("D"))
    before = agent_with(script.model, adds)
    first = await before.run("Is it slow?", message_history=history())
    compacting = Agent(script.model, capabilities=[ProcessHistory(summarize), ProcessHistory(adds)])
    done = await compacting.run("Go on.", message_history=first.all_messages())
    texts = "\n".join(script.sent[-1])
    assert SUMMARY in texts
    assert texts.count(RULE) == 1
    for question in (NEEDS, "Thanks, that looks good."):
        done = await compacting.run(question, message_history=done.all_messages())
        assert script.sent[-1][: len(script.sent[-2])] == script.sent[-2]
    last = "\n".join(script.sent[-1])
    assert (last.count(RULE), last.count(CURSOR)) == (1, 1)
    assert "session:monday" in gate.collections()


async def test_a_compaction_amid_a_turn_is_answered_behind_the_results(gate):
    adds = add_context(gate, session="tuesday", remember=True)
    script = Script(TextPart("A"), ToolCallPart("look", {"place": "depot"}), TextPart("B"))
    first = await agent_with(script.model, adds).run("Is it slow?", message_history=history())
    calls = []

    def compact_late(messages):
        calls.append(len(messages))
        return [*summarize(messages)[:1], *messages[-3:]] if len(calls) == 2 else messages

    agent = Agent(script.model, tools=[look], capabilities=[ProcessHistory(compact_late), ProcessHistory(adds)])  # fmt: skip
    await agent.run(QUESTION, message_history=first.all_messages())
    *before, result, block = script.sent[-1]
    assert RULE in block
    assert result == "nothing there"
    assert FACT in "".join(before)
    assert RULE not in "".join(before)
