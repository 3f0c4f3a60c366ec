"""Fuse: what a call is held for before it goes to the model, and what is booked when it is over.

Where the store fails, the call goes on uncounted, and the reply says so: a broken counter must not stop work.
"""

import asyncio
from collections.abc import Callable
from functools import partial

from starlette.types import Scope

from headgate.errors import StoreError
from headgate.guard.dialects.dialect import Dialect
from headgate.guard.dialects.usage import estimate_prompt
from headgate.guard.fuse import FusePolicy, Hold, Price, Spending, amount_of
from headgate.service.proxy.model_call import ModelCall
from headgate.service.proxy.request import ProxyRequest
from headgate.types import Amount

LARGE = 200_000  # bytes of a request whose tokens are counted in a thread


class Fuse:
    """Holds and settles the calls of one proxy."""

    def __init__(
        self,
        policy: FusePolicy,
        spending: Callable[[Scope], Spending],
        key: Callable[[Scope], str],
    ) -> None:
        self._policy, self._spending, self._key = policy, spending, key

    async def hold(
        self, scope: Scope, request: ProxyRequest, dialect: Dialect, call: ModelCall
    ) -> tuple[Hold | None, dict[str, str]]:
        """Hold the call's likely size, and the headers that tell how its spenders stand; PausedError at a cap."""
        key = self._key(scope)
        if not self._policy.caps_of(call.session, key):
            return None, {}
        likely = amount_of(
            self._policy.price(request.model),
            input_tokens=await count_prompt(request, call),
            output_tokens=dialect.token_limit(request.fields) or self._policy.output_tokens,
        )
        try:
            held = await self._spending(scope).ahold(call.session, key, likely)
        except StoreError as error:
            return None, {"x-headgate-degraded": f"fuse: {error.message}"}
        call.cap_statuses = held.statuses
        if held.refusal is not None:
            raise held.refusal
        told = "; ".join(status.describe() for status in held.warnings)
        return held, {"x-headgate-fuse": told} if told else {}

    async def settle(self, scope: Scope, held: Hold, call: ModelCall) -> None:
        """Book what the call spent; nothing where the upstream refused it."""
        spent = held.amount if call.is_untold else _spent(self._policy.price(call.model), call)
        try:
            call.cap_statuses = await self._spending(scope).asettle(held, spent)
        except StoreError as error:
            call.error = call.error or f"not booked: {error.message}"


async def count_prompt(request: ProxyRequest, call: ModelCall) -> int:
    """The tokens of a call's prompt, estimated; in a thread where that takes a millisecond and more."""
    if call.prompt_tokens is None:
        count = partial(estimate_prompt, request.fields)
        is_large = len(request.body) > LARGE
        call.prompt_tokens = await asyncio.to_thread(count) if is_large else count()
    return call.prompt_tokens


def _spent(price: Price | None, call: ModelCall) -> Amount:
    cached = call.cached_input
    return amount_of(
        price,
        input_tokens=call.input_tokens + cached.read + cached.written,
        output_tokens=call.output_tokens,
        cached_tokens=cached.within + cached.read,
    )
