"""A dialect as a user's package adds it: OpenAI's chat, but its conversation stands under `turns`."""

import sys

from millgate.guard.dialects import installed_dialects

ACME = """
from millgate.guard.dialects.chat import ChatDialect
from millgate.guard.dialects.dialect import Dialect

class AcmeDialect(ChatDialect):
    path = "/v1/acme/chat"
    messages_field = "turns"

class Bare(Dialect):
    path = "/v1/bare"
    def conversation(self, fields): return ()

class Pathless(ChatDialect):
    path = None

class Taken(ChatDialect):
    path = "/v1/messages"

class Ours(ChatDialect):
    path = "/v1/context"

def make(): return AcmeDialect()
"""


def install_dialect(value, folder, monkeypatch):
    """Install a package that has this value as its entry point; the test clears the cache when it is over."""
    (folder / "acme_millgate.py").write_text(ACME)
    info = folder / "acme_millgate-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-millgate\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[millgate.dialects]\nacme = {value}\n")
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, "acme_millgate", raising=False)
    installed_dialects.cache_clear()
