"""The balancer of deploy/nginx.conf, run by a real nginx, lets people sign in to the dashboard."""

import re
import socket
import subprocess
from pathlib import Path

import httpx2
import pytest
from tests.programs import find_program
from tests.service.clients import served
from tests.waiting import MOST_S, until

from millgate import Millgate
from millgate.settings import Settings

SHIPPED = Path(__file__).parents[2] / "deploy/nginx.conf"


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@pytest.fixture
def balanced(tmp_path):
    """The address of nginx before a service, and a key that the service knows."""
    nginx = find_program("nginx", how="install it (apt-get install nginx-light), then run the tests again")  # fmt: skip
    settings = Settings(store=str(tmp_path / "kb"), service={"port": 0, "log": False})
    with Millgate.open(settings=settings) as gate:
        key = gate.keys.create(["read"]).token
    with served(settings) as (url, _):
        port = free_port()
        text = SHIPPED.read_text().replace("listen 8642", f"listen 127.0.0.1:{port}")
        text = re.sub(r"\n +server gateway-2[^\n]*", "", text)
        text = text.replace("gateway-1:8642", url.removeprefix("http://"))
        (tmp_path / "nginx.conf").write_text(text)
        folders = "".join(f" {name}_temp_path {tmp_path}/{name};" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))  # fmt: skip
        text = text.replace("http {", f"http {{ access_log off;{folders}", 1)
        (tmp_path / "nginx.conf").write_text(text)
        command = [nginx, "-p", str(tmp_path), "-c", str(tmp_path / "nginx.conf"), "-e", str(tmp_path / "errors.log")]  # fmt: skip
        process = subprocess.Popen([*command, "-g", f"daemon off; pid {tmp_path}/nginx.pid;"])
        try:
            base = f"http://127.0.0.1:{port}"
            until(lambda: answers(base))
            yield base, key
        finally:
            process.terminate()
            process.wait(MOST_S)


def answers(base):
    try:
        return httpx2.get(f"{base}/healthz", timeout=MOST_S).status_code == 200
    except httpx2.TransportError:
        return False


def test_a_person_signs_in_through_the_balancer(balanced):
    base, key = balanced
    with httpx2.Client(base_url=base, timeout=MOST_S, headers={"origin": base}) as client:
        page = client.get("/dashboard/", headers={"authorization": "Bearer none"}).text
        csrf = re.search('name="csrf" value="([^"]+)"', page)[1]
        answer = client.post("/dashboard/sign-in", data={"csrf": csrf, "key": key})
        assert answer.status_code == 303
        assert client.get("/dashboard/").status_code == 200
