"""Staging on four ranks laid out as 2 nodes x 2: ``mpiexec -n 4 python tests/mpi/stage_on_four.py FOLDER``."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from climlab_dl.parallel import ranks, staging
from climlab_dl.parallel.staged import Plan, Staged
from climlab_dl.parallel.staging import stage

out = Path(sys.argv[1])
PLAN = Plan(
    source="numbers", count=11, shape=(3, 4, 5), target_shape=(4, 5), target_dtype="int64", share=0.6, nodes=2, seed=7
)
NODE = ranks.join(timeout=60).rank // 2


def sample(number: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(number)
    return random.normal(size=(3, 4, 5)).astype(np.float32), random.integers(3, size=(4, 5))


def counts(facts: dict[str, float]) -> list[int]:
    """What all ranks together have read and received."""
    import torch

    return ranks.sum(torch.tensor([facts["read"], facts["received"]]), "proof").int().tolist()


def holds_what_it_should(staged: Staged, tolerance: float = 0.0) -> None:
    for number in PLAN.held_by(NODE):
        values = np.empty((3, 4, 5), np.float32)
        target = staged.read(int(number), values)
        np.testing.assert_allclose(values, sample(number)[0], rtol=tolerance)
        np.testing.assert_array_equal(target, sample(number)[1])


def main() -> None:
    held = [set(PLAN.held_by(node).tolist()) for node in (0, 1)]
    union, both = held[0] | held[1], held[0] & held[1]
    assert len(held[0]) == len(held[1]) == 7  # 0.6 of 11, rounded up
    assert both
    assert held[0] != held[1]

    staged, facts = stage(sample, PLAN, out / "first", ranks_per_node=2)
    holds_what_it_should(staged)
    # Each sample that any node holds was read once, by one rank, however many nodes hold it.
    read, received = counts(facts)
    assert read == len(union), (read, union)
    assert received <= len(held[0]) + len(held[1])

    # Staged already: nothing is read again.
    assert counts(stage(sample, PLAN, out / "first", ranks_per_node=2)[1]) == [0, 0]

    # A byte that changed on node 0's disk is found, and that sample alone is fetched again.
    ranks.barrier("before the damage")
    if ranks.rank() == 0:
        with (out / "first" / "node-0000" / "samples").open("r+b") as file:
            file.seek(2 * PLAN.sample_bytes + 17)
            byte = file.read(1)
            file.seek(-1, 1)
            file.write(bytes([byte[0] ^ 1]))
    ranks.barrier("after the damage")
    staged, facts = stage(sample, PLAN, out / "first", ranks_per_node=2)
    assert counts(facts)[0] == 1
    holds_what_it_should(staged)

    # float16 keeps 11 bits.
    half, _ = stage(sample, replace(PLAN, dtype="float16"), out / "half", ranks_per_node=2)
    holds_what_it_should(half, tolerance=2.0**-11)
    with pytest.raises((ValueError, RuntimeError), match="holds staged samples of other data"):
        stage(sample, replace(PLAN, dtype="float16"), out / "first", ranks_per_node=2)

    # A disk too small is reported before anything is read or written.
    huge = replace(PLAN, shape=(16, 2**14, 2**14), count=10**6)
    with pytest.raises((OSError, RuntimeError), match="lower the share"):
        stage(sample, huge, out / "huge", ranks_per_node=2)

    # A file system that fails twice is asked a third time; one that fails for good ends all ranks.
    staging._PAUSE = 0.0
    failures = iter([True, True])

    def flaky(number: int) -> tuple[np.ndarray, np.ndarray]:
        if ranks.rank() == 1 and next(failures, False):
            raise OSError("busy")
        return sample(number)

    holds_what_it_should(stage(flaky, PLAN, out / "flaky", ranks_per_node=2)[0])
    calls = iter(range(100))

    def broken(number: int) -> tuple[np.ndarray, np.ndarray]:
        if ranks.rank() == 1 and next(calls) > 0:
            raise OSError("gone for good")
        return sample(number)

    with pytest.raises((OSError, RuntimeError), match="gone for good"):
        stage(broken, PLAN, out / "broken", ranks_per_node=2)
    # What had arrived before stays: the next attempt reads the rest only.
    staged, facts = stage(sample, PLAN, out / "broken", ranks_per_node=2)
    assert 0 < counts(facts)[0] < len(union)
    holds_what_it_should(staged)


if __name__ == "__main__":
    with ranks.together("proofs of staging"):
        main()
    ranks.leave()
    print("proven")
