"""The same verbs for the shell and for batch scripts; each imports what it needs when it is called.

Exit codes: 0 done, 1 something in the data is wrong (``check``) or a step failed, 2 wrong use.
"""

import sys

from climlab_dl.cli import climate, tours  # noqa: F401 (verbs announce themselves)
from climlab_dl.cli.app import app
from climlab_dl.cli.batch import add_training

_WITHOUT_TORCH = {"tour", "lab", "check", "convert", "label", "events"}
_VERBS = _WITHOUT_TORCH | {"train", "detect", "simulate", "flops"}


def main() -> None:
    """Run the command line."""
    if (verb := next(iter(sys.argv[1:]), "--help")) not in _VERBS and not verb.startswith("-"):
        print(f"climlab-dl: there is no verb {verb!r}; there are {', '.join(sorted(_VERBS))}", file=sys.stderr)
        sys.exit(2)
    if not _WITHOUT_TORCH & set(sys.argv[1:2]):
        add_training()
    try:
        app.cli(prog="climlab-dl", description=__doc__)
    except (OSError, ValueError, RuntimeError) as error:
        sys.exit(f"climlab-dl: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
