"""Playbook: requests of agents in, and for each what reached the model's service and what the reply noted.

    book = Playbook(gateway)
    book >> claude.ask("Where is the cursor kept?", reads=(0, 1)) >> claude.compact()
    book << every_prefix_holds << nothing_is_looked_up_twice

`>>` sends requests, `<<` checks a promise on all that was sent. A gateway is anything with `send(request) -> Sent`: the
application that `wrap` serves, in this process, or one that is served elsewhere.
"""

import asyncio
import json
from dataclasses import dataclass, field

from tests.promises.sessions.agents import RULE, Request
from tests.proxy.upstream import response_stream, said, told

from millgate.wrap.gateway import SecretApp, proxy_alone, settings_for
from millgate.wrap.spec import GatewaySpec

GEMINI = {"candidates": [{"content": {"role": "model", "parts": [{"text": "Well."}]}, "finishReason": "STOP"}]}  # fmt: skip
ANSWERS = {
    "/v1/messages": [b"".join(told("Well."))],
    "/v1/chat/completions": [b"".join(said("Well."))],
    "/v1/responses": [b"".join(response_stream(texts=("Well.",)))],
}
STORED = (
    "The import reads its pages by the primary key, a page of one table at a time.",
    "The cursor of the import is kept in redis-7, under the key import:cursor.",
    "The table that the import reads last is called ledger_entries.",
    "A page of the import has 4375 rows.",
    "The module of the import that is slow is src/app/module_1.py, since it sorts every page.",
    "The import may be restarted by the people on call.",
)


@dataclass(frozen=True)
class Sent:
    """A request, the body that the model's service got for it, and the reply's headers of ours."""

    request: Request
    went: dict = field(repr=False)
    notes: dict = field(repr=False)


class Gateway:
    """The application that `millgate wrap` serves, in this process; a restart leaves what is on the disk."""

    def __init__(self, rig, store=None, *, repair=(), traces=0, **features):
        self._rig, self.store, self.looked_up = rig, store, 0
        upstream = f"http://127.0.0.1:{rig.upstream.port}/v1"
        spec = GatewaySpec(store=store, upstream=upstream, secret="s", **features)
        settings = settings_for(spec)
        proxy = settings.proxy.model_copy(update={"repair": repair})
        trace = settings.trace.model_copy(update={"keep": traces})
        self._settings = settings.model_copy(update={"proxy": proxy, "trace": trace})
        self.start()

    def start(self):
        async def make():
            return proxy_alone(self._settings)

        self._app = self._rig.run(make())

    def close(self):
        async def end():
            service = self._app.state.service
            for close in service.on_shutdown:
                await close()
            service.gate.close()

        self.looked_up += self._count_contexts()
        self._rig.run(end())
        self._app = None

    def restart(self):
        self.close()
        self.start()

    def count_lookups(self):
        """How many contexts were looked up, restarts included."""
        return self.looked_up + (self._count_contexts() if self._app else 0)

    def _count_contexts(self):
        lines = self._app.state.service.metrics.text().splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith("millgate_contexts_total "))  # fmt: skip

    @property
    def service(self):
        return self._app.state.service

    def send(self, request, *answers):
        model = request.fields.get("model") or request.path
        upstream = self._rig.upstream
        answer = ANSWERS.get(request.path) or [b"data: " + json.dumps(GEMINI).encode() + b"\r\n\r\n"]  # fmt: skip
        upstream.script(model, *(answers or [answer]))
        status, notes, body = self._rig.run(self._serve(request))
        assert status == 200, body
        return Sent(request, upstream.seen[model][0].json, notes)

    async def _serve(self, request):
        path, _, query = request.path.partition("?")
        headers = {"host": "127.0.0.1", "content-type": "application/json", "x-millgate-wrap": "s", **request.headers}  # fmt: skip
        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "scheme": "http",
            "path": path, "raw_path": path.encode(), "query_string": query.encode(), "root_path": "",
            "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
            "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 2), "state": {},
        }  # fmt: skip
        incoming = [{"type": "http.request", "body": json.dumps(request.fields).encode()}]
        status, notes, parts = 0, {}, []

        async def receive():
            if not incoming:
                await asyncio.Event().wait()  # the client stays
            return incoming.pop()

        async def send(message):
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                found = {name.decode(): value.decode() for name, value in message["headers"]}
                notes.update({name.removeprefix("x-millgate-"): value for name, value in found.items() if name.startswith("x-millgate-")})  # fmt: skip
            else:
                parts.append(message.get("body", b""))

        await SecretApp(self._app, "s")(scope, receive, send)
        return status, notes, b"".join(parts)


class Playbook:
    """What was sent through a gateway, in order."""

    def __init__(self, gateway):
        self.gateway, self.sent = gateway, []

    def __rshift__(self, requests):
        """Send a request, or each of several."""
        for request in [requests] if isinstance(requests, Request) else requests:
            self.sent.append(self.gateway.send(request))
        return self

    def __lshift__(self, promise):
        """Check a promise."""
        promise(self)
        return self

    @property
    def last(self):
        return self.sent[-1]

    @property
    def main(self):
        """The requests of the conversation, without what the agent asks beside it."""
        return [one for one in self.sent if one.request.kind != "side"]


# What the provider's cache sees


def blocks_of(fields):
    """A request as the provider's cache sees it: block by block, without marks, each in one spelling."""
    head = [("model", fields.get("model"))]
    head += [("tool", _plain(tool)) for tool in fields.get("tools") or ()]
    system = fields.get("system") or fields.get("instructions") or fields.get("systemInstruction")
    head += [("system", _plain(block)) for block in _as_list(system)]
    messages = fields.get("messages") or fields.get("input") or fields.get("contents")
    for given in messages:
        message, role = dict(given), given.get("role", "")
        content = message.pop("content", message.pop("parts", None))
        head += [(role, _plain(message))] if message.keys() - {"role", "type"} else []
        head += [(role, _plain(block)) for block in _as_list(content)]
    return head


def _as_list(content):
    if content is None or isinstance(content, list):
        return content or []
    return [{"type": "text", "text": content}] if isinstance(content, str) else [content]


def _plain(value):
    """JSON with sorted keys and without marks."""
    block = {k: v for k, v in value.items() if k != "cache_control"} if isinstance(value, dict) else value  # fmt: skip
    return json.dumps(block, sort_keys=True)


def extends(later, earlier):
    return len(earlier) <= len(later) and later[: len(earlier)] == earlier


def added(sent):
    """What stands in a request besides what the client wrote: the place among the client's blocks, and the block."""
    came, out, at = blocks_of(sent.request.fields), [], 0
    for block in blocks_of(sent.went):
        if at < len(came) and came[at] == block:
            at += 1
        else:
            out.append((at, block))
    return out


# Promises


def every_prefix_holds(book):
    """Each request upstream extends the last one wherever the client's own conversation does."""
    came = [blocks_of(sent.request.fields) for sent in book.sent]
    went = [blocks_of(sent.went) for sent in book.sent]
    broken = []
    for n in range(len(came)):
        before = [m for m in range(n) if extends(came[n], came[m])]
        if before and not extends(went[n], went[before[-1]]):
            broken.append(f"{before[-1]}->{n}")
    assert not broken, f"{len(broken)} of {len(came)} prefixes are broken: {broken}"


def nothing_is_looked_up_twice(book):
    """There are no more look-ups than questions, a person's and those for a summary or a title."""
    asked = sum(sent.request.kind in ("ask", "side") for sent in book.sent)
    found = book.gateway.count_lookups()
    assert 0 < found <= asked, f"{found:.0f} look-ups for {asked} questions"


def every_compaction_is_noted_once(book):
    """The first request after a compaction notes it, and no other does."""
    noted = [n for n, sent in enumerate(book.sent) if "compaction" in sent.notes]
    compacted = [n for n, sent in enumerate(book.sent) if sent.request.compacted]
    assert noted == compacted, f"noted at {noted}, and the agent compacted before {compacted}"


def the_rule_stands_once(book):
    """A person's rule stands in every request of the conversation, once, whatever was compacted."""
    counts = [json.dumps(sent.went).count(RULE) for sent in book.main]
    assert set(counts) == {1}, f"the rule stands {counts} times"


def nothing_is_lost_of_what_the_client_wrote(book):
    """All that the client wrote stands in what went upstream, in its order; a text may have more in front of it."""
    for n, sent in enumerate(book.sent):
        rest = iter(blocks_of(sent.went))
        for role, block in blocks_of(sent.request.fields):
            assert any(role == other and _keeps(more, block) for other, more in rest), (
                f"request {n}: {block[:80]}"
            )


def _keeps(more, block):
    """Whether a block is another one, but for what may stand before its text."""
    if more == block or not (isinstance(block, str) and block.startswith("{")):
        return more == block
    ours, theirs = json.loads(more), json.loads(block)
    said = theirs.pop("text", None)
    return isinstance(said, str) and ours.pop("text", "").endswith(said) and ours == theirs
