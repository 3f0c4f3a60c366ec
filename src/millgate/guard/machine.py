"""StreamMachine: the state machine behind a guarded stream, without any I/O.

Pieces of the model's stream go in, pieces for the client come out. On a stall the caller severs the
upstream, asks for the next Call and feeds its stream into the same machine:

    IDLE -start-> GENERATING -end-> DONE
    GENERATING -stall-> RECOVERING -resume-> GENERATING ... -give up-> FAILED

The history of each further call is what the client received; a loop that is cut at its onset (a tiny unit, or a
divergence token is set) is not in it, though the client may have its first characters.
Tool calls and structured output are never spliced. They go out as they come.
If one loops before any of it was sent, the machine asks for it again. If a part was sent, the stream ends
with PartialCallError; the caller that asks again passes `earlier_loops`, and the call is then held until it is
complete. A call that loops for the second time passes: the model means it.
Not every repetition is a loop (honest.py). One that is let pass is noted in the report. With the detector "entropy" the
text goes through the published machine instead: every stall is a loop, and the next call brings the published token and
no changed sampling. `left_out` has cut answers that the client left out of its messages and may quote there, each by
the number of messages before it.
"""

import time
from collections.abc import Callable, Mapping
from types import MappingProxyType

from millgate.errors import LoopError, PartialCallError
from millgate.guard.channels import CONTENT, EVENT, REASONING, TOOL, Channel, Piece, as_piece
from millgate.guard.detectors import TINY, CountingDetector, Detector, Stall
from millgate.guard.entropy import choose_detector
from millgate.guard.honest import HonestRepetition, put_in
from millgate.guard.policy import GuardPolicy, Resume
from millgate.guard.report import TRANSITIONS, Cut, GuardReport, State
from millgate.guard.resume import CLOSING, Call, Message, SentText, SteeringFilter, next_call
from millgate.published.stream_failsafe import DIVERGENCE_TOKEN
from millgate.text.tokens import estimate_tokens

PUBLISHED_DIVERGENCE = DIVERGENCE_TOKEN
CUT_CHARS = 4000  # characters of a cut text that the report keeps: about two screens, which bounds its memory
# A tool call that loops this often for one request is what the model wants to say: it was asked again, and wrote the
# same once more.
BELIEVED_LOOPS = 2
MAX_WARNINGS = 20  # that a report keeps: as many as a page shows


class StreamMachine:
    """One guarded stream: feed pieces, send what comes back, resume when `stalled`."""

    def __init__(
        self,
        messages: tuple[Message, ...],
        *,
        policy: GuardPolicy | None = None,
        detector: Callable[[], Detector] | None = None,
        divergence: str | None = None,
        structured: bool = False,
        earlier_loops: int = 0,
        left_out: Mapping[int, str] = MappingProxyType({}),
        max_tokens: int = 0,
        how: Resume = "auto",
        words_only: bool = False,
        count: Callable[[str], int] = estimate_tokens,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.messages = messages
        self.policy = policy = policy or GuardPolicy()
        self._is_published = detector is None and policy.detector == "entropy"
        token = policy.divergence_token or (DIVERGENCE_TOKEN if self._is_published else None)
        self.divergence = divergence or token
        self.max_tokens = max_tokens
        self.words_only = words_only or self._is_published or not policy.sampling
        """Whether the target takes no sampling, so that words alone must do."""
        self.severed_tokens = 0
        """About how many tokens the call that was severed last had generated."""
        self.report = GuardReport()
        self.stalled = False
        """Whether the upstream must be severed: ask `resume` for the next call."""
        self.holding = False
        """Whether text waits for a suspicion to pass."""
        self._how: Resume = how if policy.resume == "auto" else policy.resume
        self._detector = detector or choose_detector(policy)
        self._count, self._clock = count, clock
        self._structured = structured
        self._call_loops = earlier_loops  # of tool calls and structured output, for this request
        self._holds_whole = False
        self._watching = policy.enabled
        self._content = self._new_channel(CONTENT)
        if policy.tool_calls == "whole" or earlier_loops:
            self.hold_calls_whole()
        self._reasoning = self._new_channel(REASONING)
        self._current = self._looped = self._content
        self._counting = CountingDetector() if policy.counting != "off" else None
        self._steering = SteeringFilter()
        self._sent = SentText()
        conversation = put_in(messages, left_out)
        self._honest = HonestRepetition(conversation, self._sent, policy.hopeless_chars)
        self._generated = 0  # characters of the current call
        self._calls_done = 0  # tool calls delivered whole
        self._new_turn = False  # whether the next content begins a new turn
        self._since = 0.0  # when holding began

    def _new_channel(self, name: str, *, whole: bool = False, call: int = 0) -> Channel:
        return Channel(
            name,
            self._detector(),
            # What is not spliced is cut late if at all: nothing would be won by holding it back.
            hold_back=self.policy.hold_back and self._can_splice(name),
            whole=whole,
            max_hold=self.policy.max_hold_chars,
            call=call,
        )

    @property
    def text(self) -> str:
        """The content that the client has."""
        return str(self._sent)

    @property
    def generated_tokens(self) -> int:
        """About how many tokens the current call has generated, at the tokens a character of what is at hand of it."""
        channels = (self._content, self._reasoning, self._current)
        sample = max((channel.tail + channel.waiting for channel in channels), key=len)
        return round(self._generated * self._count(sample) / len(sample)) if sample else 0

    @property
    def done(self) -> bool:
        """Whether the answer is complete."""
        return self.report.state is State.DONE

    @property
    def last_attempt(self) -> bool:
        """Whether another stall would end the stream."""
        return self.report.rollbacks >= self.policy.max_rollbacks

    @property
    def closing_words(self) -> str:
        """What ends an answer that kept looping, set apart from the text that the client has."""
        return CLOSING if self._sent.last in ("", "\n") else f"\n\n{CLOSING}"

    def _transition(self, event: str) -> None:
        self.report.state = TRANSITIONS[self.report.state, event]
        self.stalled = event == "stall"

    # The life of a stream

    def start(self) -> Call:
        """The first call."""
        self._transition("start")
        self.report.calls = 1
        return Call(self.messages)

    def hold_calls_whole(self) -> None:
        """From the start: hold each tool call, and structured output, until it is complete."""
        self._holds_whole = True
        self._content.whole = self._structured

    def feed(self, piece: str) -> list[Piece]:
        """A piece of the model's stream in; what the client may have out."""
        if not isinstance(piece, Piece):
            piece = as_piece(piece)
        name = piece.channel
        if not self._watching or (name == REASONING and not self.policy.reasoning):
            self._generated += len(piece)
            return self._book([piece])
        channel = self._current
        if name == EVENT:
            return self._pass_event(piece)
        self._generated += len(piece)
        before: list[Piece] = []
        if name != channel.name or piece.call != channel.call:
            before = self._switch_channel(piece)
            channel = self._current
        if name == CONTENT and self.report.rollbacks:
            piece = self._join(piece)
        elided = channel.elided
        stall = channel.feed(piece)
        if stall is None and name == CONTENT and self._counting:
            found = self._counting.feed(piece)
            stall = self._judge_counting(found) if found else None
        self.report.cut_chars += channel.elided - elided
        out = self._judge(channel, stall) if stall else channel.ready()
        return self._book(before + out)

    def tick(self) -> list[Piece]:
        """What must go out because it was held for too long."""
        if not self.holding or self._clock() - self._since <= self.policy.max_hold_s:
            return []
        return self._book(self._current.waive())

    def stop_watching(self, why: str) -> list[Piece]:
        """Let the rest of the stream pass as it comes, and say why; what waits goes out now."""
        self.report.passed_on = why
        self._watching = False
        return self._book([*self._current.release(), Piece(CONTENT, self._steering.end())])

    def forget(self, why: str) -> None:
        """Watch no more, and forget what waits: after a bug the caller itself lets that out, as it came."""
        self.report.passed_on = why
        self.report.state = State.GENERATING
        self.stalled = self.holding = self._watching = False
        self._steering = SteeringFilter()
        self._current = self._content = self._new_channel(CONTENT)

    def end(self) -> list[Piece]:
        """The model ended its answer: what still waits goes out."""
        out = self._release()
        self._transition("end")
        return self._book(out)

    def fail(self) -> list[Piece]:
        """The upstream broke: what waits goes out, unless it must be delivered whole."""
        self._transition("error")
        return [] if self._current.whole else self._book(self._current.release())

    def leave(self) -> None:
        """The client went away."""
        if (self.report.state, "leave") in TRANSITIONS:
            self._transition("leave")

    def resume(self) -> Call:
        """The next call after a stall; LoopError when the budget of rollbacks or tokens is spent."""
        cut = self.report.cuts[-1]
        why = self._why_exhausted()
        channel = self._current
        # No closing words can follow JSON. So structured output that cannot be had is like one that is out in part.
        is_broken_json = bool(why) and self._structured and channel is self._content
        if (channel.begun and not self._can_splice(channel.name)) or is_broken_json:
            self._transition("give up")
            raise PartialCallError(
                f"a tool call or structured answer looped after a part of it was sent: {cut.reason}",
                text=self.text,
                hint='ask again; tool_calls="whole" holds each until it is complete',
            )
        if why:
            self._transition("give up")
            raise LoopError(
                f"the model kept looping: {why}; last: {cut.reason}",
                text=self.text,
                hint="raise max_rollbacks, change the prompt, or use another model",
            )
        self.report.rollbacks += 1
        self.report.calls += 1
        self._content.rewind()
        self._reasoning.rewind()
        self._looped, self._current = channel, self._content
        self._generated = 0
        self._transition("resume")
        return self._next_call()

    def reword(self) -> Call:
        """The call of this attempt by words alone, for a target that refused changed sampling."""
        self.words_only = True
        return self._next_call()

    # Inside

    def _pass_event(self, piece: Piece) -> list[Piece]:
        """An event waits its turn behind the text that waits."""
        if not self._current.queue:
            return [piece]
        self._current.queue.append(piece)
        return []

    def _judge_counting(self, found: Stall) -> Stall | None:
        """A loop that counts is warned of, and a stall only if such loops are to be cut."""
        if self.policy.counting == "cut":
            return Stall(found.position, self._content.sent, 0, found.reason, found.unit)
        self._warn(found.reason)
        return None

    def _release(self) -> list[Piece]:
        """What waits on the current channel, which is complete, and what looked like steering text."""
        rest = self._steering.end()
        if rest:
            self._current.feed(Piece(CONTENT, rest))
        return self._current.release()

    def _switch_channel(self, piece: Piece) -> list[Piece]:
        """Turn to the piece's channel; leaving one completes it, so what waits there goes out."""
        out = self._release()
        if self._current.name == TOOL:
            self._calls_done += 1
        if piece.channel == TOOL:
            self._current = self._new_channel(TOOL, whole=self._holds_whole, call=piece.call)
        else:
            self._current = self._content if piece.channel == CONTENT else self._reasoning
        return out

    def _join(self, piece: Piece) -> Piece:
        """The piece without steering text, and with a space if a new turn follows a broken line."""
        text = self._steering.feed(piece.text)
        if self._new_turn and text:
            self._new_turn = False
            before = self._sent.last
            if before and not before.isspace() and not text[0].isspace():
                text = f" {text}"
        return piece if text == piece else Piece(CONTENT, text)

    def _warn(self, what: str) -> None:
        if len(self.report.warnings) < MAX_WARNINGS:
            self.report.warnings.append(what)

    def _judge(self, channel: Channel, found: Stall) -> list[Piece]:
        """What the client gets of a channel that has stalled: the part before the loop, or all if it is believed."""
        report, stall, is_spliced = self.report, found, self._can_splice(channel.name)
        while not (self._is_published and is_spliced):
            why, most = self._honest.excuse(channel, stall, is_spliced=is_spliced)
            if not why:
                break
            passed = f"{stall.reason}, let pass: {why}"
            self._warn(passed)
            if report.rollbacks:
                report.passed_on = passed
            further = channel.let_pass(stall, most)
            if further is None:
                return channel.ready()
            stall = further
        if not is_spliced:
            self._call_loops += 1
            no_tries_left = self.last_attempt and not channel.begun
            if self._call_loops >= BELIEVED_LOOPS or no_tries_left:
                report.passed_on = f"it loops each time: {stall.reason}"
                return channel.stop_watching()
        return self._cut(channel, stall, is_spliced=is_spliced)

    def _can_splice(self, name: str) -> bool:
        """Whether an answer can go on behind a cut of this channel: text can, a tool call or JSON cannot."""
        return name != TOOL and not (self._structured and name == CONTENT)

    def _cut(self, channel: Channel, stall: Stall, *, is_spliced: bool) -> list[Piece]:
        """End the channel at the stall: what the client still gets of it; the rest is gone."""
        self._transition("stall")
        report, kept = self.report, list[Piece]()
        report.passed_on = ""
        if is_spliced and self._cuts_at_onset(stall.period):
            kept = channel.send(min(max(0, stall.onset - channel.sent), channel.held))
        elif is_spliced:
            kept = channel.send(channel.first_copy_chars(stall, self.policy.boundary_chars))
        waiting = channel.waiting
        report.wasted_tokens += self._count(waiting)
        self.severed_tokens = self.generated_tokens
        report.unused_tokens += max(0, self.max_tokens - self.severed_tokens)
        channel.queue, channel.held = [], 0
        channel.relapse.learn(stall.unit)
        report.cut_chars += len(waiting)
        report.cuts.append(
            Cut(
                channel.name,
                stall.position,
                stall.onset,
                stall.period,
                stall.reason,
                stall.unit[:200],
                len(waiting),
                channel.sent,
                waiting[:CUT_CHARS],
            )
        )
        if channel.name == TOOL and self._calls_done and not channel.begun:
            report.ended = "tool_calls"
            self._transition("finish")
        return kept

    def _why_exhausted(self) -> str:
        """Why no further call may be made; empty if one may."""
        policy, report = self.policy, self.report
        if self.last_attempt:
            return f"{report.rollbacks} rollbacks did not help"
        if report.wasted_tokens > policy.max_wasted_tokens:
            return f"{report.wasted_tokens} tokens were cut, more than max_wasted_tokens"
        if self._content.sent > policy.max_history_chars:
            return f"the answer is longer than max_history_chars {policy.max_history_chars}"
        return ""

    def _cuts_at_onset(self, period: int) -> bool:
        """Whether a loop is cut at its onset; else its first copy, once said, is part of the answer."""
        return self.divergence is not None or 0 < period < TINY

    def _next_call(self) -> Call:
        cut = self.report.cuts[-1]
        onset = cut.onset if cut.channel == CONTENT else None
        if onset is not None and self._cuts_at_onset(cut.period):
            self._sent.omit_from(onset)
        text = self._sent.shown()
        if onset is not None:
            onset = len(self._sent.shown(onset))
        thrown_away = not self._can_splice(self._looped.name)
        how: Resume = "restart" if thrown_away and not text else self._how
        if how == "restart" and text:  # the client has a part of the answer: go on from there
            how = "auto"
        call = next_call(
            self.messages,
            text,
            attempt=self.report.rollbacks,
            onset=onset,
            whole=thrown_away,
            reasoning=cut.channel == REASONING,
            divergence=self.divergence,
            how=how,
            sampling=() if self.words_only else self.policy.sampling,
        )
        self.report.resent_tokens += sum(self._count(str(m.get("content"))) for m in call.messages)
        self._steering = SteeringFilter(call.steering)
        self._new_turn = call.messages[-1].get("role") != "assistant"
        return call

    def _book(self, out: list[Piece]) -> list[Piece]:
        """Count what goes out, keep its text for later calls, and note since when something waits."""
        report, channel = self.report, self._current
        is_kept = self._content.sent <= self.policy.max_history_chars
        for piece in out:
            report.sent_chars += len(piece)
            if is_kept and piece and piece.channel == CONTENT:
                self._sent.parts.append(str(piece))
        if channel.held or self.holding:
            report.held_chars = max(report.held_chars, channel.held)
            holding = channel.held > 0 and not channel.whole
            if holding and not self.holding:
                self._since = self._clock()
            self.holding = holding
        return out if all(out) else [p for p in out if p or p.raw is not None]
