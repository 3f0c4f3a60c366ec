"""A gate in a forked child: it answers, adds and closes, whatever the parent was doing at the time."""

import os
import subprocess
import sys
from pathlib import Path

SCRIPT = """
import os, sys, threading, warnings
warnings.simplefilter("ignore", DeprecationWarning)
from headgate import Headgate

gate = Headgate.open(sys.argv[1])
gate.add({"id": f"p{n}", "text": f"The refund {n} of the ferry is paid by card."} for n in range(50))
assert gate.context("refund of the ferry").chunks
gate.remember("Ada maintains the ferry.")
stop = threading.Event()

def work():
    n = 0
    while not stop.is_set():
        n += 1
        gate.add([{"id": f"w{n % 20}", "text": f"version {n} of a page about the ferry"}])
        gate.context("the ferry")
        gate.recall("ferry")

worker = threading.Thread(target=work)
worker.start()
failed = 0
for n in range(int(sys.argv[2])):
    child = os.fork()
    if child == 0:
        try:
            __import__("faulthandler").dump_traceback_later(60, exit=True)
            assert gate.context("refund of the ferry").chunks
            gate.add([{"id": f"child{n}", "text": f"child {n} was here"}])
            assert gate.recall("who maintains the ferry")
            assert any(c.id == f"child{n}" for c in gate.context(f"child {n} was here").chunks)
            gate.close()
            os._exit(0)
        except BaseException:
            __import__("traceback").print_exc()
            os._exit(1)
    failed += os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0
stop.set()
worker.join()
assert gate.context("refund of the ferry").chunks
gate.close()
print(failed)
"""


def test_children_forked_beside_a_working_thread_all_answer_and_close(tmp_path):
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", SCRIPT, str(tmp_path), "12"],
        check=False,
        capture_output=True,
        text=True,
        timeout=500,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1] / "src")},
    )
    assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr


IMPORTING = """
import os, sys, threading, time
from pathlib import Path
import headgate.forks
folder = Path(sys.argv[1])
(folder / "slow_to_import.py").write_text("import time; time.sleep(1); done = True")
sys.path.insert(0, str(folder))
worker = threading.Thread(target=lambda: __import__("slow_to_import"))
worker.start()
while "slow_to_import" not in sys.modules:
    time.sleep(0.001)
child = os.fork()
if child == 0:
    __import__("signal").alarm(20)
    import slow_to_import
    os._exit(0 if slow_to_import.done else 1)
worker.join()
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_module_that_another_thread_is_importing_is_whole_in_the_child(tmp_path):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", IMPORTING, str(tmp_path)],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1] / "src")},
    )
    assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr
