"""Turns raw logger lines into readings and reports the gaps between them.

A logger line looks like ``2025-05-01T10:15:00Z;GP1;1843;ok``: time, station, level in
millimetres above chart datum, and a quality word.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Iterable, Iterator

EXPECTED_INTERVAL = timedelta(minutes=15)


@dataclass(frozen=True)
class Reading:
    """One water level at one station."""

    time: datetime
    station: str
    level_mm: int
    good: bool


def parse_line(line: str) -> Reading:
    """Parses one logger line.

    >>> parse_line("2025-05-01T10:15:00Z;GP1;1843;ok").level_mm
    1843
    """
    stamp, station, level, quality = line.strip().split(";")
    time = datetime.fromisoformat(stamp.replace("Z", "+00:00"))
    return Reading(time, station, int(level), quality == "ok")


def find_gaps(readings: Iterable[Reading]) -> Iterator[tuple[datetime, timedelta]]:
    """Yields where data are missing, as start of the gap and its length.

    Anything longer than one and a half intervals counts; shorter ones are clock jitter.
    """
    previous: Reading | None = None
    for reading in readings:
        if previous is not None:
            silence = reading.time - previous.time
            if silence > EXPECTED_INTERVAL * 1.5:
                yield previous.time, silence
        previous = reading


def fill_by_interpolation(before: Reading, after: Reading) -> list[Reading]:
    """Draws a straight line between two readings, marked as not good.

    Never use it across high water: the line cuts off the top of the tide.
    """
    steps = int((after.time - before.time) / EXPECTED_INTERVAL)
    rise = (after.level_mm - before.level_mm) / steps
    return [
        Reading(
            before.time + EXPECTED_INTERVAL * i,
            before.station,
            round(before.level_mm + rise * i),
            False,
        )
        for i in range(1, steps)
    ]
