"""Guard: a model's stream as the client should see it.

The state machine (machine.py) decides; this file calls the model, waits, severs and closes.
Whatever happens (a stall, an error, a client that goes away), the upstream iterator is closed before
anything else is done.
"""

import asyncio
import inspect
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Callable,
    Iterable,
    Iterator,
    Sequence,
)
from contextlib import aclosing, suppress
from copy import deepcopy
from typing import Any, Self, TypeVar

from millgate.errors import ConfigError, UpstreamError
from millgate.guard.channels import Piece, as_piece
from millgate.guard.detectors import Detector
from millgate.guard.machine import StreamMachine
from millgate.guard.policy import GuardPolicy
from millgate.guard.report import GuardReport
from millgate.guard.resume import Call, Message, conversation
from millgate.published.context_strategy import pick_accepted
from millgate.text.tokens import estimate_tokens

Messages = str | Sequence[Message]
Generate = Callable[..., Any]  # (messages, *, sampling=None) -> async iterator of str or Piece
KeepAlive = Callable[[], object]
T = TypeVar("T")


class GuardedStream(AsyncIterator[Piece]):
    """One guarded stream: iterate it, close it, read its report."""

    def __init__(self, machine: StreamMachine, pieces: AsyncGenerator[Piece]) -> None:
        self._machine = machine
        self._pieces = pieces

    @property
    def report(self) -> GuardReport:
        """What happened so far."""
        return self._machine.report

    @property
    def text(self) -> str:
        """The content sent so far."""
        return self._machine.text

    async def __anext__(self) -> Piece:
        return await anext(self._pieces)

    async def aclose(self) -> None:
        """The client goes away: close the upstream."""
        await self._pieces.aclose()
        self._machine.leave()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class Guard:
    """Watches what `generate` streams; a loop is cut, and the model asked to go on in the same stream.

    `generate(messages, *, sampling=None)`, a plain function or `async def`, gives an async iterator of
    `str` or `Piece` (for `iterate`: an iterator); None is no text. One that takes no `sampling` is asked by words
    alone. What it raises comes out as it is, behind the text that was held back.

    `detector` is a name, a detector, copied for each stream, or a function that makes one. Other knobs are those of
    GuardPolicy; without a `policy` the MILLGATE_GUARD__* variables count, and `model` says what is set for it.
    """

    def __init__(
        self,
        generate: Generate,
        *,
        detector: Detector | Callable[[], Detector] | str | None = None,
        divergence: str | None = None,
        max_rollbacks: int | None = None,
        model: str = "",
        policy: GuardPolicy | None = None,
        count: Callable[[str], int] = estimate_tokens,
        keep_alive: KeepAlive | None = None,
        **knobs: object,
    ) -> None:
        if not callable(generate):
            raise ConfigError(
                f"generate is {generate!r}, not a function",
                hint="give a function that takes the messages and streams your model's answer",
            )
        if max_rollbacks is not None:
            knobs["max_rollbacks"] = max_rollbacks
        if isinstance(detector, str):
            knobs["detector"] = detector
        set_up = policy or GuardPolicy.from_environment()
        self.policy = set_up.for_model(model).replace(knobs)
        self.divergence = divergence
        self._generate = generate
        self._takes_sampling = bool(pick_accepted(generate, {"sampling": None}))
        self.read: Callable[[Any], Iterable[Piece]] = lambda given: (as_piece(given),)
        """How what it yields is read as pieces."""
        self._detector = _detector_factory(detector)
        self._count = count
        self._keep_alive = keep_alive
        self.report = GuardReport()
        """The report of the stream that was started last."""

    def stream(
        self,
        messages: Messages,
        *,
        enabled: bool = True,
        structured: bool = False,
        max_tokens: int = 0,
        plain: bool = False,
    ) -> GuardedStream:
        """The guarded stream of one answer; `plain` if `generate` gives a plain iterator.

        `structured` output is never spliced: a loop in it is asked for again, or ends the stream. `max_tokens`, the
        limit of the request, lets the report say how much of it a severed call left.
        """
        policy = self.policy if enabled else self.policy.model_copy(update={"enabled": False})
        machine = StreamMachine(
            conversation(messages),
            policy=policy,
            detector=self._detector,
            divergence=self.divergence,
            structured=structured,
            max_tokens=max_tokens,
            words_only=not self._takes_sampling,
            count=self._count,
        )
        self.report = machine.report
        return GuardedStream(machine, self._run(machine, plain=plain))

    def iterate(self, messages: Messages, **how: Any) -> Iterator[Piece]:  # noqa: ANN401
        """The same, with the same options, for a `generate` that gives a plain iterator; see `guard.report`."""
        return step_through(self.stream(messages, plain=True, **how))

    async def _run(self, machine: StreamMachine, *, plain: bool) -> AsyncGenerator[Piece]:
        call: Call | None = machine.start()
        try:
            while call is not None:
                async with aclosing(self._attempt(machine, call, plain=plain)) as pieces:
                    async for piece in pieces:
                        yield piece
                call = machine.resume() if machine.stalled else None
        except GeneratorExit:
            machine.leave()
            raise

    async def _attempt(
        self, machine: StreamMachine, call: Call, *, plain: bool
    ) -> AsyncGenerator[Piece]:
        """One call of the model: its pieces go through the machine, to the end or to a stall."""
        try:
            source = await self._open(call, plain=plain)
        except Exception:
            machine.fail()
            raise
        try:
            while not machine.stalled and not machine.done:
                try:
                    given = await source.next(holding=machine.holding)
                    pieces = () if given is None else self.read(given)
                except StopAsyncIteration:
                    out = machine.end()
                except Exception:
                    for rest in machine.fail():
                        yield rest
                    raise
                else:
                    out = machine.tick() + _feed(machine, pieces)
                for ready in out:
                    yield ready
        finally:
            await source.close()

    async def _open(self, call: Call, *, plain: bool) -> "Upstream":
        messages = [dict(message) for message in call.messages]
        more = {"sampling": call.sampling} if self._takes_sampling else {}
        upstream = self._generate(messages, **more)
        if not plain and inspect.isawaitable(upstream):
            upstream = await upstream
        if plain and not isinstance(upstream, Iterable):
            raise ConfigError(
                f"generate gave {type(upstream).__name__}, not an iterator",
                hint="use guard.stream(...) for a generate that gives an async iterator",
            )
        if not plain and not isinstance(upstream, AsyncIterable):
            raise ConfigError(
                f"generate gave {type(upstream).__name__}, not an async iterator",
                hint="use guard.iterate(...) for a generate that gives a plain iterator",
            )
        return Upstream(upstream, self.policy, self._keep_alive, plain=plain)


def _feed(machine: StreamMachine, pieces: Iterable[Piece]) -> list[Piece]:
    out: list[Piece] = []
    for piece in pieces:
        out += machine.feed(piece)
        if machine.stalled or machine.done:
            break
    return out


def step_through(items: AsyncGenerator[T] | GuardedStream) -> Iterator[Any]:
    """The items of an async iterator that never waits, such as one over a plain iterator."""
    try:
        while True:
            try:
                items.__anext__().send(None)
            except StopIteration as item:
                yield item.value
            except StopAsyncIteration:
                return
    finally:
        with suppress(StopIteration):
            items.aclose().send(None)


def _detector_factory(
    detector: Detector | Callable[[], Detector] | str | None,
) -> Callable[[], Detector] | None:
    """A function that makes detectors, from an example, a class or a function; None: the policy decides."""
    if detector is None or isinstance(detector, str):
        return None
    if isinstance(detector, Detector) and not isinstance(detector, type):
        pattern = deepcopy(detector)
        pattern.reset()
        return lambda: deepcopy(pattern)
    if not callable(detector):
        raise ConfigError(
            f"{detector!r} is not a detector", hint="give an object with feed and reset, or a class"
        )
    return detector


class Upstream:
    """What `generate` gave: an async iterator is waited for in slices of time; a plain one is there at once."""

    def __init__(
        self,
        stream: Any,  # noqa: ANN401  # the caller's own
        policy: GuardPolicy,
        keep_alive: KeepAlive | None,
        *,
        plain: bool,
    ) -> None:
        self._stream, self._policy, self._keep_alive = stream, policy, keep_alive
        self._plain = plain
        self._items: Any = iter(stream) if plain else aiter(stream)
        self._task: asyncio.Future[Any] | None = None

    async def next(self, *, holding: bool) -> Any:  # noqa: ANN401
        """The next item; None when a slice of time passed while text is held back."""
        if self._plain:
            for item in self._items:
                return item
            raise StopAsyncIteration
        if holding or self._task is not None:
            return await self._wait(holding=holding)
        try:
            async with asyncio.timeout(self._policy.idle_s) as limit:
                return await anext(self._items)
        except TimeoutError:
            if limit.expired():
                raise self._silence_error() from None
            raise

    async def _wait(self, *, holding: bool) -> Any:  # noqa: ANN401
        policy = self._policy
        if self._task is None:
            self._task = asyncio.ensure_future(anext(self._items))
        wait_s = min(policy.keep_alive_s, policy.max_hold_s) if holding else policy.idle_s
        done, _ = await asyncio.wait({self._task}, timeout=wait_s)
        if done:
            task, self._task = self._task, None
            return task.result()
        if not holding:
            raise self._silence_error()
        if self._keep_alive is not None:
            answer = self._keep_alive()
            if inspect.isawaitable(answer):
                await answer
        return None

    def _silence_error(self) -> UpstreamError:
        return UpstreamError(
            f"the model sent nothing for {self._policy.idle_s:g} s",
            hint="raise idle_s to wait longer",
        )

    async def close(self) -> None:
        """End the wait and close the upstream, however it can be closed."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
        await _close(self._items)
        if self._stream is not self._items:
            await _close(self._stream)


async def _close(thing: object) -> None:
    """Close it by `aclose` or `close`, if it has one."""
    close = getattr(thing, "aclose", None) or getattr(thing, "close", None)
    answer = close() if close is not None else None
    if inspect.isawaitable(answer):
        await answer
