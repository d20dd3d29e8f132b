import itertools
import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest
import torch

from climlab_dl.training.ahead import Key, read_ahead
from climlab_dl.training.batches import Samples

CPU = torch.device("cpu")


class Numbers:
    """Samples that are full of their number; one of them may be damaged, and reading takes as long as one likes."""

    shape = (2, 3)

    def __init__(self, damaged: int = -1, seconds: float = 0.0, kind: str = "i1") -> None:
        self.damaged, self.seconds, self.kind = damaged, seconds, kind

    def read(self, index: int, out: np.ndarray) -> np.ndarray:
        time.sleep(self.seconds * (1 + index % 3))
        if index == self.damaged:
            raise OSError(f"sample {index} is damaged")
        out[...] = index
        return np.array([-1, index % 100], self.kind)

    def describe(self, index: int) -> str:
        return str(index)


def batches(count: int = 100, size: int = 2) -> Iterator[list[Key]]:
    return ([(1, size * number + place) for place in range(size)] for number in range(count))


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_batches_come_in_order_and_are_the_callers_until_the_next(workers):
    # Samples of different cost: threads do not finish in the order in which they began.
    samples = Samples(Numbers(seconds=0.001), range(40))
    seen = []
    for values, targets, numbers in read_ahead(samples, batches(20), workers=workers, device=CPU):
        time.sleep(0.002)  # what is read meanwhile goes elsewhere
        seen += numbers.tolist()
        assert torch.equal(values, numbers.float()[:, None, None].expand(2, 2, 3))
        assert torch.equal(targets[:, 1], numbers)
    assert seen == list(range(40))


def test_memory_is_used_again():
    samples = Samples(Numbers(), range(40))
    given = list(itertools.islice(read_ahead(samples, batches(), workers=2, device=CPU), 12))
    assert len({values.data_ptr() for values, _, _ in given}) == 3
    # Targets stay: metrics keep them.
    assert [targets[0, 1].item() for _, targets, _ in given] == list(range(0, 24, 2))


def test_classes_become_numbers_to_index_with_and_parameters_stay():
    for kind, wanted in (("i1", torch.int64), ("i8", torch.int64), ("f4", torch.float32)):
        _, targets, _ = next(read_ahead(Samples(Numbers(kind=kind), range(2)), batches(1), workers=0, device=CPU))
        assert targets.dtype == wanted
    _, targets, _ = Samples(Numbers(), range(2))[0, 1]
    assert targets.tolist() == [-1, 1]


@pytest.mark.parametrize("workers", [0, 2])
def test_what_cannot_be_read_is_said_when_its_turn_comes(workers):
    given = read_ahead(Samples(Numbers(damaged=7), range(40)), batches(), workers=workers, device=CPU)
    assert [next(given)[2][0].item() for _ in range(3)] == [0, 2, 4]
    with pytest.raises(OSError, match="sample 7 is damaged"):
        next(given)


def test_no_thread_is_left_when_no_more_is_wanted():
    given = read_ahead(Samples(Numbers(seconds=0.01), range(40)), batches(), workers=3, device=CPU)
    next(given)
    assert sum(thread.name.startswith("input") for thread in threading.enumerate()) == 3
    given.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("input")]


def test_samples_are_varied_apart_from_each_other_whatever_thread_reads_them():
    def louder(values: np.ndarray, target: np.ndarray, random: np.random.Generator, out: np.ndarray) -> np.ndarray:
        out[...] = values + random.random()
        return target

    samples = Samples(Numbers(), range(40), augment=louder, seed=4)
    for ours, theirs in zip(
        read_ahead(samples, batches(20), workers=3, device=CPU),
        read_ahead(samples, batches(20), workers=0, device=CPU),
        strict=True,
    ):
        assert torch.equal(ours[0], theirs[0])
        assert torch.equal(ours[0][1], samples[1, int(ours[2][1])][0])
