"""Convolutions in the memory format that suits each direction: the same numbers, whatever the way."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from climlab_dl.models.convolve import WIDE, as_read
from climlab_dl.models.layers import Conv2d, Upsample2d, wrap


def plainly(layer: nn.Module, x: Tensor) -> Tensor:
    """What torch's own functions and autograd make of the wrapped map."""
    if isinstance(layer, Upsample2d):
        seam = int(layer.periodic)
        doubled = F.conv_transpose2d(wrap(x, 0, seam), layer.weight, layer.bias, 2, 1, layer.output_padding)
        return doubled[..., : 2 * x.shape[-1]]
    assert isinstance(layer, Conv2d)
    wrapped = wrap(x, layer.seam, layer.seam)
    return F.conv2d(wrapped, layer.weight, layer.bias, layer.stride, layer.padding, layer.dilation, layer.groups)


LAYERS = {
    "3x3": lambda padding: Conv2d(6, 5, 3, padding=padding),
    "strided": lambda padding: Conv2d(6, 5, 3, stride=2, padding=padding),
    "further round than once": lambda padding: Conv2d(6, 5, 3, dilation=14, padding=padding),
    "depthwise": lambda padding: Conv2d(6, 6, 3, dilation=2, groups=6, bias=False, padding=padding),
    "wide": lambda padding: Conv2d(WIDE, WIDE, 3, padding=padding),
    "1x1": lambda padding: Conv2d(6, 5, 1, padding=padding),
    "1x1, strided": lambda padding: Conv2d(6, 5, 1, stride=2, padding=padding, bias=False),
    "doubling": lambda padding: Upsample2d(6, 5, padding=padding),
    "doubling, wide": lambda padding: Upsample2d(20, 16, padding=padding),
}


@pytest.mark.parametrize("kind", LAYERS)
@pytest.mark.parametrize("padding", ["periodic", "zeros"])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_result_and_gradients_are_those_of_a_plain_convolution(kind, padding, layout):
    torch.manual_seed(0)
    layer = LAYERS[kind](padding).double()
    x = torch.randn(2, layer.in_channels, 4, 6).double().contiguous(memory_format=layout).requires_grad_()
    found = [
        [result, *torch.autograd.grad(result.square().sum(), [x, *layer.parameters()])]
        for result in (layer(x), plainly(layer, x))
    ]
    for ours, plain in zip(*found, strict=True):
        torch.testing.assert_close(ours, plain)


@pytest.mark.parametrize("kind", LAYERS)
def test_gradients_in_single_precision_are_those_in_double(kind):
    # oneDNN computes in float32 only, so the test above does not reach it.
    torch.manual_seed(0)
    layer = LAYERS[kind]("periodic")
    x = as_read(torch.randn(1, layer.in_channels, 24, 36)).requires_grad_()
    gradients = torch.autograd.grad(layer(x).square().sum(), [x, *layer.parameters()])
    layer.double()
    exact = torch.autograd.grad(layer(x.double()).square().sum(), [x, *layer.parameters()])
    for single, double in zip(gradients, exact, strict=True):
        assert (single - double).norm() < 1e-5 * double.norm()


@pytest.mark.parametrize("padding", ["periodic", "zeros"])
@pytest.mark.parametrize(
    ("channels", "dilation", "groups"), [(40, 2, 1), (20, 2, 1), (36, 6, 1), (20, 2, 20), (48, 2, 1)]
)
def test_gradients_of_dilated_kernels_in_bfloat16_are_near_those_in_double(channels, dilation, groups, padding):
    # Of channels last that are no multiple of 16, oneDNN 3.12 made NaN here, or ended the process.
    torch.manual_seed(0)
    layer = Conv2d(channels, 40 if groups == 1 else channels, 3, dilation=dilation, groups=groups, padding=padding)
    x = as_read(torch.randn(2, channels, 24, 48)).requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        result = layer(x)
    gradients = torch.autograd.grad(result.float().square().sum(), [x, *layer.parameters()])
    layer.double()
    exact = torch.autograd.grad(layer(x.double()).square().sum(), [x, *layer.parameters()])
    for half, double in zip(gradients, exact, strict=True):
        assert (half - double).norm() < 1e-2 * double.norm()


def test_the_gradient_of_a_strided_1x1_kernel_stays_within_its_memory():
    # 12 x 36 channels last, on a map of 96 x 192: oneDNN 3.12 ended the process here, or left wrong numbers.
    for _ in range(3):
        x = as_read(torch.randn(2, 12, 96, 192))
        layer = Conv2d(12, 36, 1, stride=2, bias=False, padding="zeros")
        layer(x).square().sum().backward()
        # d/dw sum_p (sum_c w_oc x_cp)^2 = 2 sum_p y_op x_cp
        seen = x[:, :, ::2, ::2].double()
        y = torch.einsum("oc,bchw->bohw", layer.weight[..., 0, 0].double(), seen)
        expected = 2 * torch.einsum("bohw,bchw->oc", y, seen)
        assert layer.weight.grad is not None
        torch.testing.assert_close(layer.weight.grad[..., 0, 0].double(), expected, rtol=1e-4, atol=1e-2)


@pytest.mark.parametrize("padding", ["periodic", "zeros"])
def test_a_map_is_kept_for_the_gradient_once_and_not_wrapped(padding):
    kept = []
    layer, x = Conv2d(3, 4, 3, padding=padding), torch.randn(1, 3, 8, 12, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t.data_ptr()) or t, lambda t: t):
        layer(x)
    assert sorted(kept) == sorted((layer.weight.data_ptr(), x.data_ptr()))


def test_maps_are_read_with_the_channels_of_a_pixel_together():
    fields, volumes = torch.randn(1, 3, 4, 6), torch.randn(1, 3, 4, 4, 4)
    assert as_read(fields).stride() == (72, 1, 18, 3)
    assert as_read(volumes).stride() == (192, 1, 48, 12, 3)
    assert torch.equal(as_read(fields), fields)
