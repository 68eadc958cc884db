"""Renames the photographs of a camera card by date and puts doubles aside.

A picture taken on 7 November 2025 at 16:41:09 becomes ``2025-11-07_164109_ada.jpg``.
"""

import hashlib
import pathlib
import shutil

CARD = pathlib.Path("/media/card/DCIM")
TARGET = pathlib.Path("/tank/photos/inbox")
DOUBLES = pathlib.Path("/tank/photos/doubles")
MINIMUM_BYTES = 40_000  # thumbnails and broken files are smaller
CLOCK_ERROR_SECONDS = {"Pocket 3": 0, "Lumen X": -3600}  # the Lumen X still shows summer time


def fingerprint(path: pathlib.Path) -> str:
    """Hash of the first megabyte, enough to tell two photographs apart."""
    with path.open("rb") as handle:
        return hashlib.sha256(handle.read(1 << 20)).hexdigest()


def move_double(path: pathlib.Path) -> None:
    """Keeps doubles for ninety days; cron empties the folder."""
    shutil.move(path, DOUBLES / path.name)
