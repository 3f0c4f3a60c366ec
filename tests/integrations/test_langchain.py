"""LangChain's own parts with Millgate inside: retriever, compressor, guarded chat model."""

import pytest
from pydantic import Field
from tests.integrations.samples import (
    AFTER,
    FACT,
    INTRO,
    QUESTION,
    ROWS,
    UNIT,
    looping,
    open_gate,
    tokens,
)

from millgate.errors import LoopError


@pytest.fixture(autouse=True, scope="module")
def framework():
    """Imported here: each process of a test run reads this file, and few run it."""
    global BaseCallbackHandler, Document, FakeListChatModel, GenericFakeChatModel, AIMessage, AIMessageChunk, HumanMessage, ChatGenerationChunk, ChatResult, GuardedChatModel, MillgateCompressor, MillgateRetriever, Looping  # fmt: skip
    from langchain_core.callbacks import BaseCallbackHandler
    from langchain_core.documents import Document
    from langchain_core.language_models import (
        BaseChatModel,
        FakeListChatModel,
        GenericFakeChatModel,
    )
    from langchain_core.language_models.chat_models import generate_from_stream
    from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage
    from langchain_core.outputs import ChatGenerationChunk, ChatResult

    from millgate.integrations.langchain import (
        GuardedChatModel,
        MillgateCompressor,
        MillgateRetriever,
    )

    class Looping(BaseChatModel):
        """Loops until it is asked to go on; remembers what it was sent."""

        asked: list = Field(default_factory=list)

        @property
        def _llm_type(self):
            return "looping"

        def _generate(self, messages, stop=None, run_manager=None, **options):
            return generate_from_stream(self._stream(messages))

        def _stream(self, messages, stop=None, run_manager=None, **options):
            self.asked.append(messages)
            texts = tokens(AFTER) if len(self.asked) > 1 else looping()
            for text in texts:
                yield ChatGenerationChunk(message=AIMessageChunk(text))


@pytest.fixture
def gate():
    with open_gate() as gate:
        yield gate


def test_the_retriever_gives_documents_that_lead_back_to_their_trace(gate):
    first, *_ = MillgateRetriever(gate=gate, budget=200).invoke(QUESTION)
    assert FACT in first.page_content
    assert first.metadata["id"] in ("refunds", "copy")
    assert gate.trace(first.metadata["trace"]).request.query == QUESTION


async def test_the_retriever_answers_in_an_event_loop(gate):
    found = await MillgateRetriever(gate=gate).ainvoke(QUESTION)
    assert FACT in found[0].page_content


def test_the_retriever_leaves_out_what_the_window_shows(gate):
    seen = [ROWS[0]["text"], ROWS[2]["text"]]
    retriever = MillgateRetriever(gate=gate, window=lambda: seen)
    assert all(FACT not in found.page_content for found in retriever.invoke(QUESTION))


def test_the_documents_of_the_retriever_fit_the_budget(gate):
    gate.add([{"id": f"n{n}", "text": f"Refund rule {n}. " + "It holds for returns. " * n} for n in range(30)])  # fmt: skip
    found = MillgateRetriever(gate=gate, budget=120).invoke("refund rule")
    assert found
    assert sum(gate.count_tokens(document.page_content) for document in found) <= 120


def test_the_compressor_drops_repeats_and_what_does_not_fit():
    documents = [Document(row["text"]) for row in ROWS] + [Document("word " * 2000)]
    compressor = MillgateCompressor(budget=150)
    kept = compressor.compress_documents(documents, QUESTION)
    assert [documents.index(each) for each in kept] == [0, 1, 3]
    assert kept[0] is documents[0]
    reasons = {c.chunk.id: c.notes[-1].reason for c in compressor.sift(documents).dropped}
    assert set(reasons) == {"2", "4"}
    assert all(reasons.values())


def test_the_compressor_drops_a_version_that_differs_in_a_line():
    page = " ".join(f"Rule {n} says that board {n} is lifted by keeper {n}." for n in range(12))
    documents = [Document(page), Document(f"Last changed in May.\n{page}"), Document(ROWS[0]["text"])]  # fmt: skip
    kept = MillgateCompressor(budget=2000).compress_documents(documents, QUESTION)
    assert kept == [documents[0], documents[2]]


def test_the_compressor_knows_the_window():
    documents = [Document(row["text"]) for row in ROWS]
    compressor = MillgateCompressor(window=lambda: [HumanMessage("hi").text, ROWS[1]["text"]])
    assert documents[1] not in compressor.compress_documents(documents, QUESTION)


def test_a_chat_model_without_loops_streams_what_it_streams():
    plain = GenericFakeChatModel(messages=iter([AIMessage(INTRO + AFTER)] * 2))
    answer = GuardedChatModel(model=plain)
    assert "".join(c.text for c in answer.stream("hi")) == INTRO + AFTER
    assert answer.invoke("hi").content == INTRO + AFTER


def test_the_loop_of_a_chat_model_is_cut_and_the_model_goes_on():
    model = Looping()
    answer = GuardedChatModel(model=model).invoke([HumanMessage("Tell me of the keeper.")])
    assert answer.text.startswith(INTRO)
    assert answer.text.endswith(AFTER)
    assert answer.text.count(UNIT) <= 2
    first, second = model.asked
    assert second[: len(first)] == first
    assert [message.type for message in second[len(first) :]] == ["ai", "human"]


async def test_the_loop_is_cut_in_an_event_loop_too():
    answer = GuardedChatModel(model=Looping())
    assert "".join([c.text async for c in answer.astream("hi")]).endswith(AFTER)


def test_listeners_hear_the_guarded_tokens_alone():
    heard = []

    class Listener(BaseCallbackHandler):
        def on_llm_new_token(self, token, **rest):
            heard.append(token)

    said = GuardedChatModel(model=Looping()).invoke("hi", {"callbacks": [Listener()]}).text
    streamed = list(GuardedChatModel(model=Looping()).stream("hi", {"callbacks": [Listener()]}))  # fmt: skip
    assert "".join(chunk.text for chunk in streamed) == said
    assert "".join(heard).replace(said, "") == ""


def test_a_model_that_keeps_looping_raises_loop_error():
    class Endless(Looping):
        def _stream(self, messages, stop=None, run_manager=None, **options):
            for text in looping():
                yield ChatGenerationChunk(message=AIMessageChunk(text))

    with pytest.raises(LoopError):
        GuardedChatModel(model=Endless(), guard={"max_rollbacks": 1}).invoke("hi")


def test_an_error_of_the_model_comes_out_as_it_is():
    class Broken(Looping):
        def _stream(self, messages, stop=None, run_manager=None, **options):
            yield ChatGenerationChunk(message=AIMessageChunk("He went"))
            raise ConnectionResetError("gone")

    with pytest.raises(ConnectionResetError, match="gone"):
        GuardedChatModel(model=Broken()).invoke("hi")


def test_tool_calls_come_through_a_model_that_does_not_stream():
    call = {"name": "find", "args": {"query": "gate"}, "id": "1", "type": "tool_call"}

    class Calling(FakeListChatModel):
        responses: list[str] = Field(default=[""])

        def bind_tools(self, tools, **options):
            return self.bind(tools=tools)

        def _stream(self, messages, stop=None, run_manager=None, **options):
            raise NotImplementedError

        def _should_stream(self, **options):
            return False

        def _generate(self, messages, stop=None, run_manager=None, **options):
            message = AIMessage("", tool_calls=[call])
            return ChatResult(generations=[{"message": message, "text": ""}])

    answer = GuardedChatModel(model=Calling()).bind_tools([]).invoke("hi")
    assert answer.tool_calls == [call]


def test_a_misspelt_argument_is_refused(gate):
    for make in (
        lambda: MillgateRetriever(gate=gate, bugdet=3),
        lambda: MillgateCompressor(bugdet=3),
        lambda: GuardedChatModel(model=FakeListChatModel(responses=["a"]), gaurd={}),
    ):
        with pytest.raises(ValueError, match=r"bugdet|gaurd"):
            make()
