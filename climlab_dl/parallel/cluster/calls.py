"""Calls on the ranks of a start: made, waited for, and brought back, or the failure that came first."""

import concurrent.futures
import time
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

import cloudpickle

from climlab_dl.bars import bar
from climlab_dl.parallel.cluster.launch import Launch
from climlab_dl.parallel.cluster.work import Outcome, call, perform

# When a rank has failed, the others get this long to notice; then what waits for it in a collective is ended.
_GRACE = 5.0


def on_all(launch: Launch, request: bytes) -> list[Any]:
    """Make a pickled call on all ranks at once; returns the results by rank.

    Raises
    ------
    Exception
        What a rank raised first. If others still wait for that rank five seconds later, the whole start is ended.
    ChildProcessError
        If a rank died.
    """
    requests = [launch.client[rank].apply_async(perform, request) for rank in range(launch.ranks)]
    outcomes: list[Outcome] = []
    failed: list[Outcome] = []
    deadline = float("inf")
    waiting = set(requests)
    while waiting:
        done, waiting = concurrent.futures.wait(waiting, 0.2, concurrent.futures.FIRST_COMPLETED)
        if died := launch.died():
            raise ChildProcessError(died)
        outcomes += [_outcome(request, launch) for request in done]
        failed = [outcome for outcome in outcomes if outcome.error is not None]
        if failed:
            deadline = min(deadline, time.monotonic() + _GRACE)
        if waiting and time.monotonic() > deadline:
            lost = [launch.reports[rank] for rank, sent in enumerate(requests) if sent in waiting]
            silent = ", ".join(f"rank {report.rank} on {report.host}" for report in lost)
            for outcome in failed:
                assert outcome.error is not None
                outcome.error.add_note(f"No word from {silent} since; all ranks were ended")
            launch.close()
            break
    if failed:
        min(failed, key=_secondary).value()
    launch.client.purge_local_results(requests)
    return [outcome.result for outcome in sorted(outcomes, key=lambda outcome: outcome.rank)]


def on_each(launch: Launch, function: Callable[[Any], Any], items: Sequence[Any], name: str) -> list[Any]:
    """Call a function with each item, on whichever rank is free, under a bar of that name; results in their order.

    Raises
    ------
    Exception
        What the function raised, with the item in its notes; items that were not begun are left out then.
    ChildProcessError
        If a rank died.
    """
    view = launch.client.load_balanced_view()
    waiting = iter(enumerate(items))
    running: dict[Any, int] = {}
    results: list[Any] = [None] * len(items)
    with bar(len(items), name) as progress:
        while True:
            for index, item in islice(waiting, max(0, 2 * launch.ranks - len(running))):
                running[view.apply_async(perform, call(function, item))] = index
            if not running:
                return results
            done, _ = concurrent.futures.wait(running, 0.2, concurrent.futures.FIRST_COMPLETED)
            if died := launch.died():
                raise ChildProcessError(f"{died}, in {name} ({progress.done} of {len(items)} done)")
            for request in done:
                index = running.pop(request)
                outcome = _outcome(request, launch)
                if outcome.error is not None:
                    outcome.error.add_note(f"Item {index} of {len(items)}: {items[index]!r:.200}")
                results[index] = outcome.value()
                launch.client.purge_local_results(request)
            progress.advance(len(done))


def _outcome(request: Any, launch: Launch) -> Outcome:
    import ipyparallel

    try:
        return cloudpickle.loads(request.get())
    except ipyparallel.RemoteError as error:
        # The hub may know of a death before the launcher has ended the other ranks and said whose it was.
        reason = launch.died(patience=2.0) or launch.give_up(f"a rank died: {error.evalue}")
        raise ChildProcessError(reason) from None


def _secondary(failure: Outcome) -> tuple[bool, float]:
    """Order failures: the first cause before those that only say that another rank failed."""
    error = failure.error
    told = isinstance(error, ConnectionError) or (isinstance(error, RuntimeError) and str(error).startswith("rank "))
    return told, failure.time
