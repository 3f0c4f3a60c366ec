"""Fitting: a tool result that stays within its budget, the frame around the text included.

A client may put the text, the structured half or both into its window, so all of the result counts: it is serialized as
on the wire and measured by the gate's own counter. The block gets what the frame leaves; if that was guessed
too high, as with sources of long names or many quotes, it is asked for again in a size that is smaller by as much.
"""

from collections.abc import Awaitable, Callable

from mcp_types import CallToolResult

from millgate import __version__
from millgate.types import Context

ATTEMPTS = 5
# What 2026-07-28 servers stamp on each result, and the name of the reply's field.
_STAMP = (
    '{"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":'
    f'{{"name":"millgate","title":"Millgate","version":"{__version__}"}}}}}}'
)
# Tokens of a block once it is quoted as JSON, for each token it has unquoted: line ends and quotes are escaped.
_ESCAPED = 1.08

Ask = Callable[[int], Awaitable[Context]]
Render = Callable[[Context | None], CallToolResult]
Count = Callable[[str], int]


def measure(result: CallToolResult, count: Count) -> int:
    """Tokens of a result as it goes over the wire."""
    return count(result.model_dump_json(by_alias=True, exclude_none=True) + _STAMP)


async def fit(ask: Ask, render: Render, count: Count, budget: int) -> CallToolResult:
    """The result with the largest block that was found to fit; one without a block if none does."""
    empty = render(None)
    left = budget - measure(empty, count)
    copies = 1 if empty.structured_content is None else 2
    most = int(left / (copies * _ESCAPED))
    for _ in range(ATTEMPTS):
        if most <= 0:
            break
        result = render(await ask(most))
        tokens = measure(result, count)
        if tokens <= budget:
            return result
        most = int(most * left / (left + tokens - budget)) - 1
    return empty
