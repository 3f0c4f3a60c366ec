"""/v1/fingerprint: a window as large as allowed passes, one character or block more is refused by name."""

import pytest
from tests.service.clients import connected

from millgate.gateway import Millgate
from millgate.service.app import create
from millgate.settings import Settings


@pytest.mark.parametrize(
    ("window", "refused"),
    [
        ({"current_window_text": "x" * 100}, ""),
        ({"current_window_text": "x" * 101}, "window_chars is 101; it must be 0 to 100"),
        ({"current_window_blocks": ["a", "b", "c"]}, ""),
        ({"current_window_blocks": ["a", "b", "c", "d"]}, "window_blocks is 4; it must be 0 to 3"),
    ],
)
async def test_a_window_is_fingerprinted_up_to_the_limits(window, refused):
    limits = {"window_chars": 100, "window_blocks": 3}
    with Millgate.open(settings=Settings(store=":memory:", limits=limits)) as gate:
        async with connected(create(gate)) as client:
            reply = await client.post("/v1/fingerprint", json=window)
    assert (reply.status_code == 200) is not bool(refused)
    assert refused in reply.text
