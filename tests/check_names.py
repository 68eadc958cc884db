#!/usr/bin/env python3
"""Checks what a machine can see of the naming and prose rules in CONTRIBUTING.md.

Prints `path:line: problem` for each violation and exits with 1 if there is any:
- words in comments and documents that make a sentence a riddle, or a metaphor for a part of vic;
- file stems that say nothing, or are such metaphors;
- test functions with names of more than 70 characters.
"""

import os
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LONGEST_TEST_NAME = 70

WORDS = re.compile(
    r"\b(whoever|whomever|whatever|nobody|somebody|anybody|everybody|someone|anyone|no one"
    r"|of which|of whom|for whom|what is to be|it is looked|leash|stranger|strangers|buried|bury)\b",
    re.IGNORECASE,
)

STEMS = set(
    "around aside asked bury common desk discreet fold gate guest helpers lane leash led look lookout misc nameless own "
    "pulse quiet rescue ring room rooms seal shared sieve silence slab stranger strangers told turning unasked urgent util "
    "utils whole".split()
)

# Words of the rule itself, and texts of others that vic only ships or tests with.
EXCEPT = ("tests/check_names.py", "CONTRIBUTING.md", "data/", "tests/data/", "tests/answers", "LICENSE", "Cargo.lock", "crates/milvus/proto/")

# Folders that are made by the build and the tests.
GENERATED = ("target", "models/cache")


def sources():
    """Paths of the project's files, relative to its root."""
    for folder, folders, names in os.walk(ROOT):
        here = Path(folder).relative_to(ROOT)
        folders[:] = [it for it in folders if not it.startswith(".") and (here / it).as_posix() not in GENERATED]
        yield from (here / name for name in names if not (here / name).as_posix().startswith(EXCEPT))


def prose(path, line):
    """The part of a line that is prose: all of a document, the comment of a program."""
    if path.suffix == ".md":
        return re.sub(r"`[^`]*`", "", line)
    mark = "//" if path.suffix in (".rs", ".proto") else "#"
    at = line.find(mark)
    if at < 0 or line[:at].count('"') % 2 or (at > 0 and line[at - 1] in ":'"):
        return ""
    return re.sub(r"`[^`]*`", "", line[at:])


def violations(path):
    if path.suffix == ".rs" and path.stem in STEMS:
        yield 1, f"`{path.stem}` is not a term that a reader would search for"
    if path.suffix not in (".rs", ".md", ".proto", ".py", ".sh", ".toml") and path.name != "Makefile":
        return
    is_test = False
    for number, line in enumerate((ROOT / path).read_text(encoding="utf-8", errors="replace").splitlines(), 1):
        for word in WORDS.findall(prose(path, line)):
            yield number, f"`{word}`: name the thing instead"
        if path.suffix == ".rs":
            name = re.match(r"\s*(?:async )?fn (\w+)", line)
            if name and is_test and len(name[1]) > LONGEST_TEST_NAME:
                yield number, f"`{name[1]}` has {len(name[1])} characters, more than {LONGEST_TEST_NAME}"
            if not line.lstrip().startswith("#["):
                is_test = False
            elif re.match(r"\s*#\[(tokio::)?test\b", line):
                is_test = True


def main():
    found = [f"{path}:{number}: {problem}" for path in sources() for number, problem in violations(path)]
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
