"""MemoryAttachments: fingerprints and embeddings beside their chunks in the in-memory store."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from headgate.stores.memory.collection import MemoryCollections


class MemoryAttachments(MemoryCollections):
    """Bytes by chunk and kind. A chunk that is gone, or newer than `seen`, gets none."""

    def attach(
        self,
        tenant: str,
        collection: str,
        kind: str,
        values: Mapping[str, bytes],
        *,
        seen: int | None = None,
    ) -> int:
        with self._lock:
            held = self._collection(tenant, collection)
            fit = {
                id: bytes(value)
                for id, value in values.items()
                if id in held.chunks and (seen is None or held.seqs[id] <= seen)
            }
            for id, value in fit.items():
                held.attachments.setdefault(id, {})[kind] = value
            return len(fit)

    def attachments(
        self, tenant: str, collection: str, kind: str, ids: Sequence[str]
    ) -> dict[str, bytes]:
        with self._lock:
            known = self._collection(tenant, collection).attachments
            return {id: known[id][kind] for id in dict.fromkeys(ids) if kind in known.get(id, ())}

    def kinds(self, tenant: str, collection: str) -> Mapping[str, int]:
        counts: dict[str, int] = defaultdict(int)
        with self._lock:
            for kinds in self._collection(tenant, collection).attachments.values():
                for kind in kinds:
                    counts[kind] += 1
        return dict(sorted(counts.items()))
