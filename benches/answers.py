#!/usr/bin/env python3
"""answers.py: measures how often vic's answers are right, and fits the weights that score them.

  answers.py measure SET...        indexes the files of each set and asks its questions. Prints how many answers are right, their
                                   length, their confidence, and the outcomes of questions without an answer.
  answers.py collect FILE SET...   saves the questions with the passages (units) that vic compared, and their features.
  answers.py fit FILE              fits the constants of src/ask/answer/scoring.rs to the saved questions, and prints how well
                                   they do on every second question, which the fit leaves out.

A SET is FOLDER:QUESTIONS, a folder of files and a file of JSON lines. A line has `question` and either `answer`, alternative
lists of strings that must all occur in the quotes, or `spans`, texts: an answer is right if it has half of the words of one
span. A question without both fields has no answer. Two SETs may share a folder, which is indexed once.
`fit` needs numpy. Needs `vic` and `vicd` on the PATH. Works in its own data directory and removes it.
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
    """Returns whether `part` occurs in the text as whole words."""
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
        for key, value in list(row.items()):
            whole = row["answerable"] if not key.startswith("unanswerable") else row["unanswerable"]
            print(f"  {key:28} {value / whole if key == 'characters' and whole else value:8.0f}"
                  + (f"  {100 * value / whole:5.1f} %" if whole and key != "characters" else ""))


def collect(arguments):
    """Saves each question with the units that vic compared, and the features of each unit."""
    with open(arguments[0], "w", encoding="utf-8") as kept:
        for index, (name, question, response) in enumerate(asked(arguments[1:], True)):
            units = [dict(unit, hit=number) for number, hit in enumerate(response["hits"])
                     for unit in hit["metadata"].get("candidates", [])]
            is_checked = question.get("id", index) % 2 == 1
            row = {"set": name, "question": question, "units": units, "checked": is_checked}
            kept.write(json.dumps(row, ensure_ascii=False) + "\n")


# Features that may only lower the score of a unit, and features that may lower or raise it; all others may only raise it.
# Without these signs, features that share evidence get weights of opposite signs, which fail on questions of another kind.
AGAINST = {"is_short", "is_long", "is_fragment"}
EITHER = {"new_words"}
# Fixed, not fitted, because too few questions have a line with another date beside the answer: a value for August does not
# answer a question about December.
GIVEN = {"contradicts": -1.5}
# Subtracted from the bias of RIGHT, so that confidence is lower: on most sets that the fit has not seen, a wrong quote then has
# a confidence above 0.7 in 3 % of the questions, and without the subtraction in up to 16 %.
CAUTION = 1.0


def bounds(names, deviation):
    """Returns the bounds of the weight of each feature, scaled by the standard deviation of the feature."""
    import numpy as np

    least = [-np.inf if name in AGAINST | EITHER else 0.0 for name in names]
    most = [0.0 if name in AGAINST else np.inf for name in names]
    for at, name in enumerate(names):
        if name in GIVEN:
            least[at] = most[at] = GIVEN[name] * deviation[at]
    return np.array(least), np.array(most)


def adam(gradient, least, most, steps=3000, rate=0.02):
    import numpy as np

    x, m, v = (np.zeros(len(least)) for _ in range(3))
    for step in range(1, steps + 1):
        g = gradient(x)
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        x = np.clip(x - rate * (m / (1 - 0.9**step)) / (np.sqrt(v / (1 - 0.999**step)) + 1e-8), least, most)
    return x


def fit_score(questions, names, left_out, l2=2e-3):
    """Fits weights that rank the right units first, with a softmax over the units of each question."""
    import numpy as np

    asked = [it for it in questions if any(unit["right"] for unit in it["units"])]
    x = np.array([unit["x"] for it in asked for unit in it["units"]])
    right = np.array([float(unit["right"]) for it in asked for unit in it["units"]])
    counts = np.array([len(it["units"]) for it in asked])
    starts = np.r_[0, counts.cumsum()[:-1]]
    mean, deviation = x.mean(0), x.std(0) + 1e-6
    keep = np.array([0.0 if name in left_out else 1.0 for name in names])
    z = (x - mean) / deviation * keep
    target = right / np.repeat(np.add.reduceat(right, starts), counts)

    def gradient(w):
        score = z @ w
        e = np.exp(score - np.repeat(np.maximum.reduceat(score, starts), counts))
        return z.T @ (e / np.repeat(np.add.reduceat(e, starts), counts) - target) / len(starts) + l2 * w

    return adam(gradient, *bounds(names, deviation)) / deviation * keep


def fit_logistic(x, y, names, worth, l2=5e-3):
    import numpy as np

    mean, deviation = x.mean(0), x.std(0) + 1e-6
    z = np.c_[(x - mean) / deviation, np.ones(len(x))]

    def gradient(w):
        return z.T @ (worth * (1 / (1 + np.exp(-z @ w)) - y)) / worth.sum() + l2 * np.r_[w[:-1], 0]

    least, most = bounds(names, deviation)
    w = adam(gradient, np.r_[least, -np.inf], np.r_[most, np.inf])
    return w[:-1] / deviation, w[-1] - (w[:-1] / deviation) @ mean


# The same constants as in src/ask/answer/select_quotes.rs.
QUOTES, CHARS, BESIDE, BESIDE_OTHER = 3, 490, 2.5, 0.7


def quotes(question, weights):
    """Returns the units of a question that vic would quote with these weights."""
    ordered = sorted(((float(unit["x"] @ weights), unit) for unit in question["units"]), key=lambda it: -it[0])
    top, first = ordered[0]
    chosen, characters = [first], len(first["text"])
    for score, unit in ordered[1:]:
        least = BESIDE if unit["hit"] == first["hit"] else BESIDE_OTHER
        is_new = all(it["text"] != unit["text"] for it in chosen)
        if len(chosen) < QUOTES and is_new and score >= top - least and characters + len(unit["text"]) <= CHARS:
            chosen.append(unit)
            characters += len(unit["text"])
    return chosen


def is_quoted(question, weights):
    return question["answerable"] and is_right(question["question"], " ".join(it["text"] for it in quotes(question, weights)))


def best(question, weights):
    return max(question["units"], key=lambda unit: float(unit["x"] @ weights))


def fit(arguments):
    import numpy as np

    questions = read_kept(arguments[0])
    names = list(questions[0]["units"][0]["numbers"])
    tuned = [it for it in questions if not it["checked"]]
    checked = [it for it in questions if it["checked"]]
    print(f"{len(tuned)} questions to fit, {len(checked)} to check")
    for name, left_out in (("WITH_COSINE", []), ("BY_WORDS", ["unit_cosine"])):
        weights = fit_score(tuned, names, left_out)
        some = [it for it in checked if any(unit["right"] for unit in it["units"])]
        first = sum(best(it, weights)["right"] for it in some)
        print(f"{name}: of {len(some)} questions to check whose answer is among the units, it is first in {first}")
        print("    [" + ", ".join(f"{value:.2f}" for value in weights) + "]")
        if name == "WITH_COSINE":
            score = weights
    answerable = [it for it in checked if it["answerable"]]
    right = sum(is_quoted(it, score) for it in answerable)
    length = sum(len(unit["text"]) for it in answerable for unit in quotes(it, score)) / max(1, len(answerable))
    print(f"quotes right for {right} of {len(answerable)} questions to check, {length:.0f} characters")
    # Confidence is fitted on scores of questions that the weights have not seen: each half is scored with weights of the other.
    halves = tuned[0::2], tuned[1::2]
    judged = [(it, fit_score(other, names, [])) for it, other in ((halves[0], halves[1]), (halves[1], halves[0]))]
    judged = [(it, weights) for half, weights in judged for it in half]
    rows = np.array([best(it, weights)["x"] for it, weights in judged])
    # Weighs questions so that every set counts the same, however many questions it has.
    sizes = Counter(it["set"] for it in tuned)
    worth = np.array([1 / sizes[it["set"]] for it, _ in judged])
    for name, label in (("RIGHT", is_quoted), ("ANSWERABLE", lambda it, _: it["answerable"])):
        weights, bias = fit_logistic(rows, np.array([float(label(*it)) for it in judged]), names, worth)
        bias -= CAUTION if name == "RIGHT" else 0.0
        print(f"{name}: bias {bias:.2f}")
        print("    [" + ", ".join(f"{value:.2f}" for value in weights) + "]")
        tell(checked, lambda it: 1 / (1 + np.exp(-(best(it, score)["x"] @ weights + bias))), lambda it: label(it, score))


def read_kept(path):
    import numpy as np

    with open(path, encoding="utf-8") as lines:
        questions = [it for it in map(json.loads, lines) if it["units"]]
    for it in questions:
        it["answerable"] = is_answerable(it["question"])
        for unit in it["units"]:
            unit["x"] = np.array(list(unit["numbers"].values()))
            unit["right"] = it["answerable"] and is_right(it["question"], unit["text"])
    return questions


def tell(questions, probability, label):
    """Prints how often a label holds at each probability."""
    bins = defaultdict(list)
    for it in questions:
        bins[min(9, int(10 * probability(it)))].append(bool(label(it)))
    for step, held in sorted(bins.items()):
        print(f"    {step / 10:.1f} to {step / 10 + 0.1:.1f}: {len(held):4} questions, holds for {100 * sum(held) / len(held):3.0f} %")


if __name__ == "__main__":
    commands = {"measure": measure, "collect": collect, "fit": fit}
    if len(sys.argv) < 3 or sys.argv[1] not in commands:
        sys.exit(__doc__)
    commands[sys.argv[1]](sys.argv[2:])
