"""Summary: what wrapping did for a session, from the gateways' metrics and the supervisor's own counts.

If no call was guarded, the agent may have made none, or have called a service that wrap does not redirect. Which of
both it was cannot be told from here, so the line says what else came.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from prometheus_client.parser import text_string_to_metric_families

from headgate.service.proxy.transport import FIRST_ERROR
from headgate.text.table import money_of

COUNTED = {
    "headgate_guard_stalls_total": "loops",
    "headgate_tokens_injected_total": "injected",
    "headgate_tokens_saved_total": "saved",
    "headgate_compactions_total": "compactions",
    "headgate_put_back_tokens_total": "put_back",
    "headgate_cache_lost_tokens_total": "lost",
    "headgate_model_cost_total": "cost",
    "headgate_traces_lost_total": "lost_traces",
    "headgate_writes_lost_total": "lost_traces",
}
FOLDED = "headgate_fold_tokens_total"
CALLS = "headgate_model_calls_total"
RUNGS = "headgate_circles_total"
MOST_NAMED = 3  # services, or kinds of other requests, that the line names


@dataclass(frozen=True, slots=True)
class Summary:
    """One session in numbers."""

    calls: int
    """All model calls."""
    guarded: int
    """Those of them that the gateway answered."""
    straight: int
    """Model calls that went around it, because it failed or was slow."""
    resumed: int
    """Model calls that one gateway began and another ended; they are among the guarded ones."""
    broken: int
    """Model calls that could not be brought to their end."""
    passed: int
    """Other requests, passed on as they were."""
    loops: int
    recovered: int
    notes: int
    """Notes to the model that it repeats its tool calls."""
    ended: int
    """Turns that were ended since the agent went in circles of tool calls."""
    injected: int
    saved: int
    """Tokens of passages that contexts left out because the window shows them."""
    folded: int
    """Tokens that folding took out of requests."""
    compactions: int
    """How often the agent shortened its window."""
    put_back: int
    """Tokens of what compactions lost that were put back."""
    failures: int
    """Gateways that died or fell silent."""
    last_log: str = ""
    """What the last of them had written."""
    services: tuple[str, ...] = ()
    """The hosts of the model calls, the most called first."""
    others: tuple[str, ...] = ()
    """What the other requests were, the most frequent first."""
    cost: float = 0.0
    """What the calls cost as far as their models have prices, in the currency of the prices."""
    lost: int = 0
    """Input tokens that were paid in full again because the provider's cache broke."""
    unanswered: Mapping[str, int] = field(default_factory=dict)
    """How many calls had no answer of a model, by why: the status that the agent got, or that none was reached."""
    given_up: int = 0
    """Calls that the agent left before their answer was complete."""
    broken_off: int = 0
    """Answers that the service broke off, or ended without their end."""
    clean: int = 0
    """Answers that came to their end without a loop."""
    looped: int = 0
    """Answers that loops were cut from."""
    lost_traces: int = 0
    lost_store: str = ""
    """The store that could not be used, and why."""

    def lines(self) -> list[str]:
        """What to tell the user."""
        if not self.calls and not self.ended:
            return [self._say_nothing_came()]
        places = f" to {_name(self.services)}" if self.services else ""
        done = {
            f"{_number(self.calls, 'model call')}{places}": True,
            f"{self.guarded} guarded": self.guarded,
            self._describe_unanswered(): self.unanswered,
            f"{self.given_up} given up by the agent": self.given_up,
            f"{self.broken_off} broken off by the service": self.broken_off,
            self._describe_loops(): self.loops,
            "no loop": self.clean and not (self.loops or self.notes or self.ended),
            f"{_number(self.notes, 'note')} on repeated tool calls": self.notes,
            f"{_number(self.ended, 'turn')} ended for going in circles": self.ended,
            f"{_number(self.injected, 'token')} of context injected": self.injected,
            f"{_number(self.compactions, 'compaction')}, {_number(self.put_back, 'token')} put back": self.compactions,
            f"{_number(self.folded, 'token')} folded": self.folded,
            f"{_number(self.saved, 'token')} left out that the window shows": self.saved,
            f"cost about {money_of(self.cost)}": self.cost,
            f"{_number(self.lost, 'token')} paid again because the prompt cache broke": self.lost,
        }
        lines = ["; ".join(what for what, happened in done.items() if happened)]
        if self.lost_store:
            lines.append(
                f"no trace was kept and no context added, for want of the store {self.lost_store}"
            )
        if self.lost_traces:
            lines.append(
                f"{_number(self.lost_traces, 'trace')} could not be kept: run headgate doctor"
            )
        became = {
            f"{_number(self.resumed, 'call')} went on with another": self.resumed,
            f"{_number(self.straight, 'call')} went straight to the service and unguarded": self.straight,
            f"{_number(self.broken, 'answer')} could not be brought to an end": self.broken,
        }
        if any(became.values()):
            lines.append(
                f"{_number(self.failures, 'gateway')} failed: {', '.join(what for what, count in became.items() if count)}"
            )
        elif self.failures:
            lines.append(
                f"{_number(self.failures, 'gateway')} failed and was replaced: no call was touched"
            )
        if self.failures:
            lines += [f"  it wrote: {line}" for line in self.last_log.splitlines()[-5:]]
        return lines

    def _describe_loops(self) -> str:
        """How many answers looped, and what became of them: one may be cut several times."""
        recovered, lost = self.recovered, self.looped - self.recovered
        ways = {f"{recovered} recovered": recovered, f"{lost} kept looping": lost}
        told = "".join(f", {way}" for way, count in ways.items() if count > 0)
        return f"{_number(self.loops, 'loop')} cut from {_number(self.looped, 'answer')}{told}"

    def _describe_unanswered(self) -> str:
        told = ", ".join(f"{why} ×{count}" for why, count in sorted(self.unanswered.items()))
        return f"{sum(self.unanswered.values())} without an answer ({told})"

    def _say_nothing_came(self) -> str:
        nothing = "no model call came through that could be guarded"
        if self.passed:
            return (
                f"{nothing}; {_number(self.passed, 'other request')} passed: {_name(self.others)}"
            )
        why = "the agent made none, or called a service that wrap does not redirect"
        return f"{nothing}: {why}; see docs/agents.md#wrap"


def summarize(
    routes: Mapping[str, int],
    metrics: Iterable[str],
    failures: int,
    last_log: str = "",
    *,
    services: Counter[str] | None = None,
    others: Counter[str] | None = None,
    endings: Counter[str] | None = None,
    lost_store: str = "",
) -> Summary:
    """The numbers of a session; `metrics` are those of every gateway, in the format of Prometheus.

    `services` counts model calls by host, `others` the other requests by what they are, and `endings` the model calls
    without an answer by the reason.
    """
    sums: defaultdict[str, float] = defaultdict(float)
    by_outcome: Counter[str] = Counter()
    for text in metrics:
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.name in COUNTED:
                    sums[COUNTED[sample.name]] += sample.value
                elif sample.name == FOLDED and sample.labels.get("group") == "on":
                    sums["folded"] += sample.value
                elif sample.name == RUNGS:
                    sums["ended" if sample.labels.get("rung") == "end" else "notes"] += sample.value
                elif sample.name == CALLS and int(sample.labels["status"]) < FIRST_ERROR:
                    by_outcome[sample.labels["guard"]] += int(sample.value)
    resumed, ended = routes.get("resumed", 0), int(sums["ended"])
    return Summary(
        calls=sum(count for route, count in routes.items() if route != "passed") - ended,
        guarded=routes.get("guarded", 0) + resumed - ended,
        straight=routes.get("straight", 0),
        resumed=resumed,
        broken=routes.get("broken", 0),
        passed=routes.get("passed", 0),
        loops=int(sums["loops"]),
        recovered=by_outcome["recovered"],
        notes=int(sums["notes"]),
        ended=ended,
        injected=int(sums["injected"]),
        saved=int(sums["saved"]),
        folded=int(sums["folded"]),
        compactions=int(sums["compactions"]),
        put_back=int(sums["put_back"]),
        failures=failures,
        last_log=last_log,
        services=_most_frequent(services),
        others=_most_frequent(others),
        cost=sums["cost"],
        lost=int(sums["lost"]),
        unanswered=endings or {},
        given_up=routes.get("given up", 0) + by_outcome["abandoned"],
        clean=by_outcome["clean"],
        broken_off=by_outcome["broken"],
        looped=sum(by_outcome[outcome] for outcome in ("recovered", "passed", "failed")),
        lost_traces=int(sums["lost_traces"]),
        lost_store=lost_store,
    )


def _most_frequent(counts: Counter[str] | None) -> tuple[str, ...]:
    return tuple(name for name, _ in (counts or Counter()).most_common())


def _name(names: Sequence[str]) -> str:
    """The first of the names, and how many more there are."""
    rest = len(names) - MOST_NAMED
    return ", ".join(names[:MOST_NAMED]) + (f" and {rest} more" if rest > 0 else "")


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
