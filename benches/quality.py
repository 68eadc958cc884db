#!/usr/bin/env python3
"""quality.py: measures the quality of vic's ranking and of the extracted text, on your own collections.

  quality.py ranking COLLECTION      a BEIR-style folder: corpus.jsonl, queries.jsonl, qrels/test.tsv. Every document becomes a
                                     file. Prints nDCG@10, recall@100 and the indexing figures.
  quality.py known FOLDER COLLECTION a folder of files, and queries.jsonl + qrels/test.tsv with ids that are endings of their
                                     paths. Prints how often the right file is first and in the top ten.
  quality.py latency COLLECTION      20,000 files of 52 words from corpus.jsonl, asked queries.jsonl one by one. Prints the time
                                     of the whole command and the daemon's memory.
  quality.py words FOLDER EXPECTED   a folder of files, and a folder of texts, named like the paths of the files with `__` for
                                     `/` and `.txt` added. Prints the median recall of words by extension.
  quality.py silver FOLDER           FOLDER/good/NAME, and FOLDER/silver/NAME.READER.txt with the text from other readers of the
                                     format. Prints the medians of recall and precision of words by reader.

Needs `vic` and `vicd` on the PATH. Works in its own data directory and removes it.
"""
import glob, json, os, re, shutil, statistics, subprocess, sys, tempfile, time, unicodedata, urllib.parse
from collections import Counter, defaultdict
from pathlib import Path


class Vic:
    """A daemon with its own data directory."""

    def __init__(self):
        self.directory = tempfile.mkdtemp(prefix="vic-quality-")
        self.env = dict(os.environ, VIC_DATA_DIR=self.directory + "/data", VIC_LISTEN="127.0.0.1:0")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.run("daemon", "stop", check=False)
        shutil.rmtree(self.directory, ignore_errors=True)

    def run(self, *arguments, check=True):
        result = subprocess.run(["vic", *arguments], env=self.env, capture_output=True, text=True)
        if check and result.returncode:
            sys.exit(f"vic {' '.join(arguments)}: {result.stderr}")
        return result.stdout

    def quality(self, questions, limit):
        """Asks questions, each with the known files and their grades, in one process. Returns its report."""
        lines = Path(self.directory, "questions.jsonl")
        write = lambda question: json.dumps({"question": question[0], "files": question[1]})
        lines.write_text("".join(write(question) + "\n" for question in questions), encoding="utf-8")
        return json.loads(self.run("quality", str(lines), "--limit", str(limit), "--format", "json"))

    def words(self, path):
        return words_of(self.run("read", str(path), check=False))

    def index(self, folder):
        begun = time.time()
        self.run("index", str(folder))
        seconds = time.time() - begun
        begun = time.time()
        self.run("index", str(folder))
        again = time.time() - begun
        job = json.loads(self.run("jobs", "--format", "json"))
        work = max(job, key=lambda it: it["chunks_embedded"])
        status = json.loads(self.run("status", "--format", "json"))
        print(f"indexed in {seconds:.1f} s, again in {again:.2f} s; {status['chunks']} chunks, "
              f"{work['tokens_embedded']} tokens; daemon's peak memory {status['peak_rss_mib']:.0f} MiB; "
              f"coverage {json.dumps(status['coverage'])}")


def read_jsonl(path):
    with open(path, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def read_qrels(path):
    relevant = defaultdict(dict)
    for line in Path(path).read_text().splitlines()[1:]:
        query, document, grade = line.split("\t")
        if float(grade) > 0:
            relevant[query][document] = float(grade)
    return relevant


def ranking(collection):
    collection = Path(collection)
    relevant = read_qrels(collection / "qrels/test.tsv")
    with tempfile.TemporaryDirectory() as folder, Vic() as vic:
        for document in read_jsonl(collection / "corpus.jsonl"):
            heading = f"# {document['title']}\n\n" if document["title"] else ""
            name = urllib.parse.quote(document["_id"], safe="") + ".md"
            Path(folder, name).write_text(heading + document["text"] + "\n", encoding="utf-8")
        vic.index(folder)
        name = lambda document: urllib.parse.quote(document, safe="") + ".md"
        questions = [(query["text"], {name(document): grade for document, grade in relevant[query["_id"]].items()})
                     for query in read_jsonl(collection / "queries.jsonl") if query["_id"] in relevant]
        summary = vic.quality(questions, 100)["summary"]
        print(f"{collection.name}: {summary['with_files']} queries, nDCG@10 {summary['ndcg_at_10']:.4f}, "
              f"recall@100 {summary['recall']:.4f}, median {summary['median_ms']:.0f} ms a question (100 hits)")


def known(folder, collection):
    relevant = read_qrels(Path(collection, "qrels/test.tsv"))
    questions = [(query["text"], relevant[query["_id"]]) for query in read_jsonl(Path(collection, "queries.jsonl"))
                 if query["_id"] in relevant]
    with Vic() as vic:
        vic.index(folder)
        report = vic.quality(questions, 10)
    for result in report["questions"]:
        if result["rank"] != 1:
            print(f"  not first: {result['question']!r} wants {result['wanted']}, got {result['found'][:2]}")
    summary = report["summary"]
    print(f"{summary['with_files']} queries: first {summary['hit_at_1']:.3f}, in the top ten {summary['hit_at_10']:.3f}")


def latency(collection, files=20_000, words_a_file=52, questions=150):
    texts = (document["text"].split() for document in read_jsonl(Path(collection, "corpus.jsonl")))
    pieces = (words[at:at + words_a_file] for words in texts for at in range(0, len(words), words_a_file))
    with tempfile.TemporaryDirectory() as folder, Vic() as vic:
        for number, piece in zip(range(files), pieces):
            Path(folder, f"{number}.txt").write_text(" ".join(piece), encoding="utf-8")
        vic.index(folder)
        times = []
        for query in read_jsonl(Path(collection, "queries.jsonl"))[:questions]:
            begun = time.time()
            vic.run("ask", "--format", "json", "--limit", "10", "--", query["text"])
            times.append(time.time() - begun)
        times.sort()
        status = json.loads(vic.run("status", "--format", "json"))
        print(f"{status['chunks']} chunks, {len(times)} questions: median {statistics.median(times) * 1e3:.0f} ms, "
              f"90th percentile {times[len(times) * 9 // 10] * 1e3:.0f} ms for the whole command; the daemon has "
              f"{status['rss_mib']:.0f} MiB")


def words_of(text):
    return Counter(re.findall(r"\w+", unicodedata.normalize("NFKC", text).lower()))


def agreement(wanted, got):
    both = sum((wanted & got).values())
    return both / max(1, sum(wanted.values())), both / max(1, sum(got.values()))


def words(folder, expected):
    by_extension = defaultdict(list)
    with Vic() as vic:
        vic.run("index", "--metadata-only", str(folder))
        for path in sorted(Path(folder).rglob("*")):
            reference = Path(expected, "__".join(path.relative_to(folder).parts) + ".txt")
            if not path.is_file() or not reference.exists():
                continue
            recall, precision = agreement(words_of(reference.read_text(encoding="utf-8")), vic.words(path))
            by_extension[path.suffix.lower()].append(recall)
            if recall < 0.9:
                print(f"  {path.relative_to(folder)}: recall {recall:.2f}, precision {precision:.2f}")
    for extension, recalls in sorted(by_extension.items()):
        print(f"{extension:10} {len(recalls):4} files, median recall {statistics.median(recalls):.3f}")


def silver(folder):
    by_reader = defaultdict(list)
    good = Path(folder, "good")
    with Vic() as vic:
        vic.run("index", "--metadata-only", str(good))
        for path in sorted(it for it in good.rglob("*") if it.is_file()):
            got = vic.words(path)
            for reference in sorted(Path(folder, "silver").glob(glob.escape(path.name) + ".*.txt")):
                reader = reference.name[len(path.name) + 1:-len(".txt")]
                wanted = words_of(reference.read_text(encoding="utf-8", errors="replace"))
                # Skips files in which that reader found no word, because they allow no comparison.
                if wanted:
                    by_reader[reader].append(agreement(wanted, got))
                    if min(by_reader[reader][-1]) < 0.9:
                        print(f"  {path.name} ({reader}): recall %.2f, precision %.2f" % by_reader[reader][-1])
    for reader, scores in sorted(by_reader.items()):
        recalls, precisions = zip(*scores)
        print(f"{reader:10} {len(scores):4} files, median recall {statistics.median(recalls):.3f}, precision "
              f"{statistics.median(precisions):.3f}; both at least 0.9: {sum(min(it) >= 0.9 for it in scores)}")


if __name__ == "__main__":
    commands = {"ranking": (ranking, 1), "known": (known, 2), "latency": (latency, 1), "words": (words, 2),
                "silver": (silver, 1)}
    if len(sys.argv) < 2 or sys.argv[1] not in commands or len(sys.argv) != 2 + commands[sys.argv[1]][1]:
        sys.exit(__doc__)
    commands[sys.argv[1]][0](*sys.argv[2:])
