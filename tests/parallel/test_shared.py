"""Memory that ranks share; what several of them do with it is proven in tests/mpi/exchange_on_four.py."""

import os

import torch
from hypothesis import given
from hypothesis import strategies as st

from climlab_dl.parallel import shared


def test_one_rank_shares_with_nobody():
    assert shared.allocate([torch.zeros(3)]) is None


def test_memory_that_cannot_be_opened_is_none_and_what_can_be_is_zero(tmp_path):
    assert shared._mapped(str(tmp_path / "nowhere"), 64) is None
    file = os.memfd_create("test")
    os.ftruncate(file, 64)
    path = f"/proc/{os.getpid()}/fd/{file}"
    one, other = shared._mapped(path, 64), shared._mapped(path, 64)
    os.close(file)
    assert one is not None
    assert other is not None
    one[7] = 3
    assert other.tolist() == [3 if place == 7 else 0 for place in range(64)]


@given(st.lists(st.integers(0, 10**6), max_size=30), st.integers(1, 8))
def test_no_rank_owns_more_than_a_fair_share_and_one_parameter(sizes, count):
    owners = shared._owners(sizes, count)
    loads = [sum(size for size, owner in zip(sizes, owners, strict=True) if owner == rank) for rank in range(count)]
    assert sum(loads) == sum(sizes)
    # Whoever was given the last one had the least then, which is no more than the mean.
    assert max(loads) <= sum(sizes) / count + max(sizes, default=0)
