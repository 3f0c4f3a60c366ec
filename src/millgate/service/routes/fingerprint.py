"""POST /v1/fingerprint: the fingerprint of a window, for callers who do not make it themselves."""

import asyncio
from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from millgate.errors import LimitError
from millgate.published.self_reference import WindowFingerprintPayload
from millgate.service.routes.callers import ReadGate
from millgate.service.routes.parse import Body, StrictRoute
from millgate.service.routes.responses import respond, response_schema
from millgate.text.fingerprint import WindowFingerprint
from millgate.types import Window
from millgate.types.policy import Limits

router = APIRouter(tags=["context"], route_class=StrictRoute)


class FingerprintIn(Body):
    """What the model already sees."""

    current_window_blocks: list[str | dict[str, Any]] | None = None
    """As texts or chat messages, each a span; goes before the text."""
    current_window_text: str | None = None
    """As one text, cut into spans of 190 tokens."""
    sketch: bool = True
    """Whether to add the sketch, with which overlap is measured as exactly as with the text."""


@router.post("/v1/fingerprint", summary="Fingerprint a window", responses=response_schema(WindowFingerprintPayload))  # fmt: skip
async def fingerprint(
    body: FingerprintIn,
    gate: ReadGate,
) -> Response:
    """The fingerprint of a window. Nothing of it is kept."""
    window = Window.of(body.current_window_blocks or body.current_window_text)
    _check(window, gate.settings.limits)

    def make() -> Response:
        return respond(WindowFingerprint.of(window.texts, sketch=body.sketch).to_json())

    return await asyncio.to_thread(make)


def _check(window: Window, limits: Limits) -> None:
    """Refuse what a request for context would refuse too."""
    chars, blocks = sum(map(len, window.texts)), len(window.texts)
    for name, value, most in (
        ("window_chars", chars, limits.window_chars),
        ("window_blocks", blocks, limits.window_blocks),
    ):
        if value > most:
            raise LimitError(
                f"{name} is {value:,}; it must be 0 to {most:,}",
                hint=f"the limit is set by limits.{name}",
            )
