"""The verb for how training scales."""

from pathlib import Path

from climlab_dl.cli.app import AsJson, Count, app


@app.command
def scaling(
    *, ranks: tuple[Count, ...] = (8, 64, 512, 4096, 32768, 100_000), plot: Path | None = None, as_json: AsJson = False
) -> None:
    """Model how training scales to many ranks, and compare with what was published.

    Example: climlab-dl scaling --ranks 8 512 100000 --plot scaling.png

    Args:
        ranks: Numbers of ranks.
        plot: Picture (``*.png``, ``*.pdf`` or ``*.svg``) of the efficiency of each technique up to 100,000 ranks.
        as_json: Print JSON for a script: {"published": [...], "today": [...]}.
    """
    import json

    from climlab_dl.performance import machines

    published, today = machines.published(), machines.today(ranks)
    if plot is not None:
        from climlab_dl.plot import efficiency

        efficiency.curves(machines.today(), path=plot)
    if as_json:
        print(json.dumps({"published": published.to_dict("records"), "today": today.to_dict("records")}, indent=2))
        return
    print("Efficiency: the rate per rank over that of one rank with nothing to wait for.\n")
    print(published.to_string(index=False, float_format="{:.3f}".format))
    for machine, rows in today.groupby("machine", sort=False):
        print(f"\n{machine}, {rows['workload'].iloc[0]}")
        wide = rows.pivot(index="technique", columns="ranks", values="efficiency").loc[rows["technique"].unique()]
        print(wide.to_string(float_format="{:.3f}".format))
