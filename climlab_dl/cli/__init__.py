"""The same verbs for the shell and for batch scripts; each imports what it needs when it is called."""

import sys


def main() -> None:
    """Run the command line; Ctrl-C ends it in one line at any moment, also while it is still importing."""
    try:
        from climlab_dl.cli.program import run

        run()
    except KeyboardInterrupt as interrupt:
        print(f"climlab-dl: {str(interrupt) or 'interrupted'}", file=sys.stderr)
        sys.exit(130)
