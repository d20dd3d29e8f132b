"""The same verbs for the shell and for batch scripts; each imports what it needs when it is called.

Exit codes: 0 done, 1 something in the data is wrong (``check``) or a step failed, 2 wrong use,
130 stopped by Ctrl-C or SIGTERM.
"""

import sys

from climlab_dl.cli import climate, drawing, results, tours  # noqa: F401 (verbs announce themselves)
from climlab_dl.cli.app import app
from climlab_dl.cli.batch import add_training
from climlab_dl.parallel.failures import tells

_VERBS = {
    "check", "convert", "detect", "doctor", "events", "flops", "infer", "lab", "label", "map", "report", "runs",
    "simulate", "stats", "tour", "train",
}  # fmt: skip


def main() -> None:
    """Run the command line."""
    if (verb := next(iter(sys.argv[1:]), "--help")) not in _VERBS and not verb.startswith("-"):
        print(f"climlab-dl: there is no verb {verb!r}; there are {', '.join(sorted(_VERBS))}", file=sys.stderr)
        sys.exit(2)
    if verb in ("--version", "-V"):
        from climlab_dl import __version__

        print(f"climlab-dl {__version__}")
        return
    if verb == "train" or verb.startswith("-"):  # the others need not wait for torch
        add_training()
    try:
        app.cli(prog="climlab-dl", description=__doc__)
    except (OSError, ValueError, RuntimeError) as error:
        # Under mpiexec, one rank tells of what ends them all.
        sys.exit(f"climlab-dl: {error}" if tells(error) else 1)
    except KeyboardInterrupt as interrupt:
        print(f"climlab-dl: {interrupt or 'interrupted'}", file=sys.stderr)
        sys.exit(130)
