"""The pieces of a message: what was thought is no text, in whatever form an API has it."""

import pytest

from millgate.guard.parts import parts_of


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ({"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]}, [("thinking", "hm")]),
        ({"role": "assistant", "reasoning_content": "hm", "content": "Hello"}, [("text", "Hello"), ("thinking", "hm")]),
        (
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "Hello"}]},
            [("text", "Hello"), ("thinking", "hm")],
        ),
    ],
)  # fmt: skip
def test_what_was_thought_is_a_piece_of_its_own(message, expected):
    assert [(part.kind, part.text) for part in parts_of(message)] == expected
