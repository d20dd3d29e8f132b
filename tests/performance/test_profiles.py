"""Where the time goes: found where it was spent, and drawn."""

import hashlib

import matplotlib.image
import pandas as pd
import torch

from climlab_dl.performance import profiles


def test_operations_of_torch_are_told_apart():
    matrix = torch.rand(300, 300)
    seconds = profiles.by_operation(lambda: [matrix @ matrix for _ in range(20)])
    assert seconds.index[0] == "aten::mm"
    assert seconds["aten::mm"] > 0.5 * seconds.sum()


def test_functions_are_named_with_their_file():
    def slow() -> None:
        for _ in range(200):
            hashlib.sha256(bytes(100_000))

    seconds = profiles.by_function(slow)
    assert seconds.idxmax() in ("_hashlib.openssl_sha256", "openssl_sha256")
    assert any(name == "slow (performance/test_profiles.py)" for name in seconds.index)


def test_a_picture_shows_the_longest_and_sums_up_the_rest(tmp_path):
    seconds = pd.Series({f"operation {number}": 1.0 / (number + 1) for number in range(30)})
    path = profiles.draw(seconds, "thirty operations", tmp_path / "new" / "profile.png")
    height, width, _ = matplotlib.image.imread(path).shape
    assert width > height > 400  # thirteen bars
