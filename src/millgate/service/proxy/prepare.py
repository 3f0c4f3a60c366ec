"""Prepare: all that changes a request on its way to the model, in one pure step.

    prepared = prepare(request, known, policies)

`known` is what the proxy has asked for before: the last request of the conversation, and the blocks that stand in front
of a person's words. Nothing here waits, reads a clock or remembers. The law of prefixes has this one place to hold in:
what becomes of message i depends on the messages up to i, and on what is known of them.

Each step that fails costs only what it adds: the request goes on without it, and the bug is logged.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from millgate.calls.bugs import surviving
from millgate.circles.policy import CirclesPolicy
from millgate.circles.reader import is_plain
from millgate.circles.steps import CircleSteps, annotate
from millgate.guard.dialects.dialect import Dialect
from millgate.guard.dialects.messages import MessagesDialect
from millgate.service.observe.model_call import FoldedCall, FoldGroup
from millgate.service.proxy.inject import Blocks
from millgate.service.proxy.request import ProxyRequest
from millgate.sessions.conversation import Conversation, Followers
from millgate.sessions.folding.folder import clears_of
from millgate.sessions.prompt_cache.judgment import NEVER_MARKED
from millgate.sessions.prompt_cache.repair import repair
from millgate.sessions.prompt_cache.segments import Prompt
from millgate.sessions.witness import Observation, observe
from millgate.text.table import count_of
from millgate.transcript.digests import digests
from millgate.transcript.parts import is_from_model, is_from_person, read


@dataclass(frozen=True, slots=True)
class Policies:
    """What is done with a request."""

    circles: CirclesPolicy = field(default_factory=CirclesPolicy)
    fold: FoldGroup | None = None
    """on; measure or holdout: the request stays as it is; None: nobody asks."""
    fold_start: int = 0
    """The first message that may be folded."""
    repair: Collection[str] = ()


@dataclass(frozen=True, slots=True)
class Known:
    """What is known beside a request."""

    dialect: Dialect
    prompt: Prompt | None = None
    """The request as the client sent it, cut into segments; None if it is too large to be compared."""
    betas: str = ""
    last: Conversation | None = None
    is_compacted: bool = False
    """Whether the client compacted the window since then."""
    followers: Followers = field(default_factory=Followers)
    """What has read the conversation so far."""
    blocks: Sequence[Blocks] = ()


@dataclass(slots=True)
class Prepared:
    """A request as it is sent, and what was done with it."""

    request: ProxyRequest
    circles: CircleSteps = field(default_factory=CircleSteps)
    """The steps that the newest messages reached, and the circle for which the turn ends."""
    fold: FoldedCall | None = None
    unrepaired: ProxyRequest | None = None
    """The request before the repair of its cache; None if nothing was repaired."""
    repaired: str = ""
    unknown_parts: int = 0
    """Parts of the new messages in a shape that nobody here knows."""
    observation: Observation | None = None
    followers: Followers | None = None
    """What has read the conversation up to here."""
    headers: dict[str, str] = field(default_factory=dict)
    """What the reply says about it."""


def prepare(request: ProxyRequest, known: Known, policies: Policies) -> Prepared:
    """The request as the model gets it: with its blocks and notes, folded and repaired; compared with the last one."""
    original, done = request, Prepared(request)
    followers = known.followers.go_on(digests(request.messages), known.blocks)
    new = request.messages[find_unseen(request.messages) :]
    done.unknown_parts = sum(part.kind == "unknown" for one in new for part in read(one))
    _put_in_blocks(done, known)
    with surviving("the search for circles of tool calls"):
        _note_circles(done, known, policies.circles, followers)
    if done.circles.ended is None:
        with surviving("folding a request"):
            _fold(done, known, policies, followers)
        with surviving("the repair of a prompt cache"):
            _repair(done, known, policies.repair)
        with surviving("the cache witness"):
            _compare(done, known, is_changed=done.request is not original)
        done.followers = followers
    return done


def _put_in_blocks(done: Prepared, known: Known) -> None:
    """Blocks in front of a person's words. A request that may hold any is always written anew: the same messages are
    the same bytes, whether or not this one brings a block.
    """
    messages = list(done.request.messages)
    for blocks in known.blocks:
        for at, block in blocks.items():
            messages[at] = known.dialect.add_block(messages[at], block)
    if known.blocks:
        done.request = done.request.with_messages(messages, known.dialect) if messages else done.request.with_fields({})  # fmt: skip


def _note_circles(
    done: Prepared, known: Known, policy: CirclesPolicy, followers: Followers
) -> None:
    """Notes in the results of calls that were made again and again.

    They stand in every request of a conversation, at the same places. Only those behind the last words of the model
    are counted and traced.
    """
    messages = done.request.messages
    if not policy.active or is_plain(messages):
        return
    follower = followers.circle_follower(policy)
    for at in range(follower.read, len(messages)):
        follower.feed(at, messages[at])
    found = follower.found
    noted = annotate(messages, found.marks)
    if any(a is not b for a, b in zip(noted, messages, strict=True)):
        done.request = done.request.with_messages(noted, known.dialect)
    first_new = find_new(messages)
    done.circles = CircleSteps(
        tuple(mark for mark in found.marks if mark.at >= first_new), found.ended
    )
    if done.circles.marks or done.circles.ended:
        rungs = (f"{mark.step} {mark.circle.copies}" for mark in done.circles.marks)
        done.headers["x-millgate-circles"] = ", ".join(rungs) or "end"


def find_new(messages: Sequence[object]) -> int:
    """Where the results begin that the model has not seen: behind its last words and a person's."""
    for at in range(len(messages) - 1, -1, -1):
        if is_from_model(messages[at]):
            return at + 1
        if is_from_person(messages[at], messages[at - 1] if at else None):
            return at + 1
    return 0


def find_unseen(messages: Sequence[object]) -> int:
    """Where the messages begin that the model has not seen: behind its own last words."""
    return next((at + 1 for at in range(len(messages) - 1, -1, -1) if is_from_model(messages[at])), 0)  # fmt: skip


def _fold(done: Prepared, known: Known, policies: Policies, followers: Followers) -> None:
    """Pointers in the place of what stands in the window already."""
    request, group = done.request, policies.fold
    if group is None or is_plain(request.messages):
        return
    messages = request.messages
    folder = followers.folder(clears_of(request.fields), policies.fold_start)
    folder.extend(messages)
    sent, report = folder.apply(messages), folder.report
    unseen = find_unseen(messages)
    texts = tuple(fold.text_in(messages) for fold in report.folds if fold.at >= unseen)
    done.fold = FoldedCall(group, report, unseen, texts)
    if group == "on" and any(a is not b for a, b in zip(sent, messages, strict=True)):
        done.request = request.with_messages(sent, known.dialect)
    said = f"{count_of(len(report.folds), 'run')}, {report.saved_tokens} tokens, {done.fold.new_tokens} of them new"
    said = said if group == "on" else f"{group}: {said}"
    stopped = f"; stopped: {report.stopped_by}" if report.stopped_at is not None else ""
    done.headers["x-millgate-fold"] = said + stopped


def _repair(done: Prepared, known: Known, kinds: Collection[str]) -> None:
    """What broke the cache without a word to the model, put back as it was in the last request."""
    if known.last is None or known.prompt is None or not kinds:
        return
    takes_marks = isinstance(known.dialect, MessagesDialect)
    found = repair(done.request.fields, known.last.sent, kinds, takes_marks=takes_marks)
    if found is not None:
        done.unrepaired, done.repaired = done.request, "; ".join(found.done)
        done.request = done.request.with_fields(found.fields)
        done.headers["x-millgate-repaired"] = done.repaired


def _compare(done: Prepared, known: Known, *, is_changed: bool) -> None:
    """Where the request stops to extend the last one."""
    if known.prompt is None:
        return
    found = observe(
        known.prompt,
        known.last,
        done.request.fields,
        betas=known.betas,
        is_changed=is_changed,
        is_compacted=known.is_compacted,
    )
    done.observation = found
    if found.difference is not None:
        done.headers["x-millgate-cache"] = f"broken: {found.difference.describe()}"
    elif isinstance(known.dialect, MessagesDialect) and found.is_unmarked:
        done.headers["x-millgate-cache"] = NEVER_MARKED
    elif found.last is not None:
        done.headers["x-millgate-cache"] = "extends the last request"
