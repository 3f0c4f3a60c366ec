"""Child: HTML and PDF are taken apart in a process of their own, under limits of time and memory.

Parsers of such files can be made to take hours or gigabytes by a file of a few kilobytes, and nothing can interrupt
them from within. So a file gets a fresh process, 5 to 30 seconds of CPU by its size, and 1 GB; what goes beyond is
skipped with the reason. Run as `python -m headgate.ingest.child html|pdf`, it reads the file from stdin and writes JSON
to stdout.
"""

import subprocess
import sys
from typing import Literal

import orjson

from headgate.errors import MissingExtra
from headgate.ingest.decode import Undecodable

if sys.platform != "win32":
    import resource

# Seconds of CPU for any file, for each megabyte of it, and at most. A page takes 0.6 a megabyte, a PDF 4 to 10.
LEAST_CPU_S, CPU_S_PER_MB, MOST_CPU_S = 5, 15, 30
WALL_S = 120  # a busy machine gives a process little CPU
MEMORY_BYTES = 1 << 30
MAX_TEXT = 50_000_000  # characters that one file may become

FileKind = Literal["html", "pdf"]


def extract(kind: FileKind, data: bytes) -> tuple[str, str]:
    """The title and the text of a file; Undecodable with the reason if it gives none within the limits."""
    # -P keeps the current folder, which may be a stranger's, from the module path.
    command = [sys.executable, "-P", "-m", "headgate.ingest.child", kind]
    try:
        done = subprocess.run(command, input=data, capture_output=True, timeout=WALL_S, check=False)  # noqa: S603
    except subprocess.TimeoutExpired as error:
        raise Undecodable(f"took longer than {WALL_S} seconds to read") from error
    try:
        answer = orjson.loads(done.stdout)
    except orjson.JSONDecodeError as error:
        reason = (
            f"took more than {cpu_seconds(len(data))} seconds or {MEMORY_BYTES >> 20} MB to read"
        )
        raise Undecodable(reason) from error
    if answer.get("missing"):
        raise MissingExtra("pypdf", extra="pdf")
    if answer.get("reason"):
        raise Undecodable(answer["reason"])
    return answer["title"], answer["text"]


def main(kind: str) -> None:
    """Take apart what stdin holds."""
    data = sys.stdin.buffer.read()
    _limit(cpu_seconds(len(data)))
    sys.stdout.buffer.write(orjson.dumps(_answer(kind, data)))


def _answer(kind: str, data: bytes) -> dict[str, object]:
    try:
        if kind == "pdf":
            from headgate.ingest import pdf  # noqa: PLC0415  # an extra

            title, text = pdf.extract(data)
        else:
            from headgate.ingest import html  # noqa: PLC0415
            from headgate.ingest.decode import decode  # noqa: PLC0415

            title, text = html.extract(decode(data))
    except MissingExtra:
        return {"missing": True}
    except MemoryError:
        return {"reason": f"took more than {MEMORY_BYTES >> 20} MB to read"}
    except (ValueError, RecursionError) as error:
        return {"reason": str(error)[:200] or type(error).__name__}
    if len(text) > MAX_TEXT:
        return {"reason": f"holds more than {MAX_TEXT:,} characters"}
    return {"title": title[:2000], "text": text}


def cpu_seconds(size: int) -> int:
    """How long a file of `size` bytes may take: a folder of small bad ones must not take hours."""
    return min(MOST_CPU_S, LEAST_CPU_S + CPU_S_PER_MB * size // 1_000_000)


def _limit(seconds: int) -> None:
    """Let the system end this process when it takes too much. Windows has no such limits; the parent's clock holds."""
    if sys.platform != "win32":
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))


if __name__ == "__main__":
    main(sys.argv[1])
