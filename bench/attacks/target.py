"""The target: a live service, the keys that the attackers hold, and every attack by its name."""

import asyncio
import json
import time

import httpx2

ATTACKS = {}


def attack(function):
    ATTACKS[function.__name__] = function
    return function


class Target:
    """The service under attack: its address, the keys that the attackers hold, and what the hostile upstream does."""

    def __init__(self, url, read, write, other, unused, seconds):
        self.url, self.read, self.write, self.seconds = url, read, write, seconds
        self.other = other  # of a tenant that attacks nobody
        self.unused = unused  # a good key that nobody has sent yet
        self.host, self.port = "127.0.0.1", int(url.rsplit(":", 1)[1])
        self.statuses, self.won = [], []

    @property
    def until(self):
        return time.monotonic() + self.seconds

    async def post(self, path, body, key=None, **options):
        headers = {
            "authorization": f"Bearer {key or self.read}",
            "content-type": "application/json",
        }
        content = json.dumps(body).encode()  # which sends half a surrogate pair too
        async with httpx2.AsyncClient(base_url=self.url, timeout=90) as client:
            answer = await client.post(path, content=content, headers=headers, **options)
        self.statuses.append(answer.status_code)
        return answer

    async def get(self, path, key=None):
        headers = {"authorization": f"Bearer {key or self.read}"}
        async with httpx2.AsyncClient(base_url=self.url, timeout=90) as client:
            answer = await client.get(path, headers=headers)
        self.statuses.append(answer.status_code)
        return answer

    async def send(self, method, path, *, key=None, headers=None, **options):
        """One request as it is; None if it cannot be sent."""
        sent = {"authorization": f"Bearer {key or self.read}", "content-type": "application/json", "accept": "application/json, text/event-stream"}  # fmt: skip
        try:
            async with httpx2.AsyncClient(base_url=self.url, timeout=90) as client:
                answer = await client.request(method, path, headers={**sent, **(headers or {})}, **options)  # fmt: skip
        except (httpx2.HTTPError, httpx2.InvalidURL, ValueError):
            return None
        self.statuses.append(answer.status_code)
        return answer

    async def flood(self, head, piece):
        """Send a head and then pieces until the service hangs up or the time is over."""
        until = self.until
        _, writer = await asyncio.open_connection(self.host, self.port)
        try:
            writer.write(head)
            while time.monotonic() < until:
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(0)
        except OSError:
            pass  # hung up, as it should
        finally:
            writer.close()

    async def chat(self, model, **fields):
        body = {"model": model, "messages": [{"role": "user", "content": "hello"}], **fields}
        try:
            return await self.post("/v1/chat/completions", body)
        except httpx2.HTTPError as error:
            return error
