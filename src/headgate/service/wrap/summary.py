"""Summary: what wrapping did for a session, from the gateways' metrics and the supervisor's own counts."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families

COUNTED = {
    "headgate_guard_stalls_total": "loops",
    "headgate_guard_recovered_total": "recovered",
    "headgate_guard_tokens_saved_total": "guard_saved",
    "headgate_tokens_injected_total": "injected",
    "headgate_tokens_saved_total": "context_saved",
}
RUNGS = "headgate_circles_total"


@dataclass(frozen=True, slots=True)
class Summary:
    """One session in numbers."""

    guarded: int
    """Model calls that the gateway answered."""
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
    circles: int
    injected: int
    saved: int
    failures: int
    """Gateways that died or fell silent."""
    last_log: str = ""
    """What the last of them had written."""

    def lines(self) -> list[str]:
        """What to tell the user."""
        calls = self.guarded + self.straight + self.broken
        if not calls:
            others = f"; {_number(self.passed, 'other request')} passed" if self.passed else ""
            return [f"no model call came through that could be guarded{others}"]
        done = [f"{_number(calls, 'model call')}, {self.guarded} guarded"]
        done.append(f"{_number(self.loops, 'loop')} cut, {self.recovered} recovered")
        if self.circles:
            done.append(f"{_number(self.circles, 'note')} on repeated tool calls")
        done.append(f"{_number(self.injected, 'token')} of context injected")
        if self.saved:
            done.append(f"{_number(self.saved, 'token')} saved")
        lines = ["; ".join(done)]
        if self.failures:
            lines.append(
                f"the gateway failed {_number(self.failures, 'time')}: {self.resumed} of these calls went on with "
                f"another, {self.straight} went straight to the upstream, {self.broken} broke off"
            )
            lines += [f"  it wrote: {line}" for line in self.last_log.splitlines()[-5:]]
        return lines


def summarize(
    routes: Mapping[str, int], metrics: Iterable[str], failures: int, last_log: str = ""
) -> Summary:
    """The numbers of a session; `metrics` are those of every gateway, in the format of Prometheus."""
    sums: Counter[str] = Counter()
    for text in metrics:
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.name in COUNTED:
                    sums[COUNTED[sample.name]] += int(sample.value)
                elif sample.name == RUNGS:
                    sums["circles"] += int(sample.value)
    resumed = routes.get("resumed", 0)
    return Summary(
        guarded=routes.get("guarded", 0) + resumed,
        straight=routes.get("straight", 0),
        resumed=resumed,
        broken=routes.get("broken", 0),
        passed=routes.get("passed", 0),
        loops=sums["loops"],
        recovered=sums["recovered"],
        circles=sums["circles"],
        injected=sums["injected"],
        saved=sums["guard_saved"] + sums["context_saved"],
        failures=failures,
        last_log=last_log,
    )


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
