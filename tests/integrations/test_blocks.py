"""The blocks of conversations: each is found once, and so many bytes of them are remembered."""

from millgate.gateway import Millgate
from millgate.integrations import blocks as module
from millgate.integrations.blocks import Blocks


def test_the_oldest_blocks_are_forgotten_when_they_take_too_many_bytes(monkeypatch):
    monkeypatch.setattr(module, "MAX_BYTES", 4_000)
    with Millgate.open(":memory:") as gate:
        text = " ".join(f"Ferry {n} leaves for island {7 * n} at {n % 24}:30." for n in range(30))
        gate.add([{"id": "a", "text": text}])
        blocks = Blocks(gate)
        questions = [f"When does the ferry leave, {name}?" for name in ("Ann", "Ben", "Cy")]
        found = [blocks.find(question, [question]) for question in questions]
    assert all(len(block) > 900 for block in found)
    assert blocks.known_block([questions[0]]) is None
    assert [blocks.known_block([question]) for question in questions[1:]] == found[1:]


async def test_a_reply_gets_nothing_of_its_own_behind_the_context_of_its_question():
    with Millgate.open(":memory:") as gate:
        gate.add([{"id": "a", "text": "Ferry 7 leaves at 9:30. Fix it if the ferry is late."}])
        blocks, question = Blocks(gate), "When does the ferry leave?"
        block = blocks.find(question, [question])
        window = [block, question, "At 9:30."]
        assert "9:30" in block
        for reply in ("fix it", "go on"):
            assert blocks.find(reply, [*window, reply]) == ""
            assert await Blocks(gate).afind(reply, [*window, reply]) == ""
        assert blocks.find("ferry", ["ferry"]), "nothing stands before it"
