"""Compares the search for a word in many files: the command `vic grep` with a running daemon, and ripgrep on cached files."""
import json
import random
import subprocess

from setting import seconds

FILES = 3_000
WORDS = 10


def compare(setting, inputs):
    texts = setting.texts(inputs, FILES)
    folder = setting.files(texts)
    words = sorted({word for line in texts.read_text(encoding="utf-8").splitlines()
                    for word in json.loads(line)["text"].split() if word.isalpha() and word.isascii() and len(word) > 6})
    chosen = random.Random(5).sample(words, min(WORDS, len(words)))
    rg = setting.wanted(lambda: setting.program(["rg"], "ripgrep", "ripgrep"))
    setting.run(setting.vic, "index", folder)

    def every_word(*command):
        def one(word):
            subprocess.run([str(it) for it in command] + [word] + ([str(folder)] if command[0] == rg else []),
                           env=setting.env, check=True, stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL)

        return lambda: len(chosen) / seconds(lambda: [one(word) for word in chosen])

    setting.by_turns(f"a word in {FILES:,} files, whole command", "commands/s", every_word(setting.vic, "grep"),
                     {"ripgrep": rg and every_word(rg, "--no-config")})
