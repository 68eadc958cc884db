#!/usr/bin/env python3
"""assistant.py: counts the calls and characters that a scripted assistant needs to answer questions with vic.

  assistant.py FOLDER QUESTIONS...   indexes FOLDER and asks the questions of each file of JSON lines (answers.py has their
                                     fields). Questions without an answer are left out.

The assistant asks a question, with `--compact` if `vic` has that option. If the output lacks the answer, it reads the first
file that was found, then the second, then the third, at most 20,000 characters of each, and then gives up. Every character
that a command prints counts. Needs `vic` and `vicd` on the PATH; another PATH measures another version.
"""
import json, subprocess, sys

from answers import Vic, is_answerable, is_right

MOST_READ = 20_000
FILES = 3


def run(vic, *arguments):
    result = subprocess.run(["vic", *arguments], env=vic.env, capture_output=True, text=True)
    return result.stdout


def assist(vic, has_compact, question):
    """Answers one question. Returns the number of calls and characters, and whether the output had the answer."""
    form = ["--compact"] if has_compact else ["--format", "human"]
    text = run(vic, "ask", *form, "--", question["question"])
    calls, characters = 1, len(text)
    if is_right(question, text):
        return calls, characters, True
    hits = json.loads(run(vic, "ask", "--format", "json", "--limit", str(FILES), "--", question["question"]))["hits"]
    for hit in hits[:FILES]:
        text = run(vic, "read", hit["metadata"]["absolute_path"])[:MOST_READ]
        calls, characters = calls + 1, characters + len(text)
        if is_right(question, text):
            return calls, characters, True
    return calls, characters, False


def main(folder, files):
    vic = Vic(folder)
    try:
        has_compact = "--compact" in run(vic, "ask", "--help")
        questions = [json.loads(line) for name in files for line in open(name, encoding="utf-8")]
        done = [assist(vic, has_compact, it) for it in questions if is_answerable(it)]
    finally:
        vic.close()
    calls, characters = sum(it[0] for it in done), sum(it[1] for it in done)
    found = sum(it[2] for it in done)
    print(f"{len(done)} questions: {calls} calls, {characters} characters, answer read for {found}")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2:])
