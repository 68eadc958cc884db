#!/usr/bin/env python3
"""Measures how long the verbs of `vic corpus` take on the command line, from start to exit.

  corpus.py FOLDER           fifty files of FOLDER: five verbs, each as the first question after indexing, then every verb with
                             every form five times. Prints the 95th percentile of both and the slowest.
  corpus.py FOLDER --files N also N files of one line each, by metadata only, and QUERY over all of them.

Needs `vic` and `vicd` on the PATH. Works in its own data directory and removes it.
"""
import argparse, json, shutil, tempfile, time
from pathlib import Path

from quality import Vic

VERBS = [
    *(["extract", f"--schema={it}"] for it in
      ("Code", "Definition", "Table", "Quote", "Methodology", "Citation", "Reference")),
    ["normalize", "entities"], ["normalize", "dates"], ["normalize", "versions"], ["normalize", "code"],
    ["compare", "consensus", "--field=year"], ["compare", "contradictions", "--field=year"], ["compare", "approaches"],
    ["detect", "clusters"], ["detect", "warnings"], ["detect", "gaps"], ["detect", "anomalies"], ["detect", "trends"],
    ["trace", "citations"], ["trace", "authority"], ["trace", "influence", "--source=1"], ["trace", "freshness"],
    ["score", "authority"], ["score", "freshness"], ["score", "coverage", "--topic=water"],
    ["query", "--filter=extension=md OR size>10000"], ["delta", "--since=2020-01-01"],
    ["summarize", "coverage", "--topic=water"], ["summarize", "decision-inputs", "--question=what does it cost"],
    ["summarize", "timeline"], ["summarize", "comparison-matrix", "--items=1,2", "--schema=extension,word_count"],
]


FIRST = [["extract", "--schema=Code"], ["detect", "clusters"], ["trace", "citations"], ["score", "authority"],
         ["summarize", "timeline"]]


def timed(vic, words):
    begun = time.time()
    answer = vic.run("corpus", *words, check=False)
    seconds = time.time() - begun
    told = json.loads(answer) if answer.startswith("{") else {"error": {"message": answer[:200]}}
    return seconds, told.get("error")


def percentile(times, part):
    return sorted(times)[min(len(times) - 1, int(len(times) * part))]


def chosen_files(folder, place):
    paths = sorted(it for it in Path(folder).rglob("*") if it.is_file())
    for number, path in enumerate(paths[:: max(1, len(paths) // 50)][:50]):
        shutil.copy(path, Path(place, f"{number:02}-{path.parent.name}-{path.name}"))


def report(name, by_verb):
    times = [it for all in by_verb.values() for it in all]
    slowest = max(by_verb, key=lambda it: max(by_verb[it]))
    print(f"{name}: {len(times)} answers, median {percentile(times, 0.5):.2f} s, 95th percentile "
          f"{percentile(times, 0.95):.2f} s, slowest {slowest} {max(by_verb[slowest]):.2f} s")


def verbs(folder, rounds=5):
    first, again = {}, {}
    with tempfile.TemporaryDirectory() as place:
        chosen_files(folder, place)
        for words in FIRST:
            # A new data directory, so that no verb has read a document before.
            with Vic() as vic:
                vic.run("index", place)
                first[" ".join(words)] = [timed(vic, words)[0]]
        with Vic() as vic:
            vic.run("index", place)
            for words in VERBS:
                name = " ".join(words)
                answers = [timed(vic, words) for _ in range(rounds)]
                again[name] = [seconds for seconds, _ in answers]
                if answers[0][1]:
                    print(f"  {name}: {answers[0][1]['message']}")
    report("first question after indexing", first)
    report("all verbs", again)


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
    verbs(arguments.folder)
    if arguments.files:
        with Vic() as vic:
            many(vic, arguments.files)
