"""Tiramisu as published."""

import pytest
import torch

from climlab_dl.models.tiramisu import Tiramisu


def parameters(description: Tiramisu, channels: int = 16) -> int:
    with torch.device("meta"):
        return sum(p.numel() for p in description.build(channels, 3).parameters())


def test_the_published_network_has_the_authors_parameters_without_their_unused_transition():
    # Below the last block (64 + 32 x (2 + 2 + 2 + 4 + 5) = 544 features) the authors' code builds a 1x1 transition that
    # nothing uses: 544^2 + 544 = 296,480. With it they count 7,801,315.
    assert parameters(Tiramisu.kurth()) == 7_801_315 - 544**2 - 544


def test_the_daint_variant_differs_in_stem_and_channels_only():
    # 16 features fewer enter each dense layer (15 on the way down, 10 up), each transition and the head.
    kurth, daint = Tiramisu.kurth(), Tiramisu.daint()
    stem = 25 * (16 * 64 - 4 * 48) + 16
    layers = sum(kurth.blocks) + sum(kurth.blocks[:-1])
    dense = layers * 25 * 16 * 32
    transitions = sum(c**2 + c - (c - 16) ** 2 - (c - 16) for c in (128, 192, 256, 384))
    head = 16 * 3
    assert parameters(kurth) - parameters(daint, channels=4) == stem + dense + transitions + head


def test_the_last_map_has_256_features():
    # 64 + 64 from the first block, 64 from the transposed convolution, 64 from the last block.
    with torch.device("meta"):
        assert Tiramisu.kurth().build(16, 3).head.in_channels == 256


def test_dropout_acts_while_training_only():
    torch.manual_seed(0)
    network, x = Tiramisu(blocks=(1, 1), growth=4, stem=4, dropout=0.5).build(2, 3), torch.randn(1, 2, 8, 8)
    assert not torch.equal(network(x), network(x))
    network.eval()
    assert torch.equal(network(x), network(x))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"blocks": ()}, "blocks is"),
        ({"growth": 0}, "growth is 0"),
        ({"kernel": 4}, "odd"),
        ({"dropout": 1.0}, "dropout is 1.0"),
        ({"norm": "layer"}, "one of 'batch', 'group', 'half', 'none'"),
        ({"padding": "reflect"}, "one of 'periodic', 'zeros'"),
    ],
)
def test_descriptions_that_make_no_network_are_refused(arguments, words):
    with pytest.raises(ValueError, match=words):
        Tiramisu(**arguments)
