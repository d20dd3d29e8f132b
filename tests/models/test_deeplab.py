"""DeepLabv3+ as published in 2018 and as MLPerf's reference."""

import pytest
import torch

from climlab_dl.models.deeplab import DeepLab
from climlab_dl.models.layers import Conv2d


def build(description: DeepLab):
    with torch.device("meta"):
        return description.build(16, 3)


def parameters(network) -> int:
    return sum(p.numel() for p in network.parameters())


def test_mlperfs_network_has_its_56_454_720_parameters():
    assert parameters(build(DeepLab.mlperf())) == 56_454_720


def test_the_published_network_has_resnet_50s_parameters_and_its_decoders():
    # Bottleneck of width w on c channels: c w + 9 w^2 + (4 w^2 + 4 w); a first one adds its shortcut 4 w c + 4 w.
    encoder = 49 * 16 * 64 + 64
    before = 64
    for units, w in ((3, 64), (4, 128), (6, 256), (3, 512)):
        encoder += 4 * w * before + 4 * w
        for _ in range(units):
            encoder += before * w + 9 * w * w + 4 * w * w + 4 * w
            before = 4 * w
    pyramid = 2048 * 256 + 3 * 9 * 2048 * 256 + 2048 * 256 + 5 * 256 * 256
    up = 9 * 256 * 256 + 256
    decoder = 64 * 48 + up + 9 * 304 * 256 + 9 * 256 * 256 + 2 * up
    decoder += 9 * 16 * 64 + 64 + 9 * 64 * 128 + 128 + 9 * 384 * 256 + 256 + 9 * 256 * 256 + 256 + 256 * 3 + 3
    network = build(DeepLab.kurth())
    assert parameters(network.encoder) == encoder
    assert parameters(network) == encoder + pyramid + decoder


@pytest.mark.parametrize(
    ("description", "deep", "low_level"),
    [
        (DeepLab.kurth(), (2048, 96, 144), (64, 192, 288)),
        (DeepLab.mlperf(), (2048, 48, 72), (128, 192, 288)),
        (DeepLab(backbone="xception", output_stride=8), (2048, 96, 144), (128, 192, 288)),
        (DeepLab(backbone="resnet101", output_stride=16), (2048, 48, 72), (64, 192, 288)),
        (DeepLab(backbone="resnet14", output_stride=4), (2048, 192, 288), (64, 192, 288)),
        (DeepLab(backbone="resnet14", output_stride=2), (2048, 384, 576), (64, 384, 576)),
        (DeepLab(backbone="resnet20", output_stride=8), (1024, 96, 144), (64, 192, 288)),
    ],
)
def test_encoders_give_their_maps_at_the_output_stride_and_at_a_quarter_or_finer(description, deep, low_level):
    network, fields = build(description), torch.empty(1, 16, 768, 1152, device="meta")
    assert [tuple(f.shape[1:]) for f in network.encoder(fields)] == [deep, low_level]
    assert network(fields).shape == (1, 3, 768, 1152)


@pytest.mark.parametrize(("full_resolution", "output_stride"), [(True, 2), (True, 4), (False, 2), (False, 4)])
def test_decoders_reach_full_resolution_from_fine_maps_too(full_resolution, output_stride):
    network = build(DeepLab(backbone="resnet14", output_stride=output_stride, full_resolution=full_resolution))
    assert network(torch.empty(1, 16, 12, 20, device="meta")).shape == (1, 3, 12, 20)


def test_refinements_add_two_convolutions_each_and_leave_the_rest_of_the_network_alone():
    plain, fine = (
        build(DeepLab(norm="batch", linear_upsampling=False, refinements=dilations)) for dilations in ((), (1, 4))
    )
    # Two 3x3 kernels without bias and their normalisations' scales and shifts, at 256 features.
    assert parameters(fine) - parameters(plain) == 2 * 2 * (9 * 256 * 256 + 2 * 256)
    last = ("head.decide.2.", "head.decide.3.", "head.decide.4.")
    before = [
        [name for name, _ in network.named_parameters() if not any(part in name for part in last)]
        for network in (plain, fine)
    ]
    assert before[0] == before[1]
    decide = fine.get_submodule("decoder.head.decide")
    kernels = [m for m in decide.modules() if isinstance(m, Conv2d) and m.kernel_size == (3, 3)]
    assert [kernel.dilation[0] for kernel in kernels] == [1, 1, 1, 1, 4, 1]


def test_a_pixel_sees_as_far_as_the_refinements_reach():
    # Without pyramid and encoder: a change of one pixel of the features that the decoder decides on.
    torch.manual_seed(0)
    network = DeepLab(width=4, depth=4, low_level=4, norm="none", linear_upsampling=False, refinements=(2, 3))
    decide = network.build(2, 3).get_submodule("decoder.head.decide")
    features = torch.zeros(1, 6, 33, 48)
    with torch.no_grad():
        before = decide(features)
        features[0, :, 16, 0] = 1.0
        rows, columns = (decide(features) - before)[0].abs().sum(0).nonzero(as_tuple=True)
    # 1 + 1 of the two convolutions, 2 + 1 and 3 + 1 of the refinements; the map has no edge in longitude.
    assert (rows - 16).abs().max() == 9
    assert torch.minimum(columns, 48 - columns).max() == 9


def test_resnets_dilations_double_where_strides_end():
    # Output stride 8: block 1 and 2 as usual, block 3 dilated by 2, block 4 by 4.
    modules = build(DeepLab.kurth()).encoder.modules()
    middle = [m for m in modules if isinstance(m, Conv2d) and m.kernel_size == (3, 3)]
    assert [conv.dilation[0] for conv in middle] == [1] * 7 + [2] * 6 + [4] * 3
    assert [conv.stride[0] for conv in middle] == [1, 1, 2] + [1] * 13


@pytest.mark.parametrize("description", [DeepLab.small(), DeepLab.mlperf()])
def test_one_snapshot_is_enough_to_train_on(description):
    # The image pooling's single pixel would leave batch normalisation nothing to average.
    network = build(description)
    assert network(torch.empty(1, 16, 96, 192, device="meta")).shape == (1, 3, 96, 192)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"backbone": "vgg"}, "backbone is 'vgg'"),
        ({"output_stride": 32}, "output_stride is 32"),
        ({"backbone": "xception", "output_stride": 4}, "output_stride is 4"),
        ({"rates": (0,)}, "rates is"),
        ({"width": 30}, "multiple of 4"),
        ({"norm": "layer"}, "norm is 'layer'"),
        ({"refinements": (2, 0)}, "refinements is"),
        ({"refinements": (2,), "linear_upsampling": False, "full_resolution": False}, "give full_resolution=True"),
        ({"refinements": (2,)}, "and linear_upsampling=False, or no refinements"),
    ],
)
def test_descriptions_that_make_no_network_are_refused(arguments, words):
    with pytest.raises(ValueError, match=words):
        DeepLab(**arguments)
