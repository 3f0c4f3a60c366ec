"""Access: whose gate a call uses, and what the caller may do with it."""

import asyncio
from dataclasses import dataclass, field

from millgate.gateway import Millgate
from millgate.keys import missing_scope
from millgate.text.fence import fence, fence_secret, piece
from millgate.types import Scope


@dataclass(frozen=True, slots=True)
class Access:
    """The gate of one caller's tenant, and the scopes of the caller.

    `collection` is where it looks unless a call names another. `local`: the server runs with the rights of its user, so
    it may measure files. `session` and `cwd` are the client's, "" if they are not known. `whole_documents` is held
    while one is read: each may have megabytes.
    """

    gate: Millgate
    scopes: frozenset[str]
    collection: str = "main"
    local: bool = False
    session: str = ""
    cwd: str = ""
    whole_documents: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(1))

    def require(self, scope: Scope) -> None:
        """ScopeError if the caller lacks a scope."""
        if scope not in self.scopes:
            raise missing_scope(scope, self.scopes)

    def fence(self, *texts: str) -> str:
        """Stored texts as numbered pieces inside a fence that they cannot close."""
        lines = [piece(number, "", text) for number, text in enumerate(texts, 1)]
        secret = fence_secret(self.gate.store.secret(self.gate.tenant))
        return fence("\n".join(lines), secret) if lines else ""
