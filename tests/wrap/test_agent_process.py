"""The agent's process: signals, exit codes, and the terminal, as if the shell had started it."""

import os
import pty
import signal
import subprocess
import sys
import time

import pytest
from tests.waiting import MOST_S

RUN = (
    "import asyncio, os, sys; from millgate.wrap.run import run_child; "
    "sys.exit(asyncio.run(run_child(sys.argv[1:], os.environ)))"
)


def command(*arguments):
    return [sys.executable, "-c", RUN, *arguments]


def run(*arguments, **more):
    return subprocess.run(
        command(*arguments), capture_output=True, text=True, timeout=MOST_S, check=False, **more
    )


def test_exit_code_input_and_output_are_the_commands_own():
    done = run("sh", "-c", "cat; echo problem >&2; exit 3", input="hello")
    assert (done.returncode, done.stdout, done.stderr) == (3, "hello", "problem\n")


def test_a_command_that_a_signal_ends_gives_128_and_its_number():
    assert run("sh", "-c", "kill -9 $$").returncode == 128 + 9


def test_a_command_that_cannot_be_run_is_named(tmp_path):
    assert "cannot be started" in run(str(tmp_path)).stderr


def test_a_signal_that_is_sent_to_us_reaches_the_command():
    script = "trap 'echo got it; exit 7' TERM; echo ready; while :; do sleep 0.05; done"
    process = subprocess.Popen(command("sh", "-c", script), stdout=subprocess.PIPE, text=True)
    with process:
        assert process.stdout.readline() == "ready\n"
        process.terminate()
        assert process.stdout.read() == "got it\n"
    assert process.returncode == 7


def test_a_signal_that_is_ignored_is_ignored_by_the_command_too():
    asks = "import signal as s; print([s.getsignal(n) is s.SIG_IGN for n in (s.SIGHUP, s.SIGINT, s.SIGTERM)])"  # fmt: skip
    for ignored, shown in (("HUP INT", "[True, True, False]"), ("", "[False, False, False]")):
        given = command(sys.executable, "-c", asks)
        shell = ["sh", "-c", f'trap "" {ignored}; exec "$@"', "sh", *given]
        done = subprocess.run(shell, capture_output=True, text=True, timeout=MOST_S, check=False)
        assert done.stdout.strip() == shown, done.stderr


def test_signals_that_come_when_the_command_has_ended_break_off_nothing():
    ends = (
        "import asyncio, os, signal, sys; from millgate.wrap.run import run_child\n"
        "async def main():\n"
        "    code = await run_child(['sh', '-c', 'exit 6'], os.environ)\n"
        "    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):\n"
        "        os.kill(os.getpid(), number)\n"
        "        await asyncio.sleep(0)\n"
        "    return code\n"
        "sys.exit(asyncio.run(main()))"
    )
    done = subprocess.run([sys.executable, "-c", ends], capture_output=True, text=True, timeout=MOST_S, check=False)  # fmt: skip
    assert done.returncode == 6, done.stderr


class Terminal:
    """A command in a terminal of its own, in which it is the job in the foreground."""

    def __init__(self, *arguments):
        self.pid, self.file = pty.fork()
        if self.pid == 0:
            os.execv(sys.executable, command(*arguments))
        self.seen = b""

    def wait_for(self, text):
        while text not in self.seen:
            self.seen += os.read(self.file, 1000)

    def press(self, key):
        os.write(self.file, key)

    def close(self):
        os.close(self.file)


@pytest.fixture
def terminal():
    opened = []

    def open_one(*arguments):
        opened.append(Terminal(*arguments))
        return opened[-1]

    yield open_one
    for each in opened:
        each.close()


def test_an_interrupt_is_the_commands_to_handle(terminal):
    script = "trap 'echo handled; exit 5' INT; echo ready; while :; do sleep 0.05; done"
    shown = terminal("sh", "-c", script)
    shown.wait_for(b"ready")
    shown.press(b"\x03")
    shown.wait_for(b"handled")
    _, status = os.waitpid(shown.pid, 0)
    assert os.waitstatus_to_exitcode(status) == 5


def test_when_the_command_stops_we_stop_and_both_go_on(terminal):
    # It stops itself, as agents do that read Ctrl-Z as a key.
    shown = terminal("sh", "-c", "echo ready; kill -STOP $$; echo again; exit 4")
    shown.wait_for(b"ready")
    _, status = os.waitpid(shown.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status)
    os.killpg(os.getpgid(shown.pid), signal.SIGCONT)  # what a shell does for `fg`
    shown.wait_for(b"again")
    _, status = os.waitpid(shown.pid, 0)
    assert os.waitstatus_to_exitcode(status) == 4


def test_a_group_that_was_stopped_and_goes_on_is_not_stopped_again():
    script = "while read line; do echo got $line; done"
    given = command("sh", "-c", script)
    with subprocess.Popen(given, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:  # fmt: skip

        def says(word):
            process.stdin.write(f"{word}\n")
            process.stdin.flush()
            return process.stdout.readline()

        assert says("before") == "got before\n"
        for _ in range(3):
            os.killpg(process.pid, signal.SIGSTOP)
            _, status = os.waitpid(process.pid, os.WUNTRACED)
            assert os.WIFSTOPPED(status)
            os.killpg(process.pid, signal.SIGCONT)
            assert says("after") == "got after\n"
        process.stdin.close()
        assert process.wait(MOST_S) == 0


def test_a_stop_that_the_command_ignores_does_not_stop_us(terminal):
    shown = terminal("sh", "-c", "trap '' TSTP; echo ready; read line; echo got $line")
    shown.wait_for(b"ready")
    shown.press(b"\x1a")
    time.sleep(0.2)
    assert os.waitpid(shown.pid, os.WNOHANG | os.WUNTRACED) == (0, 0)
    shown.press(b"on\n")
    shown.wait_for(b"got on")
    os.waitpid(shown.pid, 0)
