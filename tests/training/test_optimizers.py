from math import inf, nan

import pytest
import torch
from torch import nn

from climlab_dl.training.optimizers import SGD, Adam, AdamW, Lamb, Larc


def parameter(*values: float) -> nn.Parameter:
    made = nn.Parameter(torch.tensor(values))
    made.grad = torch.zeros(len(values))
    return made


def step(description, weight: nn.Parameter, *gradients: tuple[float, ...]) -> torch.Tensor:
    optimizer = description.build([weight])
    for gradient in gradients:
        assert weight.grad is not None
        weight.grad.copy_(torch.tensor(gradient))
        optimizer.step()
    return weight.detach()


def test_larc_clips_the_effective_rate_to_the_trust_ratio():
    # |w| = 5, |g| = 10: lambda = 0.002 * 5 / 10 = 0.001, below the rate 0.1, so w loses 0.001 g.
    found = step(Larc(optimizer=SGD(learning_rate=0.1, momentum=0)), parameter(3.0, 4.0), (6.0, 8.0))
    torch.testing.assert_close(found, torch.tensor([3.0 - 0.006, 4.0 - 0.008]))


def test_larc_never_raises_the_rate_above_the_optimisers_own():
    # lambda = 0.002 * 5 / 0.001 = 10 is above the rate 0.1, so w loses 0.1 g.
    found = step(Larc(optimizer=SGD(learning_rate=0.1, momentum=0)), parameter(3.0, 4.0), (0.0006, 0.0008))
    torch.testing.assert_close(found, torch.tensor([3.0 - 0.00006, 4.0 - 0.00008]))


def test_the_clip_of_2018_bounds_the_ratio_itself_by_one():
    # min(lambda, 1) g = 0.001 g times the rate 0.1.
    larc = Larc(optimizer=SGD(learning_rate=0.1, momentum=0), form="clip_sc18")
    torch.testing.assert_close(step(larc, parameter(3.0, 4.0), (6.0, 8.0)), torch.tensor([3.0 - 0.0006, 4.0 - 0.0008]))
    torch.testing.assert_close(larc.factor(torch.tensor([5.0]), torch.tensor([1e-3]), 0.1), torch.tensor(1.0))


def test_the_scale_form_is_the_ratio_itself():
    # lambda = 0.002 * 5 / 0.001 = 10.
    larc = Larc(form="scale")
    torch.testing.assert_close(
        larc.factor(torch.tensor([3.0, 4.0]), torch.tensor([6e-4, 8e-4]), 0.1), torch.tensor(10.0)
    )


@pytest.mark.parametrize("weight_and_gradient", [((0.0, 0.0), (1.0, 1.0)), ((1.0, 1.0), (0.0, 0.0))])
def test_larc_falls_back_to_epsilon_where_a_norm_is_zero(weight_and_gradient):
    weight, gradient = (torch.tensor(values) for values in weight_and_gradient)
    assert float(Larc(form="scale").factor(weight, gradient, 0.1)) == pytest.approx(1 / 16000)


def test_adam_hardly_notices_larc_on_its_gradient_but_does_on_its_update():
    weight, gradient = (3.0, 4.0), (6.0, 8.0)
    plain = step(Adam(learning_rate=0.1), parameter(*weight), gradient)
    on_gradient = step(Larc(optimizer=Adam(learning_rate=0.1)), parameter(*weight), gradient)
    on_update = step(Larc(optimizer=Adam(learning_rate=0.1), placement="update"), parameter(*weight), gradient)
    torch.testing.assert_close(on_gradient, plain, atol=1e-6, rtol=0)
    # Adam's first step over the rate is (1, 1) with norm sqrt 2; lambda = 0.002 * 5 / sqrt 2 = 0.0070711.
    torch.testing.assert_close(on_update, torch.tensor([3.0 - 0.0070711, 4.0 - 0.0070711]), atol=1e-6, rtol=0)


def test_larc_leaves_the_state_that_a_checkpoint_keeps_to_the_inner_optimiser():
    assert Larc().build([parameter(1.0)]).state_dict().keys() == Adam().build([parameter(1.0)]).state_dict().keys()
    assert Larc(optimizer=SGD(learning_rate=0.3)).learning_rate == 0.3


def test_lamb_takes_a_first_step_of_the_rate_times_the_weights_norm():
    # First step: u = g / |g| per element = (1, 1), norm sqrt 2; |w| = 5: each weight loses 0.01 * 5 / sqrt 2.
    found = step(Lamb(learning_rate=0.01, eps=0.0, weight_decay=0.0), parameter(3.0, 4.0), (6.0, 8.0))
    torch.testing.assert_close(found, torch.tensor([3.0 - 0.0353553, 4.0 - 0.0353553]))


def test_lamb_decays_weights_within_the_normalised_update():
    # u = (1 + 0.1 * 3, 1 + 0.1 * 4) = (1.3, 1.4), norm 1.910497; step 0.01 * 5 / 1.910497 * u.
    found = step(Lamb(learning_rate=0.01, eps=0.0, weight_decay=0.1), parameter(3.0, 4.0), (6.0, 8.0))
    torch.testing.assert_close(found, torch.tensor([3.0 - 0.0340225, 4.0 - 0.0366396]))


def test_keras_momentum_differs_from_torchs_only_while_the_rate_changes():
    constant = [step(SGD(rate_in_momentum=form), parameter(1.0), (1.0,), (2.0,), (0.5,)) for form in (True, False)]
    torch.testing.assert_close(*constant)

    def with_falling_rate(form: bool) -> float:
        weight = parameter(1.0)
        optimizer = SGD(learning_rate=0.1, momentum=0.5, rate_in_momentum=form).build([weight])
        for rate in (0.1, 0.01):
            optimizer.param_groups[0]["lr"] = rate
            assert weight.grad is not None
            weight.grad.fill_(1.0)
            optimizer.step()
        return weight.item()

    # Keras: v = -0.1, then -0.05 - 0.01 = -0.06: 1 - 0.16. Torch: 1, then 1.5 * 0.01 = 0.015: 1 - 0.115.
    assert with_falling_rate(True) == pytest.approx(0.84)
    assert with_falling_rate(False) == pytest.approx(0.885)


@pytest.mark.parametrize("nesterov", [True, False])
def test_keras_nesterov_and_decay_agree_with_torchs_at_a_constant_rate(nesterov):
    facts = {"learning_rate": 0.05, "momentum": 0.9, "nesterov": nesterov, "weight_decay": 0.01}
    both = [
        step(SGD(rate_in_momentum=form, **facts), parameter(1.0, -2.0), (1.0, 0.3), (2.0, 0.1))
        for form in (True, False)
    ]
    torch.testing.assert_close(*both)


def test_adamw_decays_apart_from_the_gradient():
    # With no gradient Adam's step is nothing, and the weight shrinks by rate * decay.
    torch.testing.assert_close(
        step(AdamW(learning_rate=0.1, weight_decay=0.5), parameter(2.0), (0.0,)), torch.tensor([1.9])
    )


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Adam(learning_rate=0), "learning_rate=0"),
        (lambda: SGD(learning_rate=inf), "learning_rate=inf"),
        (lambda: AdamW(weight_decay=nan), "weight_decay=nan"),
        (lambda: Adam(betas=(0.9, 1.0)), r"betas=\(0.9, 1.0\)"),
        (lambda: Lamb(learning_rate=nan), "learning_rate=nan"),
        (lambda: Lamb(betas=(nan, 0.999)), r"betas=\(nan"),
        (lambda: Lamb(eps=nan), "eps=nan"),
        (lambda: Adam(eps=-1), "eps=-1"),
        (lambda: SGD(weight_decay=-1), "weight_decay=-1"),
        (lambda: SGD(momentum=1), "momentum=1"),
        (lambda: SGD(momentum=0, nesterov=True), "momentum=0: nesterov"),
        (lambda: Larc(trust=inf), "trust=inf"),
        (lambda: Larc(epsilon=0), "epsilon=0"),
        (lambda: Larc(form="clamp"), "form='clamp'"),  # pyright: ignore[reportArgumentType]
        (lambda: Larc(trust=0), "trust=0"),
        (lambda: Larc(placement="weights"), "placement='weights'"),  # pyright: ignore[reportArgumentType]
    ],
)
def test_an_impossible_optimiser_is_refused_by_name(make, says):
    with pytest.raises(ValueError, match=says):
        make()
