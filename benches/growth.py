#!/usr/bin/env python3
"""Measures how time, memory and disk grow with the number of chunks.

  growth.py COLLECTION [SIZE...] [--unread N]
                                   for each size (default 1,000, 10,000 and 100,000) that many files of 10 to 14 words, one
                                   chunk each, and N files of a type that vic cannot read. Words are drawn at random with their
                                   frequency in corpus.jsonl of a BEIR-style folder. Prints a table: time until all files are
                                   found by words, time until all have vectors, disk and memory, a question over gRPC and by
                                   the command, from saving a file to finding it, from starting the daemon to its first
                                   answer.

Needs `vic` and `vicd` on the PATH. Works in its own folders and removes them. A million files take an hour or more.
"""
import json, random, re, statistics, subprocess, sys, tempfile, time
from collections import Counter
from itertools import accumulate
from pathlib import Path

from quality import Vic, read_jsonl

QUESTIONS = 400
SAVES = 40
STARTS = 3


class Words:
    """Draws random words with the frequencies they have in a collection."""

    def __init__(self, collection):
        texts = (document["text"].lower() for document in read_jsonl(Path(collection, "corpus.jsonl")))
        counted = Counter(word for text in texts for word in re.findall(r"[a-z]{3,12}", text)).most_common(25_000)
        self.words = [word for word, _ in counted]
        self.sums = list(accumulate(number ** 0.75 for _, number in counted))
        self.dice = random.Random(7)

    def draw(self, number):
        return " ".join(self.dice.choices(self.words, cum_weights=self.sums, k=number))


def write(folder, words, files):
    for number in range(files):
        place = Path(folder, f"{number // 1000 % 1000:03}")
        if number % 1000 == 0:
            place.mkdir(parents=True)
        (place / f"{number}.txt").write_text(words.draw(10 + number % 5).capitalize() + ".\n")


def write_unread(folder, files):
    for number in range(files):
        place = Path(folder, "unread", f"{number // 1000:03}")
        if number % 1000 == 0:
            place.mkdir(parents=True)
        (place / f"IMG_{number}.bin").write_bytes(bytes(range(16)))


def index(vic, folder):
    """Returns the seconds until every file is found by its words, and until every chunk has its vector."""
    begun, by_words = time.time(), None
    command = subprocess.Popen(["vic", "index", str(folder)], env=vic.env, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    while command.poll() is None:
        time.sleep(0.5)
        jobs = json.loads(vic.run("jobs", "--format", "json", check=False) or "[]")
        if by_words is None and any(it["phase"] == "vectors" for it in jobs):
            by_words = time.time() - begun
    whole = time.time() - begun
    return by_words or whole, whole


def part(times, share):
    return sorted(times)[min(len(times) - 1, int(len(times) * share))]


def questions(vic, words):
    """Returns the report of `vic bench search`, and the median time of the whole command `vic ask` in milliseconds."""
    asked = [words.draw(2 + number % 5) for number in range(QUESTIONS)]
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        file.writelines(json.dumps({"query": it}) + "\n" for it in asked)
        file.flush()
        bench = ["bench", "search", "--queries", file.name, "--clients", "1", "--rate", "10", "--seconds", "30"]
        told = json.loads(vic.run(*bench, "--format", "json"))
    commands = []
    for question in asked[:50]:
        begun = time.time()
        vic.ask(question, 10)
        commands.append(time.time() - begun)
    return told, statistics.median(commands) * 1e3


def saves(vic, folder):
    """Returns the seconds from saving a known file until a question finds its new text."""
    took = []
    for number in range(SAVES):
        mark = f"heronmark{number}x{int(time.time())}"
        begun = time.time()
        path = Path(folder, "000", f"{number}.txt")
        path.write_text(path.read_text() + f"The word is {mark}.\n")
        while not any(f"000/{number}.txt" in path for path in vic.ask(mark, 1)):
            if time.time() - begun > 60:
                sys.exit(f"`{path}` was not found within a minute")
        took.append(time.time() - begun)
        time.sleep(0.5)
    return took


def starts(vic):
    """Returns the seconds from starting the daemon to the first answer."""
    took = []
    for _ in range(STARTS):
        vic.run("daemon", "stop", check=False)
        begun = time.time()
        vic.run("daemon", "start")
        vic.ask("the first question", 10)
        took.append(time.time() - begun)
    return took


def measure(vic, folder, words):
    status = json.loads(vic.run("status", "--format", "json"))
    asked, command = questions(vic, words)
    # Uses the same keys as `vic bench --format json`.
    row = {
        "chunks": status["chunks"], "disk MiB": status["store_bytes"] / 2**20, "memory MiB": status["rss_mib"],
        "peak MiB": status["peak_rss_mib"], "p50 ms": asked["p50_ms"], "p99 ms": asked["p99_ms"], "vic ask ms": command,
        "save s p95": part(saves(vic, folder), 0.95), "start s": statistics.median(starts(vic)),
    }
    status = json.loads(vic.run("status", "--format", "json"))
    return row | {"started MiB": status["rss_mib"]}


def show(row):
    print("  ".join(f"{name} {value:,.4g}" if value < 1e4 else f"{name} {value:,.0f}" for name, value in row.items()), flush=True)


def main(collection, *sizes):
    unread = 0
    if "--unread" in sizes:
        *sizes, _, unread = sizes
    words = Words(collection)
    for size in [int(it) for it in sizes] or [1_000, 10_000, 100_000]:
        with tempfile.TemporaryDirectory(prefix="vic-growth-") as folder, Vic() as vic:
            write(folder, words, size)
            write_unread(folder, int(unread))
            by_words, whole = index(vic, folder)
            show({"found by words s": by_words, "with vectors s": whole} | measure(vic, folder, words))


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__.strip())
    main(*sys.argv[1:])
