"""A request that goes on after its key was revoked is ended."""

import asyncio

import pytest
from tests.waiting import MOST_S

from millgate.errors import AccessError
from millgate.service.edge import admission
from millgate.service.edge import auth as auths
from millgate.service.edge.admission import Admission, InFlight
from millgate.service.edge.auth import Auth
from millgate.service.edge.byte_budget import ByteBudget
from millgate.service.edge.limits import CallerLimits
from millgate.types.policy import ServicePolicy


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    """Keys are looked up again at once."""
    monkeypatch.setattr(admission, "REVOCATION_CHECK_S", 0.02)
    monkeypatch.setattr(auths, "CACHE_S", 0.0)


class Stream:
    """An app that sends until it is stopped, or until `enough` pieces are out."""

    def __init__(self, enough=10**9, *, head=True):
        self.enough, self.head, self.stopped = enough, head, False
        self.sent = []

    async def __call__(self, scope, receive, send):
        scope["millgate"].deadline.reschedule(None)  # as the proxy does for streams
        try:
            if self.head:
                await send({"type": "http.response.start", "status": 200, "headers": []})
            for _ in range(self.enough):
                if self.head:
                    await send({"type": "http.response.body", "body": b"x", "more_body": True})
                await asyncio.sleep(0.01)
        except asyncio.CancelledError:
            self.stopped = True
            raise


async def serve(gate, app, token):
    policy = ServicePolicy()
    admit = Admission(
        app,
        policy=policy,
        auth=Auth(gate.keys, "default"),
        limits=CallerLimits(policy),
        budget=ByteBudget(),
        in_flight=InFlight(),
    )
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/v1/chat/completions",
        "http_version": "1.1",
        "client": ("127.0.0.1", 1),
        "headers": [(b"authorization", f"Bearer {token}".encode()), (b"host", b"localhost")],
    }

    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message):
        app.sent.append(message)

    await admit(scope, receive, send)


async def revoke_soon(gate, made, app):
    while app.head and len(app.sent) <= 2:  # noqa: ASYNC110  the app counts what it sends
        await asyncio.sleep(0.01)
    await asyncio.sleep(0)
    gate.keys.revoke(made.key.id)


async def test_a_stream_ends_when_its_key_is_revoked(gate):
    made, app = gate.keys.create(scopes=("read",)), Stream()
    revoking = asyncio.ensure_future(revoke_soon(gate, made, app))
    async with asyncio.timeout(MOST_S):
        with pytest.raises(AccessError, match="not valid"):
            await serve(gate, app, made.token)
    await revoking
    assert app.stopped
    assert len(app.sent) > 2


async def test_a_request_that_has_not_begun_to_answer_gets_a_401(gate):
    made, app = gate.keys.create(scopes=("read",)), Stream(head=False)
    revoking = asyncio.ensure_future(revoke_soon(gate, made, app))
    async with asyncio.timeout(MOST_S):
        await serve(gate, app, made.token)
    await revoking
    assert app.sent[0]["status"] == 401


async def test_a_stream_under_a_valid_key_goes_on_to_its_end_and_leaves_no_timer(gate):
    made, app = gate.keys.create(scopes=("read",)), Stream(enough=20)
    before = asyncio.all_tasks()
    await serve(gate, app, made.token)
    await asyncio.sleep(0.05)
    assert not app.stopped
    assert asyncio.all_tasks() == before
