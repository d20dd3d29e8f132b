"""Mean, spread and range of every channel, and how common each class is: one streaming pass, merged exactly."""

import functools
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import torch

from climlab_dl.climate.fields import UNLABELLED
from climlab_dl.files import beside
from climlab_dl.parallel import ranks


@dataclass(frozen=True, kw_only=True)
class Statistics:
    """Statistics of the channels of an archive, in float64.

    Parameters
    ----------
    channels
        Names, in order.
    count
        How many numbers each channel had.
    mean, deviation, minimum, maximum
        One number per channel; ``deviation`` is the sum of squared deviations from the mean.
    class_counts
        How many pixels each class had; empty where there are no masks.
    """

    channels: tuple[str, ...]
    count: float
    mean: np.ndarray
    deviation: np.ndarray
    minimum: np.ndarray
    maximum: np.ndarray
    class_counts: np.ndarray

    @classmethod
    def empty(cls, channels: Sequence[str], classes: int = 0) -> "Statistics":
        """Statistics of nothing: the neutral element of :meth:`merge`."""
        zeros, infinite = np.zeros(len(channels)), np.full(len(channels), np.inf)
        return cls(
            channels=tuple(channels), count=0.0, mean=zeros, deviation=zeros, minimum=infinite, maximum=-infinite,
            class_counts=np.zeros(classes),
        )  # fmt: skip

    @classmethod
    def of(
        cls, values: np.ndarray, channels: Sequence[str], mask: np.ndarray | None = None, classes: int = 0
    ) -> "Statistics":
        """Statistics of one array (channel, ...), two passes in memory, and of its mask.

        Where one channel has a gap (NaN), the others' values are left out too.
        """
        flat = values.reshape(len(channels), -1)
        known = np.isfinite(flat).all(axis=0)
        flat = flat if known.all() else flat[:, known]
        if not flat.size:
            return cls.empty(channels, classes)
        mean, deviation = np.zeros(len(flat)), np.zeros(len(flat))
        for number, channel in enumerate(flat):  # one at a time: all in double precision would be twice the sample
            wide = channel.astype(np.float64)
            mean[number] = wide.mean()
            deviation[number] = np.square(wide - mean[number]).sum()
        counts = (
            np.zeros(classes)
            if mask is None
            else np.bincount(mask[mask != UNLABELLED], minlength=classes).astype(float)
        )
        return cls(
            channels=tuple(channels), count=float(flat.shape[1]), mean=mean, deviation=deviation,
            minimum=flat.min(axis=1).astype(np.float64), maximum=flat.max(axis=1).astype(np.float64),
            class_counts=counts,
        )  # fmt: skip

    def merge(self, other: "Statistics") -> "Statistics":
        """Statistics of both sets of numbers together (Chan, Golub & LeVeque 1983, eq. 2.1)."""
        if self.channels != other.channels:
            raise ValueError(f"cannot merge statistics of channels {self.channels} and {other.channels}")
        if 0 in (self.count, other.count):
            return self if other.count == 0 else other
        count = self.count + other.count
        difference = other.mean - self.mean
        return Statistics(
            channels=self.channels,
            count=count,
            mean=self.mean + difference * (other.count / count),
            deviation=self.deviation + other.deviation + difference**2 * (self.count * other.count / count),
            minimum=np.minimum(self.minimum, other.minimum),
            maximum=np.maximum(self.maximum, other.maximum),
            class_counts=self.class_counts + other.class_counts,
        )

    def over_ranks(self) -> "Statistics":
        """Statistics of what all ranks have seen, the same on each, by sums that do not grow with their number."""
        sums = np.concatenate([[self.count], self.count * self.mean, self.class_counts])
        count, *sums = np.split(_of_ranks(ranks.sum, sums), [1, 1 + len(self.mean)])
        mean = sums[0] / max(count[0], 1)
        deviation = self.deviation + self.count * np.square(self.mean - mean)
        ends = _of_ranks(ranks.largest, np.concatenate([-self.minimum, self.maximum]))
        return Statistics(
            channels=self.channels, count=float(count[0]), mean=mean, deviation=_of_ranks(ranks.sum, deviation),
            minimum=-ends[: len(mean)], maximum=ends[len(mean) :], class_counts=sums[1],
        )  # fmt: skip

    def facts(self) -> dict[str, Any]:
        """Return plain types and tensors, for a checkpoint: ``channels``, ``mean``, ``std`` and the rest."""
        arrays = ("mean", "std", "deviation", "minimum", "maximum", "class_counts")
        tensors = {name: torch.tensor(getattr(self, name), dtype=torch.float64) for name in arrays}
        return {"channels": list(self.channels), "count": self.count, **tensors}

    @classmethod
    def from_facts(cls, facts: Mapping[str, Any]) -> "Statistics":
        """Rebuild what :meth:`facts` gave."""
        arrays = ("mean", "deviation", "minimum", "maximum", "class_counts")
        tensors = {name: facts[name].numpy() for name in arrays}
        return cls(channels=tuple(facts["channels"]), count=facts["count"], **tensors)

    def with_class_counts(self, class_counts: np.ndarray) -> "Statistics":
        """Return the same channels with other class counts."""
        return replace(self, class_counts=class_counts)

    @property
    def std(self) -> np.ndarray:
        """Standard deviation per channel; 1 for a constant channel, which can then be divided by it."""
        std = np.sqrt(self.deviation / max(self.count, 1))
        return np.where(std > 0, std, 1.0)

    def scale(self, dimensions: int) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation per channel in float32, shaped for samples of so many dimensions."""
        shape = (-1, *[1] * dimensions)
        return self.mean.astype(np.float32).reshape(shape), self.std.astype(np.float32).reshape(shape)

    @property
    def class_frequencies(self) -> np.ndarray:
        """Share of the pixels per class."""
        return self.class_counts / self.class_counts.sum()

    def save_deepcam(self, path: Path | str) -> None:
        """Write DeepCAM's ``stats.h5``: climate/{count, mean, sqmean, minval, maxval}, float32."""
        # In memory first: of a file that the system cuts short HDF5 complains once for every object, to nobody.
        content = io.BytesIO()
        with h5py.File(content, "w") as file:
            group = file.create_group("climate")
            group["count"] = np.float32(self.count)
            for name, values in (
                ("mean", self.mean),
                ("sqmean", self.deviation / self.count + self.mean**2),
                ("minval", self.minimum),
                ("maxval", self.maximum),
            ):
                group[name] = values.astype(np.float32)
        with beside(Path(path)) as new:
            new.write_bytes(content.getvalue())

    @classmethod
    def load_deepcam(cls, path: Path | str, channels: Sequence[str], file_channels: Sequence[str]) -> "Statistics":
        """Read DeepCAM's ``stats.h5``.

        Parameters
        ----------
        path
            The file; its float32 mean squares leave a standard deviation uncertain by mean * 3e-4.
        channels
            Which channels to take.
        file_channels
            The channels of the file, in its order (``fields.CAM5``): the file does not name them.
        """
        with h5py.File(path, "r", locking=False) as file:
            group = file["climate"]
            missing = {"count", "mean", "sqmean", "minval", "maxval"} - set(group)  # pyright: ignore[reportArgumentType]
            if missing:
                raise ValueError(f"{path} lacks climate/{', climate/'.join(sorted(missing))}: not DeepCAM statistics")
            read = {name: np.asarray(group[name], dtype=np.float64) for name in group}  # pyright: ignore
        if len(read["mean"]) != len(file_channels):
            raise ValueError(f"{path} has {len(read['mean'])} channels, but file_channels names {len(file_channels)}")
        chosen = [list(file_channels).index(channel) for channel in channels]
        variance = np.maximum(read["sqmean"] - read["mean"] ** 2, 0.0)[chosen]
        return cls(
            channels=tuple(channels), count=float(read["count"]), mean=read["mean"][chosen],
            deviation=variance * float(read["count"]), minimum=read["minval"][chosen], maximum=read["maxval"][chosen],
            class_counts=np.zeros(0),
        )  # fmt: skip


def merged(parts: Iterable[Statistics]) -> Statistics:
    """Merge statistics of disjoint parts, from left to right."""
    return functools.reduce(Statistics.merge, parts)


def _of_ranks(reduce: Callable[[torch.Tensor, str], torch.Tensor], values: np.ndarray) -> np.ndarray:
    return reduce(torch.from_numpy(values), "statistics").numpy()
