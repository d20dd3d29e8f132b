"""The program: its help, its verbs, and with which code and words it ends."""

import os
import select
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from climlab_dl import cli
from climlab_dl.cli import bench, climate, drawing, order, results, scaling, tours  # noqa: F401 (verbs announce themselves)
from climlab_dl.cli.app import app, registry, wrong_use
from climlab_dl.cli.batch import add_training
from climlab_dl.cli.shell import in_shell
from climlab_dl.parallel.failures import tells


def run() -> None:
    """Run the command line."""
    verb = next(iter(sys.argv[1:]), "--help")
    if verb in ("--version", "-V"):
        from climlab_dl import __version__

        print(f"climlab-dl {__version__}")
        return
    if verb in ("--help", "-h"):
        print(_overview())
        return
    if verb not in app.verbs and not verb.startswith("--tyro-"):
        wrong_use(f"there is no verb {verb!r}; there are {', '.join(sorted(app.verbs))}")
    if verb == "train" or verb.startswith("-"):  # the others need not wait for torch
        named = add_training()
        if verb == "train":
            order.refuse_another(sys.argv[2:], named)
    try:
        with _terminated_as_interrupted():
            try:
                app.cli(prog="climlab-dl", description=cli.__doc__, registry=registry)
            finally:
                sys.stdout.flush()
    except BrokenPipeError as error:
        if not _read_no_more():
            sys.exit(f"climlab-dl: {error}")
        # As `| head` does it. What is still to be printed goes nowhere, or Python would complain at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(128 + signal.SIGPIPE)
    except (ImportError, OSError, ValueError, RuntimeError) as error:
        # Under mpiexec, one rank tells of what ends them all.
        sys.exit(f"climlab-dl: {in_shell(str(error), verb)}" if tells(error) else 1)


def _read_no_more() -> bool:
    """Whether whoever reads what is printed has gone."""
    out = select.poll()
    out.register(sys.stdout.fileno(), 0)
    return any(events & (select.POLLERR | select.POLLHUP) for _, events in out.poll(0))


def _overview() -> str:
    width = max(map(len, app.verbs))
    verbs = "\n".join(f"  {verb:{width}}  {line}" for verb, line in sorted(app.verbs.items()))
    return (
        f"usage: climlab-dl VERB ...\n\n{verbs}\n\n"
        "climlab-dl VERB --help lists what a verb takes, with units, defaults and an example.\n"
        "climlab-dl --version prints the version.\n"
        "climlab-dl --tyro-print-completion bash (or zsh, tcsh) prints a script that completes words.\n\n"
        "Exit codes: 0 done, 1 something in the data is wrong (check) or a step failed, 2 wrong use,\n"
        "130 stopped by Ctrl-C, SIGTERM or on request."
    )


@contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """Let SIGTERM, as batch systems send it, end a verb like Ctrl-C: what is half written is cleared away."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        del frame
        raise KeyboardInterrupt(f"stopped by {signal.Signals(number).name}")

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
