import pytest
import torch

from climlab_dl.parallel import ranks
from climlab_dl.parallel.ranks import World


def test_a_single_process_is_one_rank_without_a_process_group():
    with ranks.joined() as here:
        assert here == World(rank=0, size=1, local_rank=0, local_size=1, node=0, nodes=1)
        assert not torch.distributed.is_initialized()
        values = torch.arange(3.0)
        assert torch.equal(ranks.sum(values, "test"), values)
        assert torch.equal(ranks.mean(values, "test"), values)
        assert torch.equal(ranks.gather(values, "test"), values[None])
        assert torch.equal(ranks.largest(values, "test"), values)
        assert ranks.broadcast_text("hello", "test") == "hello"
        assert ranks.agree([1.0, 2.0], "test") == [1.0, 2.0]
        ranks.barrier("test")
    assert ranks.size() == 1


def test_sums_leave_what_they_are_given_alone():
    values = torch.ones(2)
    ranks.sum(values, "test").add_(1)
    assert values.tolist() == [1.0, 1.0]


def test_an_error_of_the_only_rank_is_its_own():
    with pytest.raises(ZeroDivisionError), ranks.together("dividing"):
        _ = 1 / 0
    error = OSError("full")
    with pytest.raises(OSError, match="full"):
        ranks.agree([], "writing", error)


def test_a_collective_that_fails_is_named_with_its_rank():
    says = r"rank 0 of 1 .* collective 'gradients'.*peer reset"
    with pytest.raises(ConnectionError, match=says), ranks.collective("gradients"):
        raise RuntimeError("peer reset")


def test_who_was_a_rank_before_stays_one():
    ranks.join()
    with ranks.joined():
        pass
    assert ranks._world is not None
    ranks.leave()
    assert ranks._world is None
