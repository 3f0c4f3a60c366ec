"""Child: files of foreign formats are taken apart in a process of their own, under limits of time and memory.

Parsers of such files can be made to take hours or gigabytes by a file of a few kilobytes, and nothing can interrupt
them from within. So a child process reads them, with 5 to 30 seconds of CPU for each file by its size, and 1 GB in all.
A file that goes beyond is skipped with the reason, and the next one gets a new process. A process that behaves is kept
for many files: to start one takes as long as to read twenty small ones.

Run as `python -m millgate.ingest.child`, it reads requests from stdin and writes answers to stdout. A request is a line
with the kind and the size, and the bytes of the file. An answer is its size in 8 bytes, and JSON.
"""

import os
import signal
import subprocess
import sys
from threading import Event, Timer
from typing import IO, Literal

import orjson

from millgate.ingest.decode import Undecodable

if sys.platform != "win32":
    import resource

# Seconds of CPU for any file, for each megabyte of it, and at most. A page takes 0.6 a megabyte, a PDF 4 to 10.
LEAST_CPU_S, CPU_S_PER_MB, MOST_CPU_S = 5, 15, 30
WALL_S = 120  # a busy machine gives a process little CPU
MEMORY_BYTES = 1 << 30
MAX_TEXT = 50_000_000  # characters that one file may become
MOST_FILES = 500  # that one process reads: what a parser keeps of each must not add up to the memory that it may have
_SIZE_BYTES = 8

FileKind = Literal["docx", "eml", "epub", "html", "opendocument", "pdf", "pptx", "sheets"]


class ParserProcess:
    """A child process that takes files apart. It starts with the first file, and ends with `close`."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._files = 0

    def extract(self, kind: FileKind, data: bytes) -> tuple[str, str]:
        """The title and the text of a file; Undecodable with the reason if it gives none within the limits."""
        if self._files >= MOST_FILES:
            self.close()
        answer = orjson.loads(self._ask(kind, data))
        self._files += 1
        if answer.get("reason"):
            raise Undecodable(answer["reason"])
        return answer["title"], answer["text"]

    def _ask(self, kind: FileKind, data: bytes) -> bytes:
        process = self._process or self._start()
        late = Event()

        def stop() -> None:
            late.set()
            process.kill()

        timer = Timer(WALL_S, stop)
        timer.start()
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(b"%b %d\n%b" % (kind.encode(), len(data), data))
            process.stdin.flush()
            size = int.from_bytes(_read_exactly(process.stdout, _SIZE_BYTES))
            return _read_exactly(process.stdout, size)
        except (OSError, EOFError) as error:
            self.close()
            limit = f"{cpu_seconds(len(data))} seconds or {MEMORY_BYTES >> 20} MB"
            if late.is_set():
                raise Undecodable(f"took longer than {WALL_S} seconds to read") from error
            raise Undecodable(f"took more than {limit} to read") from error
        except BaseException:  # an answer that was not read would be taken for the next one's
            self.close()
            raise
        finally:
            timer.cancel()

    def _start(self) -> subprocess.Popen[bytes]:
        # -P keeps the current folder, which may be a stranger's, from the module path.
        command = [sys.executable, "-P", "-m", "millgate.ingest.child"]
        pipe, nothing = subprocess.PIPE, subprocess.DEVNULL
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=nothing)  # noqa: S603
        self._files = 0
        return self._process

    def close(self) -> None:
        """End the process."""
        process, self._process, self._files = self._process, None, 0
        if process is not None:
            process.kill()
            process.communicate()


def _read_exactly(stream: IO[bytes], size: int) -> bytes:
    found = stream.read(size)
    if len(found) < size:
        raise EOFError
    return found


def main() -> None:
    """Take apart what stdin holds, one file after the other."""
    source = sys.stdin.buffer
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a parser prints is no answer
    if sys.platform != "win32":
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, hard))
    while head := source.readline():
        kind, size = head.decode().split()
        data = _read_exactly(source, int(size))
        _limit(cpu_seconds(len(data)))
        answer = orjson.dumps(_answer(kind, data))
        del data
        answers.write(len(answer).to_bytes(_SIZE_BYTES) + answer)
        answers.flush()


def _answer(kind: str, data: bytes) -> dict[str, object]:
    try:
        from millgate.ingest import office  # noqa: PLC0415  (the parent needs none of its readers)

        title, text = getattr(office, f"read_{kind}")(data)
    except MemoryError:
        return {"reason": f"took more than {MEMORY_BYTES >> 20} MB to read"}
    except (ValueError, RecursionError) as error:
        return {"reason": str(error)[:200] or type(error).__name__}
    except Exception as error:  # noqa: BLE001  (a parser of hostile files raises anything at all)
        return {"reason": f"broken file: {type(error).__name__}: {error}"[:200]}
    if len(text) > MAX_TEXT:
        return {"reason": f"holds more than {MAX_TEXT:,} characters"}
    clean = text.replace("\0", "").encode(errors="replace").decode()
    return {"title": title.encode(errors="replace").decode()[:2000], "text": clean}


def cpu_seconds(size: int) -> int:
    """How long a file of `size` bytes may take: a folder of small bad ones must not take hours."""
    return min(MOST_CPU_S, LEAST_CPU_S + CPU_S_PER_MB * size // 1_000_000)


def _limit(seconds: int) -> None:
    """Let the system end this process if the next file takes longer. On Windows only the parent's clock holds.

    A timer counts from now. RLIMIT_CPU counts from the start of the process, by ticks. On a busy machine they ran ahead
    of `time.process_time` by five seconds in 45, and ended a process that had read many files without cause.
    """
    if sys.platform != "win32":
        signal.setitimer(signal.ITIMER_PROF, seconds)


if __name__ == "__main__":
    main()
