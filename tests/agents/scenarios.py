"""Scenarios: what the model does in a run, and what the agent's work must come to.

The task is always the same: four commands of the shell, of which the last writes `result.txt`. A scenario says how the
model strays from it. It sees how many results of tools the conversation has (`done`), and which try for the same ones
this is (`attempt`), so an agent may ask again as often as it likes.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from tests.agents.ask import Reply
from tests.agents.task import COMMANDS, DONE, SAID, STRAY
from tests.agents.wire import Cut, Do, Piece

INTRO = "Let me look at the list before I go on. It has two words so far, and one is missing. "
UNIT = "Then I will check the list again to be sure that nothing was lost, "
LOOP = INTRO + UNIT * 150  # 2 500 tokens: a short one, as loops go
CIRCLE = 14  # calls of a circle until the model gives up by itself
WRITE_ALL = "printf 'one\\ntwo\\nthree\\n' > result.txt && echo all is written"
FULL = 2_000_000  # tokens: more than any window
NOTE = "[millgate: "  # how a note in a tool's result begins


@dataclass(frozen=True)
class Scenario:
    """A model that does its task."""

    name: str = "healthy"
    loops: bool = False  # the model strays, and Millgate may change what it is asked
    same_requests: int | None = None  # how many must be the same as without us; None: all
    recovers: bool = False  # direct, the task stays undone; with Millgate it must be done
    needs: str = ""  # what an agent must be capable of to come into it
    more_calls: int = 0  # that Millgate may make for a loop that it does not get out of

    def answer(self, agent, ask, done, attempt):
        """The steps of an answer."""
        return ask.say(self.reply(agent, done))

    def reply(self, agent, done):
        """What a healthy model says."""
        at = len(done)
        return agent.act(SAID[at], COMMANDS[at]) if at < len(COMMANDS) else agent.finish(DONE)


@dataclass(frozen=True)
class TextLoop(Scenario):
    """The model repeats a sentence instead of its third step; asked again, it goes on."""

    always: bool = False

    def answer(self, agent, ask, done, attempt):
        if len(done) == STRAY and (self.always or attempt == 0):
            return ask.say(self.loop())
        return super().answer(agent, ask, done, attempt)

    def loop(self):
        return Reply(text=LOOP)


class ThinkingLoop(TextLoop):
    """The same in the model's thinking."""

    def loop(self):
        return Reply(thinking=LOOP, text="I am not sure what to do.")


@dataclass(frozen=True)
class Circle(Scenario):
    """The model makes the same call again and again; a note in the results brings it back to its task."""

    def reply(self, agent, done):
        if any("all is written" in result for result in done):
            return agent.finish(DONE)
        if any(NOTE in result for result in done):
            return agent.act("I try another way.", WRITE_ALL)
        if len(done) >= CIRCLE:
            return agent.finish("I cannot find the list.")
        return agent.act("I look at the list.", "cat lists/list.txt")


@dataclass(frozen=True)
class Fault(Scenario):
    """The service fails once, and then works. Most agents ask again; some give up."""

    status: int = 0  # 0: the connection breaks in the middle of the answer
    headers: tuple[tuple[str, str], ...] = ()

    def answer(self, agent, ask, done, attempt):
        steps = super().answer(agent, ask, done, attempt)
        if len(done) != STRAY or attempt > 0:
            return steps
        if self.status:
            status = ask.overloaded if self.status == OVERLOADED else self.status
            return ask.error(status, "The service has a problem.", **dict(self.headers))
        return cut(steps)


OVERLOADED = 529  # Anthropic's status; the others have their own


def cut(steps):
    """The first half of an answer, and then the connection breaks."""
    begun, rest = halve(steps)
    if not any(isinstance(step, Piece) for step in begun):  # not streamed: half of the bytes
        return [*begun, Piece(rest[0].data[: len(rest[0].data) // 2]), Cut()]
    return [*begun, Cut()]


def halve(steps):
    """An answer in two halves."""
    steps = list(steps)
    pieces = [n for n, step in enumerate(steps) if isinstance(step, Piece)]
    half = pieces[len(pieces) // 2]
    return steps[:half], steps[half:]


@dataclass(frozen=True)
class MidTurn(Scenario):
    """Something happens in the middle of each of the first answers."""

    act: Callable[[], object] = bool
    times: int = 1

    def answer(self, agent, ask, done, attempt):
        steps = super().answer(agent, ask, done, attempt)
        if len(done) >= self.times or attempt > 0:
            return steps
        begun, rest = halve(steps)
        return [*begun, Do(self.act), *rest]


@dataclass(frozen=True)
class Slow(Scenario):
    """The first token of one answer takes its time."""

    wait_s: float = 1.5

    def reply(self, agent, done):
        said = super().reply(agent, done)
        if len(done) != STRAY:
            return said
        return replace(said, wait_s=self.wait_s)


@dataclass(frozen=True)
class Long(Scenario):
    """Many steps with long results, before the task."""

    steps: int = 25

    def reply(self, agent, done):
        at = len(done)
        if at < self.steps:
            return agent.act(f"Part {at}.", f"for n in $(seq 60); do echo part {at} line $n; done")
        return super().reply(agent, done[self.steps :])


@dataclass(frozen=True)
class Reread(Scenario):
    """The model reads a file, adds a line to it and reads it again, before the task."""

    def reply(self, agent, done):
        at = len(done)
        if at < len(REREAD):
            return agent.read("I look at the values.", REREAD[at])
        return super().reply(agent, done[len(REREAD) :])


REREAD = (
    'for n in $(seq 80); do echo "value_$n = load($n)"; done > values.py && cat values.py',
    "echo 'value_81 = load(81)' >> values.py",
    "cat values.py",
)


@dataclass(frozen=True)
class Compaction(Scenario):
    """The service says once that the window is nearly full, and the agent sums its conversation up."""

    def answer(self, agent, ask, done, attempt):
        said = self.reply(agent, done)
        if len(done) == STRAY and attempt == 0:
            said = replace(said, input_tokens=FULL)
        return ask.say(said)


@dataclass(frozen=True)
class Mcp(Scenario):
    """The model asks Millgate's MCP server first, and can do its task only with the answer."""

    def reply(self, agent, done):
        if done and PASSAGE in done[0]:
            return super().reply(agent, done[1:])
        if done:
            return agent.finish("I cannot ask for the words.")
        return agent.ask_mcp("I ask for the words.", "get_context", {"query": "words of the list"})


PASSAGE = "The words of the list are one, two and three."

SCENARIOS = {
    scenario.name: scenario
    for scenario in (
        Scenario(),
        TextLoop("loop in text", loops=True, same_requests=STRAY + 1, recovers=True),
        ThinkingLoop("loop in thinking", loops=True, same_requests=STRAY + 1, recovers=True),
        # three rollbacks, which is what guard.max_rollbacks allows
        TextLoop("always loops", loops=True, same_requests=STRAY + 1, more_calls=3, always=True),
        Circle("circle", needs="tools", loops=True, same_requests=STRAY + 1, recovers=True),
        Fault("429", status=429, headers=(("retry-after", "1"),)),
        Fault("500", status=500),
        Fault("overloaded", status=OVERLOADED),
        Fault("cut in mid-stream", same_requests=STRAY + 1),
        Slow("slow first token"),
        Long("long session", needs="tools"),
        Compaction("compaction", needs="compaction"),
        Mcp("mcp", needs="mcp", same_requests=0),  # which tools are there in time is chance
    )
}
