"""How far a reader must walk: functions and files of ours that README's example and one chat request run.

    make bench-path [ARGS=--list]      10 seconds

`--list` names each file with its functions. Comprehensions and lambdas do not count; a thread's functions do.
"""

import argparse
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from bench.fixtures.path_chat import count_chat

ROWS = [
    {"id": "policy", "text": "Refunds are paid within 14 days to the card that was charged."},
    {"id": "steps", "text": "To get a refund the customer sends the order number."},
    {"id": "shipping", "text": "Parcels leave the warehouse every weekday at noon."},
]
WINDOW = ["tool: Refunds are paid within 14 days to the card that was charged."]


@contextmanager
def watch(seen: set[tuple[str, str]]) -> Iterator[None]:
    """Note each function of ours that is called inside, with its file."""
    import millgate

    home = str(Path(millgate.__file__).parent)

    def note(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        is_ours = event == "call" and code.co_filename.startswith(home)
        if is_ours and not code.co_name.startswith("<"):
            seen.add((code.co_filename.removeprefix(f"{home}/"), code.co_qualname))

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def show(what: str, work: Callable[[], Any], *, is_listed: bool) -> Any:
    """Do one step; print what it ran, and how many modules of ours are loaded behind it."""
    seen: set[tuple[str, str]] = set()
    with watch(seen):
        result = work()
    tell(what, seen, is_listed=is_listed)
    return result


def tell(what: str, seen: set[tuple[str, str]], *, is_listed: bool) -> None:
    """Print what ran, and how many modules of ours are loaded behind it."""
    files = sorted({file for file, _ in seen})
    loaded = sum(name.split(".")[0] == "millgate" for name in sys.modules)
    print(f"{what:8} {len(seen):4} functions in {len(files):3} files; {loaded:3} modules loaded")
    for file in files if is_listed else ():
        print(f"  {file}: {', '.join(sorted(name for where, name in seen if where == file))}")


def main() -> None:
    args = argparse.ArgumentParser(description=__doc__)
    args.add_argument("--list", action="store_true")
    is_listed = args.parse_args().list
    from millgate import Millgate

    gate = show("open", lambda: Millgate.open(":memory:"), is_listed=is_listed)
    with gate:
        show("add", lambda: gate.add(ROWS), is_listed=is_listed)
        question = "how do refunds work?"
        show(
            "context",
            lambda: gate.context(question, window=WINDOW, budget=100),
            is_listed=is_listed,
        )
    import millgate

    for part, seen in count_chat(str(Path(millgate.__file__).parent)).items():
        tell(part, seen, is_listed=is_listed)


if __name__ == "__main__":
    main()
