"""POST /v1/turns: keep what was said in a conversation, so that contexts can recall it."""

from typing import Any

from fastapi import APIRouter
from pydantic import AliasChoices, Field
from starlette.responses import Response

from millgate.knowledge.turns import COLLECTION, AddedTurns
from millgate.service.routes.callers import WriteGate
from millgate.service.routes.parse import Body, NewName, StrictRoute, Text
from millgate.service.routes.responses import respond, response_schema
from millgate.types.lengths import MOST_ROWS, SESSION_CHARS

router = APIRouter(tags=["turns"], route_class=StrictRoute)


class TurnsIn(Body):
    """The turns of a conversation; the whole history may be sent each time."""

    session: Text = Field(
        max_length=SESSION_CHARS,
        validation_alias=AliasChoices("session", "session_id"),
        examples=["monday"],
    )
    """The conversation they belong to."""
    messages: list[str | dict[str, Any]] = Field(
        max_length=MOST_ROWS, examples=[[{"role": "user", "content": "My sister moved to Lisbon."}]]
    )
    """Texts, or chat messages {role or name, content, time, id, parent, phase, salience}."""
    collection: NewName = COLLECTION
    """Where they are kept."""


@router.post("/v1/turns", summary="Keep the turns of a conversation", responses=response_schema(AddedTurns))  # fmt: skip
async def add_turns(body: TurnsIn, gate: WriteGate) -> Response:
    """Keep the turns that are new, in order. Blocks that Millgate injected into them are left out."""
    added = await gate.aadd_turns(body.session, body.messages, collection=body.collection)
    return respond(added)
