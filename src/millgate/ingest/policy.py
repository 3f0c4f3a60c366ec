"""The policies of ingest, apart from its code: every command reads the settings, and few of them ingest."""

from millgate.errors import ConfigError
from millgate.types.policy import Policy, PositiveCount, Tuning


class ChunkPolicy(Policy):
    """How large chunks should be, in tokens."""

    target: PositiveCount = 350
    """Size to pack blocks up to."""
    maximum: PositiveCount = 1200
    """What fits this stays whole: the longest of 1 400 paper abstracts has about 1 040."""

    def model_post_init(self, context: object) -> None:
        """Refuse a target above the maximum."""
        if self.target > self.maximum:
            raise ConfigError(
                f"chunk target is {self.target}, above the maximum of {self.maximum}",
                hint="lower the target or raise the maximum",
            )


class IngestPolicy(Policy):
    """How much is read and written at a time, and how texts are cut."""

    max_bytes: PositiveCount = 200_000_000
    """Largest file that is read whole; files of rows are streamed and may be larger."""
    batch_bytes: Tuning[PositiveCount] = 2_000_000
    """Text that is written in one transaction."""
    batch_documents: Tuning[PositiveCount] = 2000
    """Documents that are written in one transaction."""
    chunk: ChunkPolicy = ChunkPolicy.default()
    """How texts are cut."""
