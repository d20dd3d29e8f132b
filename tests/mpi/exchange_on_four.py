"""Gradient exchange on four ranks laid out as 2 nodes x 2: ``mpiexec -n 4 python tests/mpi/exchange_on_four.py``."""

import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
from runs import assert_same, tiny
from torch import nn

from climlab_dl.parallel import ranks, shared
from climlab_dl.parallel.allreduce import Exchange
from climlab_dl.parallel.nodes import Nodes
from climlab_dl.training.folder import RunFolder
from climlab_dl.training.loop import train

archive, out = sys.argv[1], Path(sys.argv[2])


def network() -> nn.Module:
    torch.manual_seed(0)
    # 7 and 5 features: no bucket divides by two ranks, and the last layer is never reached.
    return nn.ModuleList([nn.Conv2d(3, 7, 3), nn.Conv2d(7, 5, 3), nn.Linear(3, 1)]).to(
        memory_format=torch.channels_last
    )  # pyright: ignore[reportCallIssue]


def gradients(rank: int, step: int, model: nn.Module) -> None:
    generator = torch.Generator().manual_seed(100 * step + rank)
    first, second, _ = model.children()
    second(first(torch.randn(2, 3, 8, 8, generator=generator)).relu()).square().mean().backward()


def exchanged(steps: int = 1, **settings: Any) -> torch.Tensor:
    """Gradients after some steps, as one vector."""
    model = network()
    exchange = Exchange(**settings).start(list(model.parameters()))
    for step in range(steps):
        exchange.begin()
        exchange.last(True)
        gradients(ranks.rank(), step, model)
        exchange.send()
        assert exchange.finite()
        exchange.receive()
    found = torch.cat([parameter.grad.flatten() for parameter in model.parameters() if parameter.grad is not None])
    exchange.close()
    return found


def accumulated() -> torch.Tensor:
    """Gradients of two backward passes of one step."""
    model = network()
    exchange = Exchange().start(list(model.parameters()))
    exchange.begin()
    for step in range(2):
        exchange.last(step == 1)
        gradients(ranks.rank(), step, model)
    exchange.send()
    exchange.receive()
    found = torch.cat([parameter.grad.flatten() for parameter in model.parameters() if parameter.grad is not None])
    exchange.close()
    return found


def blamed(culprit: int, **settings: Any) -> None:
    """Only the rank whose gradient is not finite hears so, whoever adds it up; and the next step is a new one."""
    model = network()
    parameters = list(model.parameters())
    exchange = Exchange(**settings).start(parameters)
    for number, parameter in enumerate(parameters):
        exchange.begin()
        gradients(ranks.rank(), 0, model)
        if ranks.rank() == culprit:
            parameter.grad = torch.full_like(parameter, float("nan") if number % 2 else float("inf"))
        exchange.send()
        assert exchange.finite() == (ranks.rank() != culprit), (number, ranks.rank())
        exchange.receive()
        assert parameter.grad is not None
        assert not parameter.grad.isfinite().all()
    exchange.close()


def expected(step: int = 0) -> torch.Tensor:
    """The mean over ranks, computed on this rank alone in float64."""
    total: list[torch.Tensor] = []
    for rank in range(ranks.size()):
        model = network()
        gradients(rank, step, model)
        grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in model.parameters()]
        total.append(torch.cat([g.flatten() for g in grads]).double())
    return torch.stack(total).mean(dim=0)


def same_everywhere(found: torch.Tensor) -> None:
    everyone = ranks.gather(found, "proof")
    assert all(torch.equal(everyone[0], other) for other in everyone), "ranks hold different gradients"


def close(found: torch.Tensor, wanted: torch.Tensor, tolerance: float) -> None:
    error = float((found.double() - wanted).abs().max() / wanted.abs().max())
    assert error < tolerance, f"{error:.2e} is over {tolerance:.0e}"


def main() -> None:
    assert shared.allocate([torch.zeros(3)]) is not None
    close(exchanged(), expected(), 1e-6)
    assert torch.equal(exchanged(), exchanged())
    close(accumulated(), expected(0) + expected(1), 1e-6)
    for culprit in range(ranks.size()):
        blamed(culprit)
    same_everywhere(exchanged())
    same_everywhere(exchanged(compression="bf16"))
    with pytest.MonkeyPatch.context() as without:  # as on several hosts
        without.setattr(shared, "allocate", lambda like: None)
        close(exchanged(), expected(), 1e-6)
        close(exchanged(steps=2, lag=1), expected(step=0), 1e-6)
        close(accumulated(), expected(0) + expected(1), 1e-6)
        blamed(1)
    hierarchical: dict[str, Any] = {"route": "hierarchical", "ranks_per_node": 2}
    for settings in (
        hierarchical,
        hierarchical | {"ranks_per_node": 4},
        hierarchical | {"bucket_megabytes": 1e-4},
        {"bucket_megabytes": 1e-4},
    ):
        close(exchanged(**settings), expected(), 1e-6)
    # Half precision keeps 8 and 11 bits: each of log2(4) + 1 roundings costs up to 2^-9 and 2^-12 of the largest.
    close(exchanged(compression="bf16"), expected(), 3 * 2.0**-9)
    close(exchanged(compression="fp16", **hierarchical), expected(), 3 * 2.0**-12)
    # With lag, what is in place after the second step is the first one's mean.
    close(exchanged(steps=2, lag=1), expected(step=0), 1e-6)
    close(exchanged(steps=2, lag=1, **hierarchical), expected(step=0), 1e-6)
    close(exchanged(steps=2), expected(step=1), 1e-6)
    same_everywhere(exchanged(compression="bf16", **hierarchical))

    # Groups would wait for a rank that is gone half an hour of their own accord.
    nodes = Nodes(2)
    for group in (nodes.within, nodes.across):
        assert group in (Nodes(2).within, Nodes(2).across)  # another training has the same
        assert group._get_backend(torch.device("cpu")).options._timeout == timedelta(seconds=60)

    with pytest.raises(ValueError, match=r"found \[3, 1\]"):
        exchanged(route="hierarchical", ranks_per_node=3)

    # Four additions have an order, unlike two; it is the same after a resumption.
    run = tiny(archive, batch_size=1, steps=5, exchange=Exchange(bucket_megabytes=1e-3, **hierarchical))
    list(train(run, out / "whole"))
    for report in train(run, out / "halves"):
        if report.step == 2 and ranks.rank() == 0:
            RunFolder(out / "halves").request_stop()
    assert RunFolder(out / "halves").latest() == RunFolder(out / "halves").checkpoint(3)
    list(train(run, out / "halves"))
    ranks.barrier("rank 0 has written the folders")
    assert_same(out / "whole", out / "halves")


if __name__ == "__main__":
    with ranks.joined(timeout=60), ranks.together("proofs of the exchange"):
        main()
    print("proven")
