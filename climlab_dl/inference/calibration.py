"""Whether posteriors mean what they say: ranks, coverage and TARP on universes that nothing was fitted to.

    checked = calibration.check(fitted, held_out_files)
    checked.ok, checked.table()

`posteriors.calibration` and `posteriors.predicted` draw it.
"""

import warnings

import numpy as np

from climlab_dl.cosmology import volumes
from climlab_dl.inference.coverage import Calibration, warn_of_few
from climlab_dl.inference.posterior import Posterior

__all__ = ["Calibration", "check"]


def check(posterior: Posterior, held_out: volumes.Source, draws: int = 500, seed: int = 0) -> Calibration:
    """Draw the posterior of universes of known parameters that took no part in training or fitting.

    Warns where the posteriors turn out not to be calibrated, and where there are too few universes to tell.

    Parameters
    ----------
    posterior
        From :func:`climlab_dl.inference.posterior.fit`.
    held_out
        Files of universes, or volumes as `posterior.held_out` gives them, at least 30.
    draws
        For each universe.
    seed
        Of the draws.

    Returns
    -------
    Calibration
        ``ok`` is the verdict, ``table()`` the numbers; `posteriors.calibration` and `posteriors.predicted` draw it.
    """
    estimates, _, unit = posterior.summaries.of(held_out, posterior.prior)
    summaries = posterior.to_unit(estimates)
    seeds = np.random.SeedSequence(seed).generate_state(len(unit))
    drawn = [posterior.likelihood.draw(s[None], draws, int(one)) for s, one in zip(summaries, seeds, strict=True)]
    checked = warn_of_few(
        Calibration(names=posterior.names, truth=unit, draws=np.stack(drawn), seed=seed, prior=posterior.prior)
    )
    if not checked.ok:
        p = ", ".join(f"{name} {value:.2g}" for name, value in checked.p_values().items())
        warnings.warn(
            f"the posteriors are not calibrated on {len(unit)} held-out universes (rank test p: {p}; TARP "
            f"{'inside' if checked.tarp_ok else 'outside'} its band): give more calibration universes, or fit with the "
            "other method",
            stacklevel=2,
        )
    return checked
