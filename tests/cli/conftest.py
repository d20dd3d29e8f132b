"""The program, called as the shell does but in this process."""

import subprocess
import sys
from collections.abc import Callable

import pytest

from climlab_dl import cli


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., object]:
    """Run the program; give what it printed and said, once it has ended with the exit code that is expected."""

    def call(*arguments: object, code: int = 0) -> subprocess.CompletedProcess[str]:
        command = ["climlab-dl", *map(str, arguments)]
        monkeypatch.setattr(sys, "argv", command)
        capsys.readouterr()
        found, last = 0, ""
        try:
            cli.main()
        except SystemExit as end:
            # As the interpreter does: a text is said, and stands for 1.
            found, last = (end.code, "") if isinstance(end.code, int) else (1, f"{end.code}\n") if end.code else (0, "")
        printed, said = capsys.readouterr()
        assert found == code, f"{command}: {found}\n{printed}\n{said}{last}"
        return subprocess.CompletedProcess(command, found, printed, said + last)

    return call
