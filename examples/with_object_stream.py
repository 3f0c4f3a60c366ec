"""The guard around a stream of objects: whatever has text in it, from whichever SDK."""

from dataclasses import dataclass, replace

from millgate.guard.objects import GuardedObjects


@dataclass
class Chunk:
    text: str


def generate(continuation):
    """Your model: it loops, until it is asked to go on without repeating itself."""
    said = ["Then he slept."] if continuation else ["He rose. ", *["He looked at the water. "] * 99]
    return map(Chunk, said)


guarded = GuardedObjects(
    generate, read=lambda c: c.text, write=lambda c, text: replace(c, text=text)
)
print("".join(chunk.text for chunk in guarded.iterate()))
print(guarded.report.rollbacks, "rollback,", guarded.report.cut_chars, "characters cut")
