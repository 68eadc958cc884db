#!/usr/bin/env python3
"""answers.py: how right vic's answers are, and the weights that they rest on.

  answers.py measure SET...   indexes the files of each set and asks its questions; prints how many answers are right, how
                              long they are, how sure vic was, and what became of questions without an answer.
  answers.py fit SET...       the same with `--explain`; fits the logistic models of src/ask/answer/weights.rs, leaves out one
                              fifth at a time to say how well they do, and prints the constants.

A SET is FOLDER:QUESTIONS, a folder of files and a file of JSON lines: `question` and either `answer`, alternatives of
strings that must all stand in the quotes, or `spans`, texts; an answer is right when it holds half of the words of one of
them. A question with neither has no answer. Two SETs may share a folder, which is indexed once.
`fit` needs numpy. Needs `vic` and `vicd` on the PATH. Works in a data directory of its own, which it removes.
"""
import json, os, re, shutil, subprocess, sys, tempfile, unicodedata
from collections import Counter, defaultdict


class Vic:
    def __init__(self, folder):
        self.directory = tempfile.mkdtemp(prefix="vic-answers-")
        self.env = dict(os.environ, VIC_DATA_DIR=self.directory + "/data", VIC_LISTEN="127.0.0.1:0")
        self.run("index", folder)

    def run(self, *arguments):
        result = subprocess.run(["vic", *arguments], env=self.env, capture_output=True, text=True)
        if result.returncode:
            sys.exit(f"vic {' '.join(arguments)}: {result.stderr}")
        return result.stdout

    def ask(self, question, explain):
        flags = ["--explain"] if explain else []
        return json.loads(self.run("ask", "--format", "json", *flags, "--", question))

    def close(self):
        subprocess.run(["vic", "daemon", "stop"], env=self.env, capture_output=True)
        shutil.rmtree(self.directory, ignore_errors=True)


def plain(text):
    return re.sub(r"\s+", " ", unicodedata.normalize("NFKC", text)).strip().lower()


def words(text):
    return Counter(re.findall(r"\w+", plain(text)))


def share(text, span):
    wanted, held = words(span), words(text)
    return sum((wanted & held).values()) / max(1, sum(wanted.values()))


def holds(text, part):
    """Whether the part stands in the text as whole words."""
    return re.search(rf"(?<!\w){re.escape(plain(part))}(?!\w)", plain(text)) is not None


def is_right(question, text):
    if question.get("answer"):
        return any(all(holds(text, part) for part in way) for way in question["answer"])
    return any(share(text, span) >= 0.5 for span in question.get("spans", []))


def has_all(question, text):
    if question.get("answer"):
        return is_right(question, text)
    return all(share(text, span) >= 0.5 for span in question.get("spans", []))


def is_answerable(question):
    return bool(question.get("answer") or question.get("spans"))


def asked(sets, explain):
    """Yields each question of the sets with the response to it."""
    by_folder = defaultdict(list)
    for one in sets:
        folder, questions = one.rsplit(":", 1)
        by_folder[folder].append(questions)
    for folder, files in by_folder.items():
        vic = Vic(folder)
        try:
            for name in files:
                with open(name, encoding="utf-8") as lines:
                    for question in map(json.loads, lines):
                        yield name, question, vic.ask(question["question"], explain)
        finally:
            vic.close()


def quoted(response):
    answer = response.get("answer") or {"outcome": "none", "confidence": 0, "quotes": []}
    return answer, " ".join(quote["text"] for quote in answer["quotes"])


def measure(sets):
    tables = defaultdict(lambda: defaultdict(float))
    for name, question, response in asked(sets, False):
        row, (answer, text) = tables[name], quoted(response)
        kind = "answerable" if is_answerable(question) else "unanswerable"
        row[kind] += 1
        row[f"{kind}: {answer['outcome']}"] += 1
        if kind == "answerable":
            right = is_right(question, text)
            row["right"] += right
            row["right and answered"] += right and answer["outcome"] == "answered"
            row["all parts"] += has_all(question, text)
            row["characters"] += len(text)
            row["first file right"] += bool(
                question.get("file") and response["hits"] and response["hits"][0]["path"] == question["file"])
            row["in an excerpt"] += any(is_right(question, hit["excerpt"]) for hit in response["hits"][:5])
        wrong = kind == "unanswerable" or not is_right(question, text)
        row["wrong above 0.7"] += answer["outcome"] == "answered" and answer["confidence"] > 0.7 and wrong
        if os.environ.get("VERBOSE") and wrong:
            print(json.dumps({"question": question["question"], "outcome": answer["outcome"],
                              "confidence": answer["confidence"], "quotes": text, "hits": [h["path"] for h in response["hits"][:3]],
                              "want": question.get("answer") or question.get("spans")}, ensure_ascii=False))
    for name, row in tables.items():
        print(name)
        for key, value in row.items():
            whole = row["answerable"] if not key.startswith("unanswerable") else row["unanswerable"]
            print(f"  {key:28} {value / whole if key == 'characters' and whole else value:8.0f}"
                  + (f"  {100 * value / whole:5.1f} %" if whole and key != "characters" else ""))


def fit(sets):
    import numpy as np

    names, rows, labels, groups = None, [], [], []
    tops = []
    for number, (_, question, response) in enumerate(asked(sets, True)):
        units = []
        for hit in response["hits"]:
            for unit in hit["metadata"].get("candidates", []):
                names = names or list(unit["numbers"])
                units.append((list(unit["numbers"].values()), is_right(question, unit["text"])))
        for numbers, right in units:
            rows.append(numbers), labels.append(right), groups.append(number)
        tops.append((is_answerable(question), any(right for _, right in units)))
    x, y, group = np.array(rows), np.array(labels, float), np.array(groups)

    def train(x, y, l2=1e-3, steps=4000, rate=0.5):
        mean, deviation = x.mean(0), x.std(0) + 1e-6
        z, w, b = (x - mean) / deviation, np.zeros(x.shape[1]), 0.0
        m, v = np.zeros(x.shape[1] + 1), np.zeros(x.shape[1] + 1)
        for step in range(1, steps + 1):
            p = 1 / (1 + np.exp(-(z @ w + b)))
            g = np.append(z.T @ (p - y) / len(y) + l2 * w, (p - y).mean())
            m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
            move = 0.02 * (m / (1 - 0.9**step)) / (np.sqrt(v / (1 - 0.999**step)) + 1e-8)
            w, b = w - move[:-1], b - move[-1]
        w = w / deviation
        return w, b - mean @ w

    def first_right(w, b, which):
        hits = total = 0
        for g in np.unique(group[which]):
            mask = group == g
            if not y[mask].any():
                continue
            total += 1
            hits += y[mask][np.argmax(x[mask] @ w + b)]
        return hits, total

    for label, columns in (("WITH_COSINE", slice(None)), ("BY_WORDS", slice(1, None))):
        keep = np.zeros(x.shape[1]); keep[columns] = 1
        right = total = 0
        for fold in range(5):
            test = group % 5 == fold
            w, b = train(x[~test] * keep, y[~test])
            hits, count = first_right(w * keep, b, test)
            right, total = right + hits, total + count
        w, b = train(x * keep, y)
        w = w * keep
        print(f"{label}: best unit right in {right:.0f} of {total} questions whose answer is among the units, left out; bias {b:.3f}")
        print("    " + ", ".join(f"{value:.3f}" for value in w))
        for name, value in zip(names, w):
            print(f"        {name:16} {value:7.3f}")
    print(f"questions {len(tops)}, answerable {sum(a for a, _ in tops)}, answer among the units {sum(b for _, b in tops)}")


if __name__ == "__main__":
    commands = {"measure": measure, "fit": fit}
    if len(sys.argv) < 3 or sys.argv[1] not in commands:
        sys.exit(__doc__)
    commands[sys.argv[1]](sys.argv[2:])
