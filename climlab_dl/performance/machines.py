"""What the scaling model is held against, what it is asked about, and its constants.

Known are nodes, networks and gradients, the times of a step on one rank (Kurth et al. 2018, Mathuriya et al. 2018), and
that of a short MPI message. Four constants are fitted, by least squares to the thirteen points of :func:`published`:

- ``ATTAINED``, the share of a network's nominal bandwidth that an all-reduce gets, one for all machines;
- ``SPREAD``, by which the steps of nodes differ, one for all machines;
- ``DAINT_DELAY``, of reads from Piz Daint's shared file system, for the four logged runs there;
- ``CORI_READER``, a reader's rate on Cori, for the six logged runs there, which keep 0.46 of the paper's rate per node
  on 128 nodes and on 8,192 alike.

The efficiencies of Kurth et al. are those that they state. Their sustained FLOP/s over their table of one GPU would
give 0.95 for DeepLabv3+ and 0.89 for Tiramisu, so that what they compare with is not that table.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pandas as pd

from climlab_dl.performance.collectives import Machine, Network
from climlab_dl.performance.scaling import Source, Technique, Workload, step, sweep

ATTAINED = 0.24
SPREAD = 0.034
DAINT_DELAY = 0.037  # s
CORI_READER = 29.6e6  # bytes/s

# OSU's ping-pong takes 3 to 5 us for 4 to 8 KiB on EDR InfiniBand: about the pieces of a ring of thousands.
_MESSAGE = 4e-6


def _network(nominal: float) -> Network:
    return Network(latency=_MESSAGE, bandwidth=ATTAINED * nominal)


# Six V100 joined by NVLink, 50 GB/s each way; two rails of EDR InfiniBand.
SUMMIT = Machine(name="Summit", ranks_per_node=6, across=_network(25e9), within=_network(50e9), spread=SPREAD)
# One P100, or one KNL, on Aries: 10.2 GB/s into a node.
DAINT = Machine(name="Piz Daint", across=_network(10.2e9), within=_network(10.2e9), spread=SPREAD)
CORI = Machine(name="Cori", across=_network(10.2e9), within=_network(10.2e9), spread=SPREAD)
# Eight H100 on NVLink (450 GB/s each way), each with 400 Gb/s of InfiniBand.
H100 = Machine(name="H100 nodes", ranks_per_node=8, across=_network(400e9), within=_network(450e9), spread=SPREAD)
# Eight dies of MI250X (50 GB/s each way), four links of 200 Gb/s Slingshot.
FRONTIER = Machine(name="Frontier", ranks_per_node=8, across=_network(100e9), within=_network(50e9), spread=SPREAD)

_SNAPSHOT, _VOLUME = 16 * 768 * 1152 * 4.0, 128**3 * 4.0
_DEEPLAB, _TIRAMISU, _COSMOFLOW = 43_669_251 * 4.0, 7_134_211 * 4.0, 7_041_443 * 4.0
# Horovod gathers gradients to this size; the Cray plug-in sends CosmoFlow's, which are smaller, at once.
_FUSED = 64 * 2.0**20
_AT_ONCE = Technique(route="tree", bucket_bytes=_FUSED)


@dataclass(frozen=True, kw_only=True)
class Point:
    """A published efficiency, and the training that had it."""

    what: str
    machine: Machine
    workload: Workload
    technique: Technique
    source: Source
    ranks: int
    efficiency: float


def _logs(machine: Machine, rate: float, source: Source, rates: dict[int, float]) -> list[Point]:
    """Take samples per second that CosmoFlow's authors logged, on numbers of nodes, over ``rate`` of one node each."""
    workload = Workload(name="CosmoFlow", seconds=1 / rate, gradient_bytes=_COSMOFLOW, sample_bytes=_VOLUME)
    told: dict[str, Any] = {
        "what": "stored logs",
        "machine": machine,
        "workload": workload,
        "technique": _AT_ONCE,
        "source": source,
    }
    return [Point(**told, ranks=ranks, efficiency=seen / ranks / rate) for ranks, seen in rates.items()]


# 535 GFLOP/s of a node, at 69.33 GFLOP a sample.
_KNL = 535 / 69.33
POINTS = (
    Point(
        what="Kurth et al. 2018", machine=SUMMIT, ranks=27_360, efficiency=0.907, source=Source(),
        workload=Workload(name="DeepLabv3+, fp32", seconds=1 / 0.87, gradient_bytes=_DEEPLAB),
        technique=Technique(route="hierarchical", bucket_bytes=_FUSED),
    ),
    Point(
        what="Kurth et al. 2018", machine=DAINT, ranks=5_300, efficiency=0.790, source=Source(),
        workload=Workload(name="Tiramisu, fp32", seconds=1 / 1.20, gradient_bytes=_TIRAMISU),
        technique=Technique(route="ring", bucket_bytes=_FUSED),
    ),
    Point(
        what="Mathuriya et al. 2018", machine=CORI, ranks=8_192, efficiency=0.77, source=Source(),
        workload=Workload(name="CosmoFlow", seconds=1 / _KNL, gradient_bytes=_COSMOFLOW),
        technique=_AT_ONCE,
    ),
    *_logs(
        CORI, _KNL, Source(rank_rate=CORI_READER),
        {128: 445, 256: 880, 512: 1843.5, 1024: 3651.5, 4096: 14_149, 8192: 29_714},
    ),
    *_logs(DAINT, 5.83, Source(delay=DAINT_DELAY), {128: 316, 256: 666, 512: 1301, 1024: 2136}),
)  # fmt: skip


def published() -> pd.DataFrame:
    """Compare the model with what was published.

    Returns
    -------
    pandas.DataFrame
        A row per point: what, machine, workload, ranks, published and modelled efficiency, and their difference.
    """
    rows = []
    for point in POINTS:
        taken = step(point.machine, point.workload, point.technique, point.source, point.ranks)
        rows.append(
            {
                "what": point.what, "machine": point.machine.name, "workload": point.workload.name,
                "ranks": point.ranks, "published": point.efficiency, "modelled": taken.efficiency,
                "difference": taken.efficiency - point.efficiency,
            }
        )  # fmt: skip
    return pd.DataFrame(rows)


# Matrix rates in half precision; Kurth et al. reached 0.31 of a V100's with DeepLabv3+, 14.41 TFLOP a snapshot.
_SHARE, _TFLOP = 0.31, 14.41
TODAY = tuple(
    (
        machine,
        Workload(
            name="DeepLabv3+, bf16", samples=2, seconds=2 * _TFLOP / (_SHARE * rate), gradient_bytes=_DEEPLAB,
            sample_bytes=_SNAPSHOT,
        ),
        shared,
    )
    # Dense TFLOP/s of a rank; bytes per second of the machine's file system.
    for machine, rate, shared in ((H100, 989, 2.5e12), (FRONTIER, 191.5, 10e12))
)  # fmt: skip


RANKS = (8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 100_000)


def today(ranks: Iterable[int] = RANKS) -> pd.DataFrame:
    """Ask the model about today's machines, with and without each technique.

    Parameters
    ----------
    ranks
        How many.

    Returns
    -------
    pandas.DataFrame
        As of :func:`climlab_dl.performance.scaling.sweep`.
    """
    counts = list(ranks)
    return pd.concat(
        [sweep(machine, workload, techniques(shared), counts) for machine, workload, shared in TODAY], ignore_index=True
    )


def techniques(shared: float) -> dict[str, tuple[Technique, Source]]:
    """List ways to train, from one ring to all that Kurth et al. did, and that without their staging.

    Parameters
    ----------
    shared
        Bytes per second of the file system that all ranks would read from.
    """
    best = Technique(route="hierarchical", compression=0.5, lag=1)
    return {
        "one ring": (Technique(route="ring"), Source()),
        "tree": (Technique(route="tree"), Source()),
        "hierarchical": (Technique(route="hierarchical"), Source()),
        "+ half precision": (Technique(route="hierarchical", compression=0.5), Source()),
        "+ lag": (best, Source()),
        "no staging": (best, Source(total_rate=shared)),
    }
