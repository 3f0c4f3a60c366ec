"""ModelCall: what is known of one call that went through the proxy, for metrics, log, spans and traces."""

import time
from asyncio import CancelledError
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal
from uuid import uuid4

from headgate.errors import UpstreamTimeout
from headgate.guard.dialects.usage import CachedInput
from headgate.guard.fuse import CapStatus
from headgate.guard.ladder import Climb
from headgate.guard.report import GuardReport, State
from headgate.service.proxy.transport import NotReached

Outcome = Literal["off", "clean", "recovered", "passed", "failed", "abandoned"]


@dataclass(slots=True)
class ModelCall:
    """One call, filled while it happens and read when it is over."""

    path: str
    id: str = field(default_factory=lambda: uuid4().hex, kw_only=True)
    operation: str = ""
    model: str = ""
    upstream: str = ""
    server: str = ""
    query: str = ""
    """What the last human turn asked."""
    session: str = ""
    context_trace: str = ""
    sent: bytes = b""  # none where it is huge
    """The request as the model got it. Its values would take up to ten times the room while it waits to be traced."""
    length: int = 0
    """The length of the model's window, where the client says it."""
    answer: str = ""
    """What the client has of an answer that was cut."""
    status: int = 0
    answered: bool = False
    """Whether the upstream answered with 200."""
    unwatched: str = ""
    """Why the guard did not watch although it was asked to."""
    report: GuardReport | None = None
    """What the guard did; None where it did not watch."""
    rescued_by: str = ""
    """The upstream that made the last try, where another one did."""
    climb: Climb = field(default_factory=Climb)
    """The rungs of the ladder that this call's messages reached, and whether the turn was ended for it."""
    cap_statuses: tuple[CapStatus, ...] = ()
    """How its spenders stand to their caps, where they have any."""
    prompt_tokens: int | None = None
    """The tokens of its prompt, estimated; None as long as nobody had to."""
    untold_prompts: int = 0
    """How often an upstream got the prompt and did not tell its tokens; they are estimated when the call is over."""
    is_untold: bool = False
    """Whether nobody knows what it spent: it is booked at its likely size."""
    estimated: bool = False
    """Whether some of its tokens are an estimate."""
    input_tokens: int = 0
    cached_input: CachedInput = field(default_factory=CachedInput)
    output_tokens: int = 0
    error: str = ""
    response_id: str = ""
    began: float = field(default_factory=time.perf_counter)
    seconds: float = 0.0
    first_byte_s: float | None = None

    @property
    def outcome(self) -> Outcome:
        """What became of the answer under the guard."""
        report = self.report
        if report is None:
            return "off"
        if report.state is State.FAILED:
            return "failed"
        if report.state is State.CLOSED:
            return "abandoned"
        if report.passed_on:
            return "passed"
        return "recovered" if report.rollbacks or report.cuts else "clean"

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """The call waits for the head of a response. If nobody waits for it any more, its prompt may still be read."""
        try:
            yield
        except (UpstreamTimeout, CancelledError) as error:
            self.untold_prompts += not isinstance(error, NotReached)
            raise

    def end(self, begun_at: float | None) -> None:
        """The call is over; the reply began at this time, if it did."""
        self.seconds = time.perf_counter() - self.began
        if begun_at is not None:
            self.first_byte_s = begun_at - self.began
