#!/usr/bin/env python3
"""milvus.py COLLECTION: compares an index in Milvus Lite with one in LanceDB, on the same files and questions.

COLLECTION is a folder with corpus.jsonl (_id, title, text), queries.jsonl (_id, text) and qrels/test.tsv. Prints for each store
the time of indexing, the time of a question over HTTP, vic's own part of both (without the time in which a call of Milvus ran,
which the log at level debug has), and nDCG@10. Needs `vic`, `vicd` and `milvus-lite` on the PATH, and about 10 minutes.
"""
import json, math, os, re, shutil, statistics, subprocess, sys, tempfile, time, urllib.error, urllib.parse, urllib.request
from datetime import datetime
from pathlib import Path

CALL = re.compile(r"^(\S+Z) +DEBUG.*call of Milvus.*micros=(\d+)")


def write_files(collection, folder):
    for line in open(collection / "corpus.jsonl"):
        document = json.loads(line)
        name = urllib.parse.quote(document["_id"], safe="") + ".md"
        (folder / name).write_text(f"# {document['title']}\n\n{document['text']}\n")


def judged_questions(collection):
    relevant = {}
    for line in list(open(collection / "qrels/test.tsv"))[1:]:
        question, document, grade = line.split("\t")
        if float(grade) > 0:
            relevant.setdefault(question, {})[document] = float(grade)
    questions = map(json.loads, open(collection / "queries.jsonl"))
    return [(it["text"], relevant[it["_id"]]) for it in questions if it["_id"] in relevant]


def ndcg(ids, relevant):
    gain = lambda grades: sum(grade / math.log2(rank + 2) for rank, grade in enumerate(grades[:10]))
    return gain([relevant.get(it, 0) for it in ids]) / gain(sorted(relevant.values(), reverse=True))


def milvus_calls(log):
    """The intervals, in seconds since the epoch, in which a call of Milvus ran."""
    intervals = []
    for found in filter(None, map(CALL.match, open(log, errors="replace"))):
        end = datetime.fromisoformat(found[1].replace("Z", "+00:00")).timestamp()
        intervals.append((end - int(found[2]) / 1e6, end))
    return sorted(intervals)


def own_part(begun, ended, intervals):
    """The seconds from `begun` to `ended` in which no call of Milvus ran."""
    own, at = 0.0, begun
    for first, last in intervals:
        if last > begun and first < ended:
            own += max(0.0, min(first, ended) - at)
            at = max(at, last)
    return own + max(0.0, ended - at)


class Vic:
    def __init__(self, store, directory):
        self.data = directory / store
        self.env = dict(os.environ, VIC_DATA_DIR=str(self.data), VIC_VECTOR_BACKEND=store, VIC_LISTEN="127.0.0.1:0",
                        VIC_LOG_LEVEL="info,vic_milvus=debug", VIC_BRIDGE_RATE_LIMIT_PER_MIN="0", VIC_WATCH="0")

    def run(self, *arguments):
        subprocess.run(["vic", *arguments], env=self.env, check=True, capture_output=True)

    def ask(self, question):
        address, key = (self.data / "listen").read_text().strip(), (self.data / "key").read_text().strip()
        body = json.dumps({"query": question, "limit": 100}).encode()
        headers = {"authorization": "Bearer " + key, "content-type": "application/json"}
        with urllib.request.urlopen(urllib.request.Request(f"http://{address}/v1/ask", body, headers)) as reply:
            return [urllib.parse.unquote(hit["path"].removesuffix(".md")) for hit in json.load(reply)["hits"]]


def measure(store, collection, files, directory):
    vic, questions = Vic(store, directory), judged_questions(collection)
    vic.run("daemon", "start")
    begun = time.time()
    vic.run("index", str(files))
    times, scores = [(begun, time.time())], []
    for question, relevant in questions:
        begun = time.time()
        ids = vic.ask(question)
        times.append((begun, time.time()))
        scores.append(ndcg(ids, relevant))
    vic.run("daemon", "stop")
    intervals = milvus_calls(vic.data / "vicd.log")
    took = [ended - begun for begun, ended in times]
    own = [own_part(begun, ended, intervals) for begun, ended in times]
    print(f"{store:7} index {took[0]:6.1f} s, own part {own[0]:6.1f} s; question {statistics.median(took[1:]) * 1e3:6.1f} ms,"
          f" own part {statistics.median(own[1:]) * 1e3:6.1f} ms; nDCG@10 {statistics.mean(scores):.4f}", flush=True)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    collection, directory = Path(sys.argv[1]), Path(tempfile.mkdtemp(prefix="vic-milvus-"))
    try:
        (directory / "files").mkdir()
        write_files(collection, directory / "files")
        for store in ("lance", "milvus"):
            measure(store, collection, directory / "files", directory)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main()
