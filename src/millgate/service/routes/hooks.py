"""POST /v1/hooks/prompt: context for the prompt that an agent is about to send, in the form its hooks expect.

The body is what Claude Code gives to a hook on UserPromptSubmit, so that a hook needs to do no more than pass it on. A
prompt to which nothing is added gets an empty response, which hooks ignore.
"""

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from millgate.knowledge.project import folder_name
from millgate.service.observe.request_state import state_of
from millgate.service.routes.callers import Reader, ReadGate
from millgate.service.routes.parse import Body, Collection, Folder, SessionName, StrictRoute
from millgate.service.routes.responses import respond
from millgate.text.wanted import asks_nothing, is_reply

router = APIRouter(prefix="/v1/hooks", tags=["hooks"], route_class=StrictRoute)


class PromptIn(Body):
    """What a hook is told of a prompt; other fields are left alone."""

    model_config = ConfigDict(extra="ignore")

    prompt: str = Field(examples=["how do refunds work?"])
    """The prompt."""
    session_id: SessionName = ""
    """The session it belongs to."""
    cwd: Folder = ""
    """The folder the agent works in."""


@router.post(
    "/prompt",
    summary="Context for a prompt",
    responses={200: {"description": "What the hook prints."}, 204: {"description": "Nothing to add."}},
)  # fmt: skip
async def prompt(
    body: PromptIn,
    request: Request,
    gate: ReadGate,
    caller: Reader,
    *,
    budget: Annotated[int, Query(ge=1, description="Most tokens of the block.")] = 1000,
    collection: Collection = "main",
) -> Response:
    """Context for the prompt as the output of a hook; nothing for a blank prompt, a greeting, a command and a reply.

    What a reply such as "go on" is about stands in the prompts before it, which a hook does not see.
    """
    limits = gate.settings.limits
    query = body.prompt.strip()[: limits.query_chars]
    if asks_nothing(query) or is_reply(query):
        return Response(status_code=204)
    context = await gate.acontext(
        query,
        budget=budget,
        collection=collection,
        session=body.session_id,
        cwd=body.cwd if caller.is_local else folder_name(body.cwd),
    )
    state = state_of(request)
    state.trace, state.tokens = context.trace, context.token_estimate
    if not context.is_worth_adding:
        return Response(status_code=204)
    output = {"hookEventName": "UserPromptSubmit", "additionalContext": context.text}
    return respond({"hookSpecificOutput": output})
