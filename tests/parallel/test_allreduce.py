"""Gradient exchange of a single rank; what several ranks exchange is proven in tests/mpi."""

import gc
import weakref

import torch
from torch import nn

from climlab_dl.parallel.allreduce import Exchange


def test_nothing_of_an_exchange_outlives_it():
    # A parameter and its hook hold each other where Python's collector does not see it.
    model = nn.Linear(3, 2)
    exchange = Exchange().start(list(model.parameters()))
    exchange.begin()
    exchange.last(True)
    model(torch.ones(1, 3)).sum().backward()
    exchange.send()
    exchange.receive()
    exchange.close()
    left = [weakref.ref(exchange), *(weakref.ref(parameter) for parameter in model.parameters())]
    del exchange, model
    gc.collect()
    assert [reference() for reference in left] == [None] * len(left)
