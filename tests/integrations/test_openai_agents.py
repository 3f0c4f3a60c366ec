"""The OpenAI Agents SDK with Millgate: input filter, session and guarded model, over a scripted model."""

import pytest
from tests.integrations.samples import (
    AFTER,
    CURSOR,
    FACT,
    INTRO,
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

from millgate.errors import LoopError


@pytest.fixture(autouse=True, scope="module")
def framework():
    """Imported here: each process of a test run reads this file, and few run it."""
    global look, Agent, ModelSettings, RunConfig, Runner, SQLiteSession, Response, ResponseCompletedEvent, ResponseCreatedEvent, ResponseFunctionToolCall, ResponseOutputItemAddedEvent, ResponseOutputItemDoneEvent, ResponseOutputMessage, ResponseOutputText, ResponseTextDeltaEvent, GuardedModel, RecallingSession, add_context, fold_input, Scripted  # fmt: skip
    from agents import Agent, ModelSettings, RunConfig, Runner, SQLiteSession, function_tool
    from agents.models.interface import Model
    from openai.types.responses import (
        Response,
        ResponseCompletedEvent,
        ResponseCreatedEvent,
        ResponseFunctionToolCall,
        ResponseOutputItemAddedEvent,
        ResponseOutputItemDoneEvent,
        ResponseOutputMessage,
        ResponseOutputText,
        ResponseTextDeltaEvent,
    )

    from millgate.integrations.openai_agents import (  # fmt: skip
        GuardedModel,
        RecallingSession,
        add_context,
        fold_input,
    )

    class Scripted(Model):
        """Streams the next of its scripts, the last one again and again; remembers what it was sent."""

        def __init__(self, *scripts):
            self.scripts, self.sent, self.closed = [list(script) for script in scripts], [], 0

        async def stream_response(self, system, input, settings, *others, **named):
            self.sent.append(input)
            try:
                for event in self.scripts[min(len(self.sent), len(self.scripts)) - 1]:
                    yield event
            finally:
                self.closed += 1

        async def get_response(self, *given, **named):
            raise NotImplementedError("the guard streams")

    @function_tool
    def look(place: str) -> str:
        """Look somewhere."""
        return "nothing there"


QUIET = {"tracing_disabled": True}


@pytest.fixture
def gate():
    with open_gate() as gate:
        yield gate


def message(text, id="m"):
    part = ResponseOutputText(type="output_text", text=text, annotations=[])
    return ResponseOutputMessage(id=id, type="message", role="assistant", status="completed", content=[part])  # fmt: skip


def call(place, id):
    arguments = f'{{"place": "{place}"}}'
    return ResponseFunctionToolCall(type="function_call", name="look", arguments=arguments, call_id=id, id=f"f{id}")  # fmt: skip


def response(*output, id="r"):
    usage = {
        "input_tokens": 3, "output_tokens": 4, "total_tokens": 7,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 0},
    }  # fmt: skip
    return Response.construct(
        id=id, created_at=1, model="m", object="response", output=list(output), tool_choice="auto",
        tools=[], parallel_tool_calls=False, status="completed", usage=usage,
    )  # fmt: skip


def events(texts, id="m"):
    """The events of an answer in pieces."""
    said = "".join(texts)
    yield ResponseCreatedEvent(type="response.created", response=response(id=f"r{id}"), sequence_number=0)  # fmt: skip
    yield ResponseOutputItemAddedEvent(type="response.output_item.added", item=message("", id), output_index=0, sequence_number=1)  # fmt: skip
    for number, text in enumerate(texts, 2):
        yield ResponseTextDeltaEvent(type="response.output_text.delta", delta=text, item_id=id, output_index=0, content_index=0, logprobs=[], sequence_number=number)  # fmt: skip
    yield ResponseOutputItemDoneEvent(type="response.output_item.done", item=message(said, id), output_index=0, sequence_number=998)  # fmt: skip
    yield ResponseCompletedEvent(type="response.completed", response=response(message(said, id), id=f"r{id}"), sequence_number=999)  # fmt: skip


def calling(item):
    yield ResponseCreatedEvent(type="response.created", response=response(), sequence_number=0)
    yield ResponseOutputItemAddedEvent(type="response.output_item.added", item=item, output_index=0, sequence_number=1)  # fmt: skip
    yield ResponseOutputItemDoneEvent(type="response.output_item.done", item=item, output_index=0, sequence_number=2)  # fmt: skip
    yield ResponseCompletedEvent(type="response.completed", response=response(item), sequence_number=3)  # fmt: skip


def agent_on(model, tools=()):
    return Agent("keeper", model=GuardedModel(model), tools=list(tools))


async def said_by(run):
    deltas = [
        event.data.delta
        async for event in run.stream_events()
        if event.type == "raw_response_event" and event.data.type == "response.output_text.delta"
    ]
    return "".join(deltas)


async def test_a_loop_is_cut_out_of_a_streamed_run():
    model = Scripted(events(looping(), "a"), events(tokens(AFTER), "b"))
    run = Runner.run_streamed(agent_on(model), "Tell me.", run_config=RunConfig(**QUIET))
    said = await said_by(run)
    assert said.startswith(INTRO)
    assert said.endswith(AFTER)
    assert said.count(UNIT) <= 2
    assert run.final_output == said
    assert model.closed == 2


async def test_a_run_that_is_not_streamed_is_guarded_too():
    model = Scripted(events(looping(), "a"), events(tokens(AFTER), "b"))
    done = await Runner.run(agent_on(model), "Tell me.", run_config=RunConfig(**QUIET))
    assert done.final_output.endswith(AFTER)
    assert done.final_output.count(UNIT) <= 2
    assert done.raw_responses[0].usage.total_tokens == 7


async def test_a_clean_answer_comes_through_with_its_tool_calls():
    model = Scripted(calling(call("depot", "1")), events(["Not ", "there."]))
    done = await Runner.run(agent_on(model, [look]), "Where?", run_config=RunConfig(**QUIET))
    assert done.final_output == "Not there."
    assert model.sent[1][-1]["output"] == "nothing there"


async def test_an_error_of_the_model_comes_out_as_it_is():
    class Broken(Scripted):
        async def stream_response(self, *given, **named):
            raise ConnectionResetError("gone")
            yield

    with pytest.raises(ConnectionResetError, match="gone"):
        await Runner.run(agent_on(Broken()), "Tell me.", run_config=RunConfig(**QUIET))


async def test_an_agent_in_a_circle_is_told_and_then_ended():
    model = Scripted(*(calling(call("depot", f"{n}")) for n in range(30)))
    with pytest.raises(LoopError, match="8 times"):
        await Runner.run(agent_on(model, [look]), "Where?", run_config=RunConfig(**QUIET), max_turns=40)  # fmt: skip
    assert len(model.sent) == 8
    assert any("third time" in str(item.get("output")) for item in model.sent[-1])


async def test_a_question_gets_its_context_once_and_keeps_it_in_later_calls(gate):
    model = Scripted(calling(call("depot", "1")), events(["Five days."]), events(["Yes."]))
    config = RunConfig(call_model_input_filter=add_context(gate), **QUIET)
    first = await Runner.run(agent_on(model, [look]), QUESTION, run_config=config)
    later = [*first.to_input_list(), {"role": "user", "content": "Are you sure?"}]
    await Runner.run(agent_on(model, [look]), later, run_config=config)
    one, two, three = model.sent
    assert FACT in one[0]["content"]
    assert one[1]["content"] == QUESTION
    assert two[: len(one)] == one
    assert three[: len(two)] == two
    assert sum(FACT in str(item) for item in three) == 1


async def test_a_full_window_gets_nothing(gate):
    model = Scripted(events(["Hm."]))
    config = RunConfig(call_model_input_filter=add_context(gate, context_length=40), **QUIET)
    await Runner.run(agent_on(model), f"{'word ' * 60} {QUESTION}", run_config=config)
    assert FACT not in str(model.sent[0])


async def test_what_the_session_no_longer_shows_is_recalled(gate):
    model = Scripted(events(["I see."]))
    session = RecallingSession(SQLiteSession("monday"), gate, recent=4)
    filter = add_context(gate, collection=("main", "turns"))
    config = RunConfig(call_model_input_filter=filter, **QUIET)
    for text in ("My sister Ann moved to Lisbon last spring.", "And it rained.", "It was cold.", "So it goes."):  # fmt: skip
        await Runner.run(agent_on(model), text, session=session, run_config=config)
    await Runner.run(agent_on(model), "Where did my sister Ann move?", session=session, run_config=config)  # fmt: skip
    last = model.sent[-1]
    assert "Lisbon last spring" in str(last)
    assert len(last) < 10
    assert "Lisbon" not in str(await session.get_items())
    await session.clear_session()
    assert await session.get_items() == []
    assert "turns" not in gate.collections()
    session._session.close()


async def test_the_settings_of_a_call_stay_what_they_are():
    seen = []

    class Noting(Scripted):
        async def stream_response(self, system, input, settings, *others, **named):
            seen.append(settings)
            async for event in super().stream_response(system, input, settings, *others, **named):
                yield event

    settings = ModelSettings(temperature=0.2, max_tokens=500)
    agent = Agent("keeper", model=GuardedModel(Noting(events(["Hm."]))), model_settings=settings)
    await Runner.run(agent, "Tell me.", run_config=RunConfig(**QUIET))
    assert seen[0].temperature == 0.2
    assert seen[0].max_tokens == 500


async def test_a_result_that_stands_in_the_window_is_folded_after_context_is_added(gate):
    text = "\n".join(f"line {n} of the depot has {n * 7} crates" for n in range(60))
    results = [
        item
        for n in (1, 2)
        for item in (
            {"type": "function_call", "call_id": f"call_{n}", "name": "list", "arguments": "{}"},
            {"type": "function_call_output", "call_id": f"call_{n}", "output": text},
        )
    ]
    model = Scripted(events(["Done."]))
    config = RunConfig(call_model_input_filter=fold_input(add_context(gate)), **QUIET)
    await Runner.run(agent_on(model), [{"role": "user", "content": QUESTION}, *results], run_config=config)  # fmt: skip
    outputs = [item["output"] for item in model.sent[0] if "output" in item]
    assert outputs[0] == text
    assert outputs[1].startswith("[These 60 lines are")
    assert FACT in str(model.sent[0])


def as_items(messages):
    """Chat messages as the SDK keeps them."""
    for message in messages:
        if message["role"] == "tool":
            yield {"type": "function_call_output", "call_id": message["tool_call_id"], "output": message["content"]}  # fmt: skip
            continue
        yield {"role": message["role"], "content": message["content"]}
        for made in message.get("tool_calls", ()):
            yield {"type": "function_call", "call_id": made["id"], **made["function"]}


async def test_what_a_session_forgets_when_it_is_compacted_comes_back(gate):
    model = Scripted(events(["I see."]))
    filter = add_context(gate, session="monday", remember=True)
    config = RunConfig(call_model_input_filter=filter, **QUIET)
    session = SQLiteSession("monday")

    async def ask(text):
        await Runner.run(agent_on(model), text, session=session, run_config=config)
        return str(model.sent[-1])

    await session.add_items(list(as_items(long_session())))
    assert RULE in await ask("Is it slow?")
    await session.clear_session()
    await session.add_items([{"role": "user", "content": f"Summary of the conversation: {SUMMARY}"}])  # fmt: skip
    assert (await ask("Go on.")).count(RULE) == 1
    assert CURSOR in await ask(NEEDS)
    last = await ask("Thanks, that looks good.")
    assert (last.count(RULE), last.count(CURSOR)) == (1, 1)
    assert model.sent[-1][: len(model.sent[-2])] == model.sent[-2]
    assert "session:monday" in gate.collections()
