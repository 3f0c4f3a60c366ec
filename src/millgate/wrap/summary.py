"""Summary: what wrapping did for a session, from the gateways' metrics and the supervisor's own counts.

If no call was guarded, the agent may have made none, or have called a service that wrap does not redirect. Which of
both it was cannot be told from here, so the line says what else came.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import InitVar, dataclass, field
from urllib.parse import unquote

from millgate.service.wire import FIRST_ERROR
from millgate.text.table import count_of, money_of
from millgate.wrap.spec import LOST_STORE

COUNTED = {
    "millgate_guard_stalls_total": "loops",
    "millgate_guard_rollbacks_total": "asked again",
    "millgate_tokens_injected_total": "injected",
    "millgate_tokens_saved_total": "saved",
    "millgate_compactions_total": "compactions",
    "millgate_put_back_tokens_total": "put back",
    "millgate_cache_lost_tokens_total": "lost",
    "millgate_traces_lost_total": "lost traces",
    "millgate_writes_lost_total": "lost traces",
    "millgate_fuse_uncounted_total": "uncounted",
}
COST = "millgate_model_cost_total"
UNPRICED = "millgate_fuse_unpriced_total"
FOLDED = "millgate_fold_tokens_total"
CALLS = "millgate_model_calls_total"
RUNGS = "millgate_circles_total"
MOST_NAMED = 3  # services, or kinds of other requests, that the line names


@dataclass
class Summary:
    """One session in numbers, counted while it goes on.

    `metrics` are those of every gateway, in the format of Prometheus; `failures` are gateways that died or fell silent,
    `last_log` is what the last of them had written. Model calls are counted in `routes` by how they were answered
    (turn.py; other requests as `passed`), in `services` by host, and in `endings`, without an answer, by why. `others`
    counts the other requests by what they were, and `lost_store` is the store that could not be used, and why.
    """

    routes: Counter[str] = field(default_factory=Counter)
    metrics: InitVar[Iterable[str]] = ()
    failures: int = 0
    last_log: str = ""
    services: Counter[str] = field(default_factory=Counter)
    others: Counter[str] = field(default_factory=Counter)
    endings: Counter[str] = field(default_factory=Counter)
    lost_store: str = ""
    cost: float = 0.0
    sums: Counter[str] = field(default_factory=Counter)
    unpriced: Counter[tuple[str, str]] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)

    def __post_init__(self, metrics: Iterable[str]) -> None:
        for text in metrics:
            self.add(text)

    def add(self, metrics: str) -> None:
        """Add the numbers of a gateway that is gone."""
        from prometheus_client.parser import (  # noqa: PLC0415  (the agent starts sooner)
            text_string_to_metric_families,
        )

        lost = [line for line in metrics.splitlines() if line.startswith(LOST_STORE)]
        self.lost_store = self.lost_store or unquote("".join(lost).removeprefix(LOST_STORE))
        families = text_string_to_metric_families(metrics)
        for sample in (sample for family in families for sample in family.samples):
            if sample.name in COUNTED:
                self.sums[COUNTED[sample.name]] += int(sample.value)
            elif sample.name == COST:
                self.cost += sample.value
            elif sample.name == UNPRICED:
                pair = sample.labels["model"], sample.labels["priced_as"]
                self.unpriced[pair] += int(sample.value)
            elif sample.name == FOLDED and sample.labels.get("group") == "on":
                self.sums["folded"] += int(sample.value)
            elif sample.name == RUNGS:
                rung = "ended" if sample.labels.get("rung") == "end" else "notes"
                self.sums[rung] += int(sample.value)
            elif sample.name == CALLS and int(sample.labels["status"]) < FIRST_ERROR:
                self.outcomes[sample.labels["guard"]] += int(sample.value)

    @property
    def calls(self) -> int:
        """All model calls, those of the guard included; a turn that we end makes none."""
        made = self.routes.total() - self.routes["passed"] - self.sums["ended"]
        return made + self.sums["asked again"]

    def lines(self) -> list[str]:
        """What to tell the user."""
        if not self.calls and not self.sums["ended"]:
            return [self._say_nothing_came()]
        lines = ["; ".join(self._describe_calls())]
        if self.lost_store:
            lines.append(
                f"no trace was kept and no context added, for want of the store {self.lost_store}"
            )
        if uncounted := self.sums["uncounted"]:
            lines.append(
                f"{count_of(uncounted, 'call')} could not be counted under a cap: run millgate doctor"
            )
        for (model, as_model), calls in self.unpriced.items():
            lines.append(f"{model} has no price: {count_of(calls, 'call')} counted as {as_model} under the cap")  # fmt: skip
        if lost := self.sums["lost traces"]:
            lines.append(f"{count_of(lost, 'trace')} could not be kept: run millgate doctor")
        return [*lines, *self._describe_failures()]

    def _describe_calls(self) -> Iterator[str]:
        """What became of the calls, and what was done to them."""
        sums, routes, outcomes = self.sums, self.routes, self.outcomes
        places = f" to {_name(self.services)}" if self.services else ""
        guarded = routes["guarded"] - sums["ended"] + sums["asked again"]
        left = routes["given up"] + outcomes["abandoned"]
        no_loop = outcomes["clean"] and not (sums["loops"] or sums["notes"] or sums["ended"])
        said = {
            f"{count_of(self.calls, 'model call')}{places}": True,
            f"{guarded} guarded": guarded,
            self._describe_unanswered(): self.endings,
            f"{left} given up by the agent": left,
            f"{outcomes['broken']} broken off by the service": outcomes["broken"],
            self._describe_loops(): sums["loops"],
            "no loop": no_loop,
            f"{count_of(sums['notes'], 'note')} on repeated tool calls": sums["notes"],
            f"{count_of(sums['ended'], 'turn')} ended for going in circles": sums["ended"],
            f"{count_of(sums['injected'], 'token')} of context injected": sums["injected"],
            f"{count_of(sums['compactions'], 'compaction')}, {count_of(sums['put back'], 'token')} put back": sums[
                "compactions"
            ],
            f"{count_of(sums['folded'], 'token')} folded": sums["folded"],
            f"{count_of(sums['saved'], 'token')} left out that the window shows": sums["saved"],
            f"cost about {money_of(self.cost)}": self.cost,
            f"{count_of(sums['lost'], 'token')} paid again because the prompt cache broke": sums[
                "lost"
            ],
        }
        return (what for what, happened in said.items() if happened)

    def _describe_failures(self) -> list[str]:
        """What gateways that failed meant for the calls."""
        straight, broken = self.routes["straight"], self.routes["broken"]
        refused = self.routes["refused"]
        became = {
            f"{count_of(straight, 'call')} went straight to the service and unguarded": straight,
            f"{count_of(broken, 'answer')} could not be brought to an end": broken,
            f"{count_of(refused, 'call')} refused that could not be counted under a cap": refused,
        }
        late = "the gateway did not answer in time"
        failed = f"{count_of(self.failures, 'gateway')} failed" if self.failures else late
        told = ", ".join(what for what, count in became.items() if count)
        if not told and not self.failures:
            return []
        said = f"{failed}: {told}" if told else f"{failed} and was replaced: no call was touched"
        log = self.last_log.splitlines()[-5:] if self.failures else []
        return [said, *(f"  it wrote: {line}" for line in log)]

    def _describe_loops(self) -> str:
        """How many answers looped, and what became of them: one may be cut several times."""
        recovered, lost = (
            self.outcomes["recovered"],
            self.outcomes["passed"] + self.outcomes["failed"],
        )
        ways = {f"{recovered} recovered": recovered, f"{lost} kept looping": lost}
        told = "".join(f", {way}" for way, count in ways.items() if count)
        return f"{count_of(self.sums['loops'], 'loop')} cut from {count_of(recovered + lost, 'answer')}{told}"

    def _describe_unanswered(self) -> str:
        told = ", ".join(f"{why} ×{count}" for why, count in sorted(self.endings.items()))
        return f"{sum(self.endings.values())} without an answer ({told})"

    def _say_nothing_came(self) -> str:
        nothing = "no model call came through that could be guarded"
        if passed := self.routes["passed"]:
            return f"{nothing}; {count_of(passed, 'other request')} passed: {_name(self.others)}"
        why = "the agent made none, or called a service that wrap does not redirect"
        return f"{nothing}: {why}; see docs/agents.md#wrap"


def _name(counts: Mapping[str, int]) -> str:
    """The most frequent, and how many more there are."""
    rest = len(counts) - MOST_NAMED
    named = ", ".join(name for name, _ in Counter(counts).most_common(MOST_NAMED))
    return f"{named} and {rest} more" if rest > 0 else named
