"""Gradient exchange of a single rank; what several ranks exchange is proven in tests/mpi."""

import gc
import weakref

import pytest
import torch
from torch import nn

from climlab_dl.parallel.allreduce import Exchange, GradientExchange


def step(exchange: GradientExchange, model: nn.Module, values: torch.Tensor) -> None:
    exchange.begin()
    exchange.last(True)
    model(values).sum().backward()
    exchange.send()


def test_alone_a_gradient_stays_where_the_backward_pass_left_it_and_what_was_not_reached_is_zero():
    reached, beside = nn.Linear(3, 2), nn.Linear(3, 1)
    exchange = Exchange(compression="fp16").start([*reached.parameters(), *beside.parameters()])
    step(exchange, reached, torch.full((1, 3), 1 + 2**-20))  # which fp16 does not know
    made = reached.weight.grad
    assert exchange.finite()
    assert exchange.receive(scale=2.0) == {"scale": 2.0}
    assert reached.weight.grad is made
    assert made is not None
    assert (made == 1 + 2**-20).all()
    assert beside.weight.grad is not None
    assert not beside.weight.grad.any()
    exchange.begin()
    assert reached.weight.grad is None
    exchange.close()


def test_a_gradient_lies_as_its_parameter_does():
    together = nn.Parameter(torch.zeros(2, 3, 4, 5).contiguous(memory_format=torch.channels_last))
    # Of sides of one the strides mean nothing: this one stays where it is.
    narrow = nn.Parameter(torch.zeros(2, 3, 1, 1).contiguous(memory_format=torch.channels_last))
    exchange = Exchange().start([together, narrow])
    exchange.begin()
    made = torch.rand(2, 3, 4, 5), torch.rand(2, 3, 1, 1)
    together.grad, narrow.grad = made
    exchange.send()
    exchange.receive()
    assert torch.equal(together.grad, made[0])
    assert together.grad.stride() == together.stride()
    assert narrow.grad is made[1]
    exchange.close()


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), -float("inf")])
def test_a_gradient_that_is_not_finite_is_told(wrong):
    model = nn.Linear(3, 2)
    exchange = Exchange().start(list(model.parameters()))
    step(exchange, model, torch.tensor([[1.0, wrong, 1.0]]))
    assert not exchange.finite()
    step(exchange, model, torch.full((1, 3), 3e38))  # large, and finite
    assert exchange.finite()
    exchange.close()


def test_a_gradient_that_waits_goes_into_a_checkpoint_and_comes_back():
    model = nn.Linear(3, 2)
    exchange = Exchange(lag=1).start(list(model.parameters()))
    step(exchange, model, torch.full((1, 3), 1.0))
    assert exchange.receive(scale=8.0) is None
    saved = exchange.state()
    exchange.close()
    resumed = Exchange(lag=1).start(list(model.parameters()))
    resumed.restore(saved)
    step(resumed, model, torch.full((1, 3), 5.0))
    assert resumed.receive(scale=4.0) == {"scale": 8.0}
    assert model.weight.grad is not None
    assert (model.weight.grad == 1).all()
    assert resumed.state()["about"] == {"scale": 4.0}
    resumed.close()


def test_nothing_of_an_exchange_outlives_it():
    # A parameter and its hook hold each other where Python's collector does not see it.
    model = nn.Linear(3, 2)
    exchange = Exchange().start(list(model.parameters()))
    step(exchange, model, torch.ones(1, 3))
    exchange.receive()
    exchange.close()
    left = [weakref.ref(exchange), *(weakref.ref(parameter) for parameter in model.parameters())]
    del exchange, model
    gc.collect()
    assert [reference() for reference in left] == [None] * len(left)


@pytest.mark.parametrize("wrong", [0, -2])
def test_a_node_has_a_rank_at_least(wrong):
    with pytest.raises(ValueError, match=f"ranks_per_node={wrong}: choose 1 or more"):
        Exchange(route="hierarchical", ranks_per_node=wrong)


@pytest.mark.parametrize("wrong", [0.0, float("nan"), float("inf")])
def test_a_size_of_buckets_that_cannot_be_is_refused(wrong):
    with pytest.raises(ValueError, match=r"bucket_megabytes=.*: choose a positive size"):
        Exchange(bucket_megabytes=wrong)
