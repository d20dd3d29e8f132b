"""Optimisers: descriptions that build themselves for a network's parameters.

:class:`Larc` adapts the step of another optimiser to each parameter's size; :class:`Lamb` does so by itself.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor, nn


def _check(name: str, value: object, good: bool, remedy: str) -> None:
    if not good:
        raise ValueError(f"{name}={value!r}: {remedy}")


def _check_rates(optimizer: "Adam | Lamb | SGD", usual: str) -> None:
    """Refuse a learning rate or a weight decay that is none."""
    rate, decay = optimizer.learning_rate, optimizer.weight_decay
    _check("learning_rate", rate, 0 < rate < math.inf, f"choose a positive rate, {usual} is usual")
    _check("weight_decay", decay, 0 <= decay < math.inf, "choose 0 (off) or a small positive number")


def _check_moments(optimizer: "Adam | Lamb") -> None:
    """Refuse moments that never forget or grow, and a divisor that may be below zero."""
    betas, eps = optimizer.betas, optimizer.eps
    good = len(betas) == 2 and all(0 <= beta < 1 for beta in betas)
    _check("betas", betas, good, "choose two numbers from 0 to below 1, (0.9, 0.999) is usual")
    _check("eps", eps, 0 <= eps < math.inf, "choose a small positive number, 1e-8 is usual")


@dataclass(frozen=True, kw_only=True)
class Adam:
    """Adam (Kingma & Ba 2015).

    Parameters
    ----------
    learning_rate
        Of the step, before schedule and batch size scale it.
    betas
        Memory of the gradient and of its square.
    eps
        Added to the square's root, so that nothing is divided by zero.
    weight_decay
        Times the weight is added to the gradient.
    """

    learning_rate: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        _check_rates(self, "1e-3")
        _check_moments(self)

    def build(self, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        """Return the optimiser of these parameters."""
        return torch.optim.Adam(**self._facts(list(parameters)))

    def _facts(self, parameters: list[nn.Parameter]) -> dict[str, Any]:
        return {
            "params": parameters, "lr": self.learning_rate, "betas": self.betas, "eps": self.eps,
            "weight_decay": self.weight_decay, "fused": _fused(parameters),
        }  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class AdamW(Adam):
    """Adam with weight decay apart from the gradient (Loshchilov & Hutter 2019).

    Parameters
    ----------
    learning_rate
        Of the step, before schedule and batch size scale it.
    betas
        Memory of the gradient and of its square.
    eps
        Added to the square's root, so that nothing is divided by zero.
    weight_decay
        Times rate and weight is taken from the weight.
    """

    weight_decay: float = 0.01

    def build(self, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        """Return the optimiser of these parameters."""
        return torch.optim.AdamW(**self._facts(list(parameters)))


@dataclass(frozen=True, kw_only=True)
class SGD:
    """Gradient descent with momentum; ``rate_in_momentum`` is Keras' form, in which the buffer holds rate * gradient.

    The two forms differ only while the learning rate changes.
    """

    learning_rate: float = 0.01
    momentum: float = 0.9
    nesterov: bool = False
    weight_decay: float = 0.0
    rate_in_momentum: bool = False

    def __post_init__(self) -> None:
        _check_rates(self, "0.01")
        _check("momentum", self.momentum, 0 <= self.momentum < 1, "choose 0 to below 1, 0.9 is usual")
        _check("momentum", self.momentum, self.momentum > 0 or not self.nesterov, "nesterov needs some, 0.9 is usual")

    def build(self, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        """Return the optimiser of these parameters."""
        facts: dict[str, Any] = {
            "lr": self.learning_rate, "momentum": self.momentum, "nesterov": self.nesterov,
            "weight_decay": self.weight_decay,
        }  # fmt: skip
        return (_KerasSGD if self.rate_in_momentum else torch.optim.SGD)(list(parameters), **facts)


@dataclass(frozen=True, kw_only=True)
class Lamb:
    """LAMB (You et al. 2020, algorithm 2), as in MLPerf HPC DeepCAM.

    The step of each parameter is ``learning_rate * |w| / |u|`` times ``u = m / (sqrt(v) + eps) + weight_decay * w``.

    Parameters
    ----------
    learning_rate
        Of the step, before schedule and batch size scale it.
    betas
        Memory of the gradient and of its square.
    eps
        Added to the square's root, so that nothing is divided by zero.
    weight_decay
        Share of the weight in the step's direction.
    """

    learning_rate: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-6
    weight_decay: float = 0.01

    def __post_init__(self) -> None:
        _check_rates(self, "1e-3")
        _check_moments(self)

    def build(self, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        """Return the optimiser of these parameters."""
        facts = {"lr": self.learning_rate, "betas": self.betas, "eps": self.eps, "weight_decay": self.weight_decay}
        return _Lamb(list(parameters), facts)


@dataclass(frozen=True, kw_only=True)
class Larc:
    """Layer-wise adaptive rate control around another optimiser (You et al. 2017; Kurth et al. 2018, sec. V-B2).

    For each parameter w with gradient g, lambda = trust |w| / |g|, or ``epsilon`` if either norm is zero.

    Parameters
    ----------
    optimizer
        The optimiser whose step is adapted.
    trust
        Ratio of the step to the parameter that is aimed at; 0.002 in both papers.
    epsilon
        lambda where a norm is zero.
    form
        What multiplies the gradient. ``"clip"``: min(lambda, rate) / rate, so that the effective rate is lambda but
        never above the optimiser's own. ``"clip_sc18"``: min(lambda, 1), as the code of the two papers had it.
        ``"scale"``: lambda.
    placement
        ``"gradient"``: before the optimiser, as in the papers; Adam, which divides by the gradient's size, hardly
        notices. ``"update"``: g is the optimiser's own step divided by the rate, and the step is adapted.
    """

    optimizer: Any = field(default_factory=Adam)
    trust: float = 0.002
    epsilon: float = 1 / 16000
    form: Literal["clip", "clip_sc18", "scale"] = "clip"
    placement: Literal["gradient", "update"] = "gradient"

    def __post_init__(self) -> None:
        _check("trust", self.trust, 0 < self.trust < math.inf, "choose a positive ratio, 0.002 is published")
        _check("epsilon", self.epsilon, 0 < self.epsilon < math.inf, "choose a small positive ratio, 1/16000 is usual")
        if self.form not in ("clip", "clip_sc18", "scale"):
            raise ValueError(f"form={self.form!r}: choose 'clip', 'clip_sc18' or 'scale'")
        if self.placement not in ("gradient", "update"):
            raise ValueError(f"placement={self.placement!r}: choose 'gradient' or 'update'")

    @property
    def learning_rate(self) -> float:
        """The inner optimiser's learning rate."""
        return self.optimizer.learning_rate

    def build(self, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        """Return the inner optimiser, with a step that is adapted."""
        optimizer = self.optimizer.build(parameters)
        adapt = self._adapt_gradients if self.placement == "gradient" else self._adapt_updates
        inner = optimizer.step
        # Replacing the step keeps the state and its keys those of the inner optimiser.
        optimizer.step = lambda: adapt(optimizer, inner)
        return optimizer

    def factor(self, parameter: Tensor, gradient: Tensor, rate: float) -> Tensor:
        """Return what multiplies the gradient (or the step) of a parameter, a scalar."""
        weight_norm, gradient_norm = torch.linalg.vector_norm(parameter), torch.linalg.vector_norm(gradient)
        usable = (weight_norm > 0) & (gradient_norm > 0)
        ratio = torch.where(usable, self.trust * weight_norm / gradient_norm.clamp_min(1e-38), self.epsilon)
        if self.form == "scale":
            return ratio
        return ratio.clamp_max(1.0) if self.form == "clip_sc18" else ratio.clamp_max(rate) / rate

    @torch.no_grad()
    def _adapt_gradients(self, optimizer: torch.optim.Optimizer, inner: Callable[[], Any]) -> None:
        for parameter, rate in _parameters(optimizer):
            assert parameter.grad is not None
            parameter.grad.mul_(self.factor(parameter, parameter.grad, rate))
        inner()

    @torch.no_grad()
    def _adapt_updates(self, optimizer: torch.optim.Optimizer, inner: Callable[[], Any]) -> None:
        before = [(parameter, rate, parameter.clone()) for parameter, rate in _parameters(optimizer)]
        inner()
        for parameter, rate, old in before:
            step = parameter - old
            parameter.copy_(old).add_(step.mul_(self.factor(old, step / rate, rate)))


def _fused(parameters: list[nn.Parameter]) -> bool | None:
    """Whether one pass over weights, gradients and moments can do what otherwise takes a dozen."""
    usable = all(each.device.type in ("cpu", "cuda") and each.is_floating_point() for each in parameters)
    return True if usable else None


def _parameters(optimizer: torch.optim.Optimizer) -> list[tuple[nn.Parameter, float]]:
    return [(p, group["lr"]) for group in optimizer.param_groups for p in group["params"] if p.grad is not None]


class _KerasSGD(torch.optim.SGD):
    @torch.no_grad()
    def step(self) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        for group in self.param_groups:
            rate, momentum = group["lr"], group["momentum"]
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                gradient = parameter.grad.add(parameter, alpha=group["weight_decay"])
                state = self.state[parameter]
                velocity = state.setdefault("momentum_buffer", torch.zeros_like(parameter))
                velocity.mul_(momentum).sub_(gradient, alpha=rate)
                parameter.add_(velocity.mul(momentum).sub_(gradient, alpha=rate) if group["nesterov"] else velocity)


class _Lamb(torch.optim.Optimizer):
    def __init__(self, parameters: list[nn.Parameter], defaults: dict[str, Any]) -> None:
        super().__init__(parameters, defaults)

    @torch.no_grad()
    def step(self) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for parameter in group["params"]:
                gradient = parameter.grad
                if gradient is None:
                    continue
                state = self.state[parameter]
                if not state:
                    state["step"] = torch.zeros(())
                    state["exp_avg"] = torch.zeros_like(parameter)
                    state["exp_avg_sq"] = torch.zeros_like(parameter)
                state["step"] += 1
                step = float(state["step"])
                m = state["exp_avg"].mul_(beta1).add_(gradient, alpha=1 - beta1) / (1 - beta1**step)
                v = state["exp_avg_sq"].mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2) / (1 - beta2**step)
                update = m / (v.sqrt_() + group["eps"]) + group["weight_decay"] * parameter
                weight_norm, update_norm = torch.linalg.vector_norm(parameter), torch.linalg.vector_norm(update)
                usable = (weight_norm > 0) & (update_norm > 0)
                trust = torch.where(usable, weight_norm / update_norm.clamp_min(1e-38), 1.0)
                parameter.sub_(update.mul_(trust * group["lr"]))
