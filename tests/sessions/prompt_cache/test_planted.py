"""Planted breaks of eleven kinds on three APIs, at many places of drawn sessions: each is named and blamed.

The same in recorded sessions of real agents.

And the other side: no session that only grows is told to have broken its cache, whatever Millgate adds to it.
"""

import copy
import random
from itertools import count
from pathlib import Path

import orjson
import pytest
from bench.fixtures.sessions import APIS, healthy_session, looping_session, render
from tests.sessions.prompt_cache.watching import Watcher

from millgate.guard.dialects.chat import ChatDialect
from millgate.guard.dialects.messages import MessagesDialect
from millgate.guard.dialects.responses import ResponsesDialect
from millgate.guard.resume import next_call
from millgate.service.conversation_state import ConversationState
from millgate.service.proxy.inject import find_blocks
from millgate.service.proxy.prepare import Known, Policies, prepare
from millgate.service.proxy.request import parse_request
from millgate.sessions.prompt_cache.difference import common_messages, compare
from millgate.sessions.prompt_cache.judgment import CacheCounts
from millgate.sessions.prompt_cache.segments import read_prompt
from millgate.types import Context, Plan, Report, Strategy, Tier, Trace
from millgate.types.policy import ProxyPolicy

LISTS = {"chat": "messages", "messages": "messages", "responses": "input", "gemini": "contents"}
RECORDED = sorted((Path(__file__).parents[2] / "agents" / "recordings").glob("*-healthy.json"))
DIALECTS = {"chat": ChatDialect, "messages": MessagesDialect, "responses": ResponsesDialect}
TOOLS = ("Bash", "Read", "Edit", "Grep", "Glob")
# with eleven kinds on three APIs 231 planted breaks, 33 of them in a quick run
SEEDS = pytest.mark.parametrize("seeds", [range(1), pytest.param(range(1, 7), marks=pytest.mark.slow)])  # fmt: skip
SESSIONS = pytest.mark.parametrize("seeds", [range(5), pytest.param(range(5, 40), marks=pytest.mark.slow)])  # fmt: skip
PREFIXES = pytest.mark.parametrize("seeds", [range(2), pytest.param(range(2, 8), marks=pytest.mark.slow)])  # fmt: skip
INSTRUCTIONS = "You are an agent. The time is 14:31."


def request_of(api, messages):
    tools = [{"type": "function", "name": name, "description": f"{name} does it."} for name in TOOLS]  # fmt: skip
    fields = {"model": "m", "tools": tools, LISTS[api]: copy.deepcopy(messages)}
    if api == "chat":
        fields["messages"].insert(0, {"role": "system", "content": INSTRUCTIONS})
    else:
        fields["system" if api == "messages" else "instructions"] = INSTRUCTIONS
    return fields


def requests_of(api, seed):
    """The requests of a session: one for each message of the model."""
    turns = healthy_session(seed)
    return [request_of(api, render(turns[:end], api)) for end in range(1, len(turns))]


def old_message(api, old, rng):
    """The place of a message that the last request had too, and is neither the first nor the last there."""
    first = 1 + (api == "chat")
    return rng.randrange(first, len(old[LISTS[api]]) - 1)


def change_model(api, fields, old, rng):
    fields["model"] = "another"
    return "the model (m to another)"


def change_parameter(api, fields, old, rng):
    fields["tool_choice"] = "any"
    return "tool_choice"


def change_tool(api, fields, old, rng):
    at = rng.randrange(len(TOOLS))
    fields["tools"][at]["description"] = "Another description."
    return f'tools[{at}] "{TOOLS[at]}"'


def add_tool(api, fields, old, rng):
    at = rng.randrange(len(TOOLS) + 1)
    fields["tools"].insert(at, {"type": "function", "name": "New"})
    return f'tools[{at}] "New"'


def remove_tool(api, fields, old, rng):
    at = rng.randrange(len(TOOLS))
    fields["tools"].pop(at)
    return f'tools[{at}] "{TOOLS[at]}"'


def reorder_tools(api, fields, old, rng):
    at, tools = rng.randrange(len(TOOLS) - 1), fields["tools"]
    tools[at], tools[at + 1] = tools[at + 1], tools[at]
    return f'the order of tools changed, from tools[{at}] "{TOOLS[at]}"'


def tell_time(api, fields, old, rng):
    fields |= orjson.loads(orjson.dumps(fields).replace(b"14:31", b"14:32"))
    return "system block 1"


def change_message(api, fields, old, rng):
    at = old_message(api, old, rng)
    fields[LISTS[api]][at] = {"role": "user", "content": "Another text."}
    return f"message {at + 1} "


def insert_message(api, fields, old, rng):
    at = old_message(api, old, rng)
    fields[LISTS[api]].insert(at, {"role": "user", "content": "By the way"})
    return f'message {at + 1} (user: "By the way")'


def remove_message(api, fields, old, rng):
    at = old_message(api, old, rng)
    fields[LISTS[api]].pop(at)
    return f"message {at + 1} ("


def compact(api, fields, old, rng):
    first = [message for message in fields[LISTS[api]][:1] if message["role"] == "system"]
    fields[LISTS[api]] = [*first, {"role": "user", "content": "So far: we read some files."}]
    return "the client compacted the window"


# Each changes a request as a bad client would, and says how the break must be called.
PLANTED = {
    "model": change_model,
    "parameter": change_parameter,
    "tool changed": change_tool,
    "tool added": add_tool,
    "tool removed": remove_tool,
    "tools reordered": reorder_tools,
    "system changed": tell_time,
    "message changed": change_message,
    "message inserted": insert_message,
    "message removed": remove_message,
    "compacted": compact,
}


@SEEDS
@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("kind", PLANTED)
def test_each_planted_break_is_named_and_blamed_on_the_client(api, kind, seeds):
    for seed in seeds:
        rng, witness = random.Random(f"{kind}{seed}"), Watcher()
        sent = requests_of(api, seed)
        at = rng.randrange(len(sent) // 2, len(sent))  # enough stands before it to be changed
        for fields in sent[:at]:
            witness.finish(witness.observe("s", fields), CacheCounts(0, 40_000, 3))
        fields = copy.deepcopy(sent[at])
        name = PLANTED[kind](api, fields, sent[at - 1], rng)
        seen = witness.observe("s", fields)
        judged = witness.finish(seen, CacheCounts(0, 42_000, 3))
        assert seen[1].difference.change == kind, (seed, at)
        assert judged.blame == "client"
        assert judged.reason.startswith(name), (seed, at)


def recorded_requests(file):
    """The API of a recorded session, and its requests: each adds a message of the agent or of the model."""
    recorded = orjson.loads(file.read_bytes())
    ends = {"completions": "chat", "messages": "messages", "responses": "responses"}
    api = ends.get(recorded["path"].rpartition("/")[2], "gemini")
    said = [m for m in recorded["messages"] if m.get("role") not in ("system", "developer")]
    return api, [request_of(api, said[:end]) for end in range(1, len(said) + 1)]


@pytest.mark.parametrize("file", RECORDED, ids=lambda file: file.stem)
def test_a_recorded_session_only_grows_and_each_break_planted_in_it_is_named(file):
    api, sent = recorded_requests(file)
    for kind, plant in PLANTED.items():
        rng, witness = random.Random(f"{kind}{file.stem}"), Watcher()
        for fields in sent[:-1]:
            seen = witness.observe("s", fields)
            assert seen[1].difference is None, kind
            witness.finish(seen, CacheCounts(0, 40_000, 3))
        fields = copy.deepcopy(sent[-1])
        name = plant(api, fields, sent[-2], rng)
        seen = witness.observe("s", fields)
        judged = witness.finish(seen, CacheCounts(0, 42_000, 3))
        assert (seen[1].difference.change, judged.blame) == (kind, "client")
        assert judged.reason.startswith(name)


@SESSIONS
@pytest.mark.parametrize("api", APIS)
def test_no_session_that_only_grows_is_told_to_break(api, seeds):
    for seed in seeds:
        witness = Watcher()
        for fields in requests_of(api, seed):
            seen = witness.observe("s", fields)
            assert seen[1].difference is None, (seed, seen[1].difference)
            witness.finish(seen, None)


# What Millgate adds


def drawn(seed):
    """Sessions of both kinds: those that go in circles get notes."""
    return looping_session(seed, period=1 + seed % 3, copies=6)[0] if seed % 2 else healthy_session(seed)  # fmt: skip


def changing_gate():
    """A gate over a store that changes all the time: no two contexts are alike."""
    numbers = count()

    async def build(asked):
        plan = Plan(False, Tier.STUFF, Strategy.RAG, 100)
        return Context(f"<context {next(numbers)}/>", (), 7, Trace("t", asked, plan), Report())

    return build


@PREFIXES
@pytest.mark.parametrize("api", APIS)
async def test_what_millgate_adds_breaks_no_cache_on_any_prefix(api, seeds):
    dialect = DIALECTS[api]()
    for seed in seeds:
        turns, conversations, build = drawn(seed), ConversationState(), changing_gate()
        last = None
        for end in range(1, len(turns)):
            body = orjson.dumps(request_of(api, render(turns[:end], api)))
            request = parse_request([], body, dialect, ProxyPolicy())
            blocks, _ = await find_blocks(request, dialect, build, "t", conversations)
            request = prepare(request, Known(dialect, blocks=[blocks]), Policies()).request
            noted = request.messages
            prompt = read_prompt(request.fields)
            assert last is None or compare(last, prompt) is None, (seed, end)
            last = prompt
            said = "One thing. Another, and again and again and"
            for attempt in (1, 2, 3):
                resumed = next_call(tuple(noted), said, onset=20, attempt=attempt)
                again = read_prompt({**request.fields, LISTS[api]: list(resumed.messages)})
                pieces = [s for e in prompt.elements if e.kind == "message" for s in e.segments]
                # the model's own half answer may join its last message, which no cache holds yet
                changed = pieces[common_messages(prompt, again) :]
                assert all(one.at == pieces[-1].at for one in changed), (seed, end)
