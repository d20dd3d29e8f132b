"""What the library advises, in the words of the shell."""

import re
import shlex

_WITH_NAMES = ("check", "convert", "detect", "events", "label", "map", "stats", "train")
"""Verbs that take ``--names``; what the others read is renamed with ``convert`` first."""

_LABEL = "climlab-dl label SOURCE --out labelled.nc"
_OTHERS = (
    ("archive.save(fields.assign(mask=heuristics.label(fields)), folder)", _LABEL),
    ("engines.train(run, folder)", "climlab-dl train SOURCE --folder FOLDER RUN"),
    ("engines.train or climlab-dl train fills", "climlab-dl train fills"),
    ("archive.open converts units, archive.check finds such values", "climlab-dl check finds such values"),
    ("layout='deepcam' or layout='climatenet'", "--layout deepcam or --layout climatenet"),
    ("missing='mean'", "--missing mean"),
    ("learn from it with targets='unit'", "learn from it with --data.targets unit"),
    ("learn from it with targets='physical'", "learn from it with --data.targets physical"),
    (
        'give posterior.fit the ends, as prior={"Omega_m": (0.1, 0.5), ...}',
        "give the ends, as --prior Omega_m=0.1:0.5 ...",
    ),
    (
        "train with Universes(calibration=0.2), or pass calibration= universes that it has not seen (",
        "train with --data.calibration 0.2 (",
    ),
    ("give size=, such as (64, 64, 64)", "give --size, such as --size 64 64 64"),
    (" are for events.read_tracks.)", " are read in Python, with climlab_dl.events.read_tracks.)"),
)
_NAMES = re.compile(r"names=\{'(?P<theirs>[^']*)': (?:'(?P<ours>[^']*)'|None)\}(?: to archive\.open)?")

_PRESET = re.compile(r"preset=simulate\.(\w+)\(\)")
_UNIVERSES = re.compile(
    r"(?:(?P<open>Universes\()|(?<=: ))(?P<name>redshifts|parameters)=\((?P<all>[^)]*?),?\)(?(open)\))"
)
_CHANNELS = re.compile(r"ClimateArchive\(channels=\(([^)]*?),?\)\)")
_BATCH = re.compile(r"choose batch_size=(\d+)")
_MENDED = re.compile(r"d = xarray\.open_dataset\('FILE'.*?\.to_netcdf\('mended\.nc'\)")
_CROP = re.compile(r"(archive\.save\(archive\.open\()source(\)\.isel\(.*?\)\), 'crop\.nc'\))")


def in_shell(message: str, verb: str) -> str:
    """Say what to type instead of what to write in Python.

    Parameters
    ----------
    message
        Of an exception or a report.
    verb
        That the user called.
    """

    def names(match: re.Match[str]) -> str:
        option = "--names " + shlex.quote(f"{match['theirs']}={match['ours'] or ''}")
        return option if verb in _WITH_NAMES else f"{option} to climlab-dl convert"

    for python, shell in _OTHERS:
        message = message.replace(python, shell)
    message = _PRESET.sub(lambda match: f"--preset {match[1]}", _NAMES.sub(names, message))
    message = _UNIVERSES.sub(lambda match: f"--data.{match['name']} {_words(match['all'])}", message)
    message = _CHANNELS.sub(lambda match: f"--data.channels {_words(match[1])}", message)
    message = _BATCH.sub(r"choose --batch-size \1", message)
    message = _MENDED.sub(r'python -c "import xarray; \g<0>"', message)
    return _CROP.sub(r'''python -c "from climlab_dl import archive; \1'FILES'\2"''', message)


def _words(items: str) -> str:
    """Turn the items of a tuple, as Python writes them, into words of a command."""
    return items.replace("'", "").replace(",", "")
