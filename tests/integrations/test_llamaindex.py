"""LlamaIndex's own parts with Millgate inside: retriever, postprocessor, memory block."""

import pytest
from tests.integrations.samples import FACT, QUESTION, ROWS, open_gate


@pytest.fixture(autouse=True, scope="module")
def framework():
    """Imported here: each process of a test run reads this file, and few run it."""
    global ChatMessage, MockLLM, Memory, RetrieverQueryEngine, MetadataMode, NodeWithScore, TextNode, MillgateMemoryBlock, MillgatePostprocessor, MillgateRetriever  # fmt: skip
    from llama_index.core.base.llms.types import ChatMessage
    from llama_index.core.llms import MockLLM
    from llama_index.core.memory import Memory
    from llama_index.core.query_engine import RetrieverQueryEngine
    from llama_index.core.schema import MetadataMode, NodeWithScore, TextNode

    from millgate.integrations.llamaindex import (
        MillgateMemoryBlock,
        MillgatePostprocessor,
        MillgateRetriever,
    )


@pytest.fixture
def gate():
    with open_gate() as gate:
        yield gate


def nodes(scores=None):
    given = scores or [None] * len(ROWS)
    return [
        NodeWithScore(node=TextNode(id_=row["id"], text=row["text"]), score=score)
        for row, score in zip(ROWS, given, strict=True)
    ]


def test_the_retriever_gives_scored_nodes_that_lead_back_to_their_trace(gate):
    first, *_ = MillgateRetriever(gate, budget=200).retrieve(QUESTION)
    assert FACT in first.text
    assert first.score > 0
    assert gate.trace(first.metadata["trace"]).request.query == QUESTION


def test_the_model_is_not_shown_what_only_programs_need(gate):
    first, *_ = MillgateRetriever(gate).retrieve(QUESTION)
    assert first.metadata["trace"] not in first.node.get_content(MetadataMode.LLM)


async def test_the_retriever_answers_in_an_event_loop(gate):
    found = await MillgateRetriever(gate).aretrieve(QUESTION)
    assert FACT in found[0].text


def test_a_query_engine_answers_from_the_retriever(gate):
    engine = RetrieverQueryEngine.from_args(MillgateRetriever(gate), llm=MockLLM())
    assert FACT in str(engine.query(QUESTION))


def test_the_retriever_leaves_out_what_the_window_shows(gate):
    seen = [ROWS[0]["text"], ROWS[2]["text"]]
    found = MillgateRetriever(gate, window=lambda: seen).retrieve(QUESTION)
    assert all(FACT not in each.text for each in found)


def test_the_postprocessor_drops_repeats_and_what_does_not_fit():
    long = NodeWithScore(node=TextNode(id_="long", text="word " * 2000))
    processor = MillgatePostprocessor(budget=150)
    kept = processor.postprocess_nodes([*nodes(), long], query_str=QUESTION)
    assert [each.node_id for each in kept] == ["refunds", "returns", "boards"]
    assert {c.chunk.id for c in processor.sift([*nodes(), long]).dropped} == {"2", "4"}


def test_the_postprocessor_goes_by_the_scores_if_all_have_one():
    kept = MillgatePostprocessor(budget=500).postprocess_nodes(nodes([0.1, 0.5, 0.9, 0.2]))
    assert kept[0].node_id == "copy"
    assert "refunds" not in [each.node_id for each in kept]


async def test_turns_that_left_the_chat_history_are_recalled(gate):
    block = MillgateMemoryBlock(gate=gate)
    memory = Memory.from_defaults(
        session_id="monday", token_limit=120, chat_history_token_ratio=0.5, memory_blocks=[block]
    )
    await memory.aput(ChatMessage(role="user", content="My sister Ann moved to Lisbon last spring."))  # fmt: skip
    await memory.aput(ChatMessage(role="assistant", content="How does she like it in Lisbon?"))
    for number in range(12):
        await memory.aput(ChatMessage(role="user", content=f"Let us talk about matter {number}, at some length."))  # fmt: skip
    assert gate.collections()["turns"].chunks > 0
    shown = await memory.aget(input="Where did my sister Ann move?")
    said = "\n".join(str(message.content) for message in shown)
    assert "Lisbon last spring" in said
    await memory.sql_store._async_engine.dispose()


async def test_a_memory_block_without_a_question_is_empty(gate):
    assert await MillgateMemoryBlock(gate=gate).aget([]) == ""


def test_a_misspelt_argument_is_refused(gate):
    for make in (
        lambda: MillgateRetriever(gate, bugdet=3),
        lambda: MillgatePostprocessor(bugdet=3),
        lambda: MillgateMemoryBlock(gate=gate, bugdet=3),
    ):
        with pytest.raises((TypeError, ValueError), match="bugdet"):
            make()


def test_a_postprocessor_is_made_again_from_what_llamaindex_wrote_of_it():
    made = MillgatePostprocessor(budget=7)
    assert MillgatePostprocessor.from_dict(made.to_dict()).budget == 7
