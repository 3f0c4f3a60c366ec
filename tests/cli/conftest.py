"""For every test of a command: run it in an empty folder, and see its exit code and what it printed."""

import pytest

from millgate import cli


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    def call(*args):
        with pytest.raises(SystemExit) as ended:
            cli.main(list(args))
        captured = capsys.readouterr()
        return ended.value.code or 0, captured.out, captured.err

    return call
