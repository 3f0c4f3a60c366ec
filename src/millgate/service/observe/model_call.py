"""ModelCall: what is known of one call that went through the proxy, for metrics, log, spans and its trace."""

import time
from asyncio import CancelledError
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal
from uuid import uuid4

from millgate.circles.steps import CircleSteps
from millgate.errors import GuardError, MillgateError, UpstreamError, UpstreamTimeout
from millgate.guard.dialects.usage import CachedInput, UsageSum
from millgate.guard.report import LOOP_ERRORS, GuardReport, State
from millgate.service.wire import FIRST_ERROR, GONE
from millgate.sessions.compaction.account import Account
from millgate.sessions.folding.report import Fold, FoldReport, price_saving
from millgate.sessions.prompt_cache.judgment import CacheCounts, Judgment
from millgate.sessions.witness import Observation
from millgate.spending.limits import CapStatus
from millgate.spending.prices import Price
from millgate.text.redact import redact
from millgate.text.table import clip
from millgate.types.lengths import SUMMARY_CHARS
from millgate.types.notes import Stage
from millgate.types.trace import ENDED

FoldGroup = Literal["on", "measure", "holdout"]


@dataclass(slots=True)
class FoldedCall:
    """What folding did with one call, or would have done."""

    group: FoldGroup
    """on; measure: nothing was changed; holdout: nothing was changed, to compare with sessions that are folded."""
    report: FoldReport
    first_new: int
    """The first message that the model has not seen before."""
    texts: tuple[str, ...] = ()
    """The lines of each new fold, as they came."""
    saved_cost: float | None = None
    """What was saved with the provider's prices for its cache; None if the model has no price."""

    @property
    def new_folds(self) -> tuple[Fold, ...]:
        """The folds in messages that the model sees for the first time."""
        return tuple(fold for fold in self.report.folds if fold.at >= self.first_new)

    @property
    def new_tokens(self) -> int:
        """Tokens that are folded for the first time: what sums count, each once."""
        return self.report.saved_from(self.first_new)

    @property
    def repeated_calls(self) -> int:
        """How many of the new results are of calls that were made before."""
        return sum(at >= self.first_new for at in self.report.repeated_calls)

    @property
    def has_stopped(self) -> bool:
        """Whether folding stopped with this call."""
        return self.report.stopped_at is not None and self.report.stopped_at >= self.first_new

    def price(self, price: Price, counts: CacheCounts | None) -> None:
        """Work out the saved cost."""
        old = self.report.saved_tokens - self.new_tokens
        self.saved_cost = price_saving(price, counts, old=old, new=self.new_tokens)


def known(**facts: float | str | None) -> dict[str, float | str]:
    """Facts without those that are blank."""
    return {name: value for name, value in facts.items() if value is not None and value != ""}


def read_fields(source: object, *names: str) -> dict[str, float | str]:
    """Some fields of a value as facts of the same names, without those that are blank; none of None."""
    return known(**{name: getattr(source, name) for name in names}) if source is not None else {}


Guarded = Literal["off", "clean", "recovered", "passed", "failed", "broken", "abandoned"]
Outcome = Guarded | Literal["ended", "unanswered"]


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
    key: str = ""
    """The id of the API key that the client called with."""
    tool_results: tuple[tuple[str, str], ...] = ()
    """Tools whose results the request brings to the model for the first time, each with the id of its call."""
    context_trace: str = ""
    context_tokens: int = 0
    """Of what was put in front of the newest question."""
    sent: bytes = b""
    """The request as the model got it, empty if it is huge. Parsed it would take up to ten times the memory."""
    length: int = 0
    """The length of the model's window, if the client says it."""
    unknown_parts: int = 0
    """Parts of its new messages in a shape that nobody here knows; they went on as they came."""
    answer: str = ""
    """What the client has of an answer that was cut."""
    status: int = 0
    answered: bool = False
    """Whether the upstream answered with 200."""
    not_reached: bool = False
    """Whether the upstream could not be reached, or closed the connection without an answer."""
    ignored: str = ""
    """Headers that look like ours and do not exist, each with the nearest that does."""
    unwatched: str = ""
    """Why the guard did not watch although it was asked to."""
    report: GuardReport | None = None
    """What the guard did; None if it did not watch."""
    rescued_by: str = ""
    """The upstream that made the last try, if another one did."""
    circles: CircleSteps = field(default_factory=CircleSteps)
    """The steps that circles in this call's messages reached, and whether the turn was ended for it."""
    fold: FoldedCall | None = None
    """What folding did with its request, or would have done; None if nobody asked for that."""
    cap_statuses: tuple[CapStatus, ...] = ()
    """How its accounts stand to their caps."""
    priced_as: str = ""
    """The model whose price holds for its own, which has none, under a cap in money."""
    uncounted: str = ""
    """Why it is not counted under its caps."""
    bug: Stage | None = None
    """The step of its that ended in an unexpected exception."""
    prompt_tokens: int | None = None
    """The tokens of its prompt, estimated; None until they are needed."""
    unreported_prompts: int = 0
    """How often an upstream got the prompt and did not report its tokens; they are estimated when the call is over."""
    is_spend_unknown: bool = False
    """Whether the upstream did not report what the call spent: it is booked at its likely size."""
    estimated: bool = False
    """Whether some of its tokens are an estimate."""
    input_tokens: int = 0
    cached_input: CachedInput = field(default_factory=CachedInput)
    first_input: tuple[int, CachedInput] = (0, CachedInput())
    """Input of the client's own request, without what further calls of the answer took."""
    output_tokens: int = 0
    cache_diagnosis: str = ""
    """Why the service itself says that it could not read more from its cache, if it was asked."""
    cache_observation: Observation | None = None
    """The request beside the last one of its conversation; None if it was not compared."""
    cache_counts: CacheCounts | None = None
    """What the provider read from its cache and wrote to it for the client's own request; None if it did not say."""
    cache_judgment: Judgment | None = None
    """What the provider read from its cache, and why not more; None if it did not report that."""
    repaired: str = ""
    """What was put back as it was in the last request, so that the provider's cache holds."""
    cost: float | None = None
    """What the call cost with all its tries, in the currency of the prices; None if the model has no price."""
    cache_cost: float | None = None
    """What of it was paid because the cache broke."""
    compaction: Account | None = None
    """What left the window in a compaction before this call; None if there was none."""
    put_back: int = 0
    """Tokens of what was put back for its last question, of what compactions lost."""
    new_blocks: tuple[int, ...] = ()
    """Tokens of each block that was put back for the first time."""
    not_put_back: str = ""
    """Why nothing was put back for its last question, if something was lost."""
    error: str = ""
    """The kind of what went wrong."""
    error_message: str = ""
    """What the client was told of it, without secrets."""
    response_id: str = ""
    began: float = field(default_factory=time.perf_counter)
    seconds: float = 0.0
    first_byte_s: float | None = None

    @property
    def outcome(self) -> Outcome:
        """What became of the call: whether it had an answer at all, and what became of that."""
        if self.circles.ended is not None:
            return ENDED
        if self.status >= FIRST_ERROR and self.status != GONE:
            return "unanswered"
        return self.guarded

    @property
    def guarded(self) -> Guarded:
        """What became of the answer under the guard."""
        report = self.report
        if self.status == GONE:
            return "abandoned"
        if report is None:
            return "off"
        if report.state is State.FAILED:
            return "failed" if self.error in LOOP_ERRORS else "broken"
        if report.state is State.CLOSED:
            return "abandoned"
        if report.passed_on:
            return "passed"
        return "recovered" if report.rollbacks or report.cuts else "clean"

    @property
    def problem(self) -> str:
        """What went wrong: its kind, and what the client was told."""
        return f"{self.error}: {self.error_message}" if self.error_message else self.error

    def facts(self) -> dict[str, float | str]:
        """What is told of the call, by name: in its trace, the log and spans; what is blank is left out."""
        cached = self.cached_input
        return {
            **read_fields(self, "path", "model", "upstream", "key"),
            **known(
                status=None if self.not_reached and self.outcome == "unanswered" else self.status,
                outcome=self.outcome,
                guard=self.guarded,
            ),
            **read_fields(self.report, "rollbacks", "wasted_tokens", "passed_on"),
            **read_fields(self, "input_tokens", "output_tokens"),
            **known(
                # of all tries, as the cost; the cache's facts tell of the client's own request
                read=cached.within + cached.read or None,
                written=cached.written or None,
                fresh=self.input_tokens - cached.within,
                estimated=1 if self.estimated else None,
                cost=None if self.cost is None else round(self.cost, 6),
                first_byte_s=None if self.first_byte_s is None else round(self.first_byte_s, 4),
                unknown_parts=self.unknown_parts or None,
                context_tokens=self.context_tokens or None,
            ),
            **read_fields(self, "priced_as", "uncounted", "ignored", "unwatched", "rescued_by"),
            **read_fields(self, "repaired", "response_id", "context_trace"),
        }

    def cache_facts(self) -> dict[str, float | str]:
        """What the provider read from its cache, if it reports that, and why not more."""
        judged, observed = self.cache_judgment, self.cache_observation
        facts = read_fields(self.cache_counts, "read", "written", "fresh")
        if judged is None:
            return facts
        cost = self.cache_cost if judged.is_break else None
        return {
            **facts,
            **read_fields(judged, "expected", "lost", "reason"),
            **known(
                blame=judged.blame if judged.is_break else None,
                change=observed.difference.change if observed and observed.difference else None,
                cost=None if cost is None else round(cost, 6),
            ),
        }

    def note_error(self, error: BaseException) -> None:
        """Keep what went wrong; what the guard did is told by its report."""
        self.error = type(error).__name__
        is_late = isinstance(error, UpstreamTimeout) and error.may_have_been_read
        self.not_reached = isinstance(error, UpstreamError) and not is_late
        if isinstance(error, MillgateError) and not isinstance(error, GuardError):
            self.error_message = clip(redact(str(error)), SUMMARY_CHARS)

    def note_usage(self, usage: UsageSum) -> None:
        """Keep the tokens that the upstream reported."""
        self.input_tokens, self.output_tokens = usage.tokens()
        self.cached_input = usage.cached_input()
        self.first_input, self.cache_diagnosis = usage.first_input(), usage.cache_diagnosis

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Wait for the head of a response. If the wait is given up, the upstream may still have read the prompt."""
        try:
            yield
        except (UpstreamTimeout, CancelledError) as error:
            self.unreported_prompts += (
                not isinstance(error, UpstreamTimeout) or error.may_have_been_read
            )
            raise

    def end(self, begun_at: float | None) -> None:
        """The call is over; the reply began at this time, if it did."""
        self.seconds = time.perf_counter() - self.began
        if begun_at is not None:
            self.first_byte_s = begun_at - self.began
