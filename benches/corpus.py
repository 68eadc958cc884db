#!/usr/bin/env python3
"""Measures the verbs of `vic corpus` by the command line, each answer whole.

  corpus.py FOLDER           fifty files of FOLDER as a session, every verb with every form on it: first after a start of
                             the daemon (cold), then four times more; prints the 95th percentile of both and the slowest.
  corpus.py FOLDER --files N N files of one line each as well, by metadata alone, and QUERY over all of them.

Needs `vic` and `vicd` on the PATH. Works in a data directory of its own, which it removes.
"""
import argparse, json, shutil, tempfile, time
from pathlib import Path

from quality import Vic

VERBS = [
    *(["extract", f"--schema={it}"] for it in
      ("Code", "Definition", "Table", "Quote", "Methodology", "Citation", "Reference")),
    ["normalize", "entities"], ["normalize", "dates"], ["normalize", "versions"], ["normalize", "code"],
    ["compare", "consensus"], ["compare", "contradictions"], ["compare", "approaches"],
    ["detect", "clusters"], ["detect", "warnings"], ["detect", "gaps"], ["detect", "anomalies"], ["detect", "trends"],
    ["trace", "citations"], ["trace", "authority"], ["trace", "influence"], ["trace", "freshness"],
    ["score", "authority"], ["score", "freshness"], ["score", "coverage"], ["score", "confidence"],
    ["query", "--filter=extension=md OR size>10000"], ["delta", "--since=2020-01-01"],
    ["summarize", "coverage"], ["summarize", "decision-inputs"], ["summarize", "timeline"],
    ["summarize", "comparison-matrix"],
]


def timed(vic, words):
    begun = time.time()
    answer = vic.run("corpus", *words, check=False)
    seconds = time.time() - begun
    told = json.loads(answer) if answer.startswith("{") else {"error": {"message": answer[:200]}}
    return seconds, told.get("error")


def percentile(times, part):
    return sorted(times)[min(len(times) - 1, int(len(times) * part))]


def verbs(vic, folder, rounds=5):
    with tempfile.TemporaryDirectory() as chosen:
        for path in sorted(it for it in Path(folder).rglob("*") if it.is_file()):
            if len(list(Path(chosen).iterdir())) == 50:
                break
            shutil.copy(path, Path(chosen, f"{len(list(Path(chosen).iterdir())):02}-{path.parent.name}-{path.name}"))
        made = json.loads(vic.run("corpus", "ingest", "--paths", chosen))
        print(f"{made['data']['indexed']} of {made['data']['files']} files are indexed")
        cold, warm = {}, {}
        for number in range(rounds):
            for words in VERBS:
                if number == 0:
                    vic.run("daemon", "stop")
                    vic.run("daemon", "start")
                seconds, error = timed(vic, [*words, "--session", "1"])
                (cold if number == 0 else warm).setdefault(" ".join(words), []).append(seconds)
                if error and number == 0:
                    print(f"  {' '.join(words)}: {error['message']}")
        for name, by_verb in (("after a start", cold), ("again", warm)):
            times = [it for all in by_verb.values() for it in all]
            slowest = max(by_verb, key=lambda it: max(by_verb[it]))
            print(f"{name}: {len(times)} answers, 95th percentile {percentile(times, 0.95):.2f} s, slowest {slowest} "
                  f"{max(by_verb[slowest]):.2f} s")


def many(vic, count):
    with tempfile.TemporaryDirectory() as folder:
        for number in range(count):
            place = Path(folder, f"{number // 1000}")
            if number % 1000 == 0:
                place.mkdir()
            Path(place, f"{number}.{('md', 'txt', 'csv')[number % 3]}").write_text(f"number {number}\n" * (number % 7))
        vic.run("index", "--metadata-only", folder)
        times = []
        for _ in range(20):
            seconds, error = timed(vic, ["query", "--filter=extension=md AND (size>50 OR NOT name=7.md)"])
            if error:
                raise SystemExit(error["message"])
            times.append(seconds)
        print(f"QUERY over {count} files: median {percentile(times, 0.5) * 1e3:.0f} ms, 95th percentile "
              f"{percentile(times, 0.95) * 1e3:.0f} ms")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--files", type=int, default=0)
    arguments = parser.parse_args()
    with Vic() as vic:
        verbs(vic, arguments.folder)
        if arguments.files:
            many(vic, arguments.files)
