"""The pipeline: all stages in one sentence, the trace while it happens, and what stands behind a doubtful verdict."""
