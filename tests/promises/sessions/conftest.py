"""Sessions of every agent through the gateway of `wrap`, each played once for all promises on it."""

import shutil
from functools import cache

import pytest
from tests.promises.sessions.agents import AGENTS
from tests.promises.sessions.playbook import STORED, Gateway, Playbook
from tests.proxy.conftest import ProxyRig

from millgate.gateway import Millgate
from millgate.wrap.spec import MEMORY

FEATURES = {
    "store": {"inject": True},
    "remember": {"remember": True},
    "fold": {"fold": True},
    "all": {"inject": True, "remember": True, "fold": True, "repair": ("tools", "marks")},
}
SESSIONS = [(agent, feature) for agent in AGENTS for feature in ("store", "remember")]
SESSIONS += [(agent, "fold") for agent in ("claude", "codex", "gemini", "hermes")]
SESSIONS += [(agent, "all") for agent in ("claude", "opencode")]
RESTARTED = [(agent, "remember") for agent in AGENTS]
RESTARTED += [(agent, "store") for agent in ("claude", "gemini")]


@pytest.fixture(scope="session")
def rig():
    rig = ProxyRig()
    yield rig
    rig.close()


@pytest.fixture
def upstream(rig):
    return rig.upstream


@pytest.fixture(scope="session")
def stored(tmp_path_factory):
    """A store that knows the answers to the questions."""
    store = tmp_path_factory.mktemp("stored") / "kb"
    with Millgate.open(store) as gate:
        gate.add([{"id": f"n{n}", "text": text} for n, text in enumerate(STORED)])
    return store


@pytest.fixture(scope="session")
def gateway_with(rig, stored, tmp_path_factory):
    """Makes gateways with features, each over a store of its own, or over that of another."""
    made = []

    def make(*, keeps=True, over=None, **features):
        store = over.store if over else tmp_path_factory.mktemp("store") / "kb" if keeps else MEMORY
        if keeps and not over:
            shutil.copytree(stored, store)
        made.append(Gateway(rig, str(store), **features))
        return made[-1]

    yield make
    for gateway in made:
        gateway.close()


@pytest.fixture(scope="session")
def played(gateway_with):
    """An agent's session of many turns through a gateway with a feature; `restarts` begins that anew in between."""

    @cache
    def play(agent, feature, restarts=False):
        book = Playbook(gateway_with(**FEATURES[feature]))
        for request in AGENTS[agent]().session_of_many_turns():
            if restarts and (request.compacted or "Go on." in str(request.fields)):
                book.gateway.restart()
            book >> request
        return book

    return play
