import subprocess
import sys

import pytest

from headgate.service.malloc import give_back, share_heap

COUNT = """
import ctypes, sys, threading
from headgate.service.malloc import share_heap
if sys.argv[2] == "shared":
    share_heap()
libc, ready = ctypes.CDLL(None), threading.Barrier(9)
def hold():
    libc.malloc(50_000)
    ready.wait()
threads = [threading.Thread(target=hold) for _ in range(8)]
[thread.start() for thread in threads]
ready.wait()
libc.fopen.restype = ctypes.c_void_p
file = ctypes.c_void_p(libc.fopen(sys.argv[1].encode(), b"w"))
libc.malloc_info(0, file)
libc.fclose(file)
"""


def heaps(tmp_path, how):
    said = tmp_path / how
    subprocess.run([sys.executable, "-c", COUNT, str(said), how], check=True, timeout=120)
    return said.read_text().count("<heap nr=")


@pytest.mark.skipif(not share_heap(), reason="the C library is not glibc")
def test_threads_share_one_heap(tmp_path):
    assert heaps(tmp_path, "own") > 1
    assert heaps(tmp_path, "shared") == 1


HOLD = """
from headgate.service.malloc import give_back
def held():
    return int(open("/proc/self/statm").read().split()[1]) * 4096
texts = [str(n) * 100 for n in range(100_000)]
last = "x" * 600  # what lies above keeps the heap from shrinking by itself
full = held()
del texts
give_back()
print(full - held())
"""


@pytest.mark.skipif(not give_back(), reason="the C library is not glibc")
def test_what_was_freed_goes_back_to_the_system():
    said = subprocess.run([sys.executable, "-c", HOLD], capture_output=True, check=True, timeout=120)  # fmt: skip
    assert int(said.stdout) > 30_000_000
