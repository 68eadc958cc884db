"""Compares the walk of a folder (alone, as a first scan with the catalog, and as a rescan) with find and fd."""
import subprocess

from setting import seconds

FILES = 20_000


def compare(setting, inputs):
    folder = inputs[0] if inputs else tree(setting.scratch / "tree")
    fd = setting.wanted(lambda: setting.program(["fd", "fdfind"], "fd-find", "fd-find"))
    report = setting.bench("walk", folder, "--runs", 1)
    files = report["files"]

    def quietly(*command):
        return lambda: files / seconds(lambda: subprocess.run(
            [str(it) for it in command], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))

    find = quietly("find", folder, "-type", "f", "-printf", "%p %s %T@\n")

    def walk():
        report.update(setting.bench("walk", folder, "--runs", 3))
        return files / report["p50_ms"] * 1_000

    setting.by_turns("walk", "files/s", walk, {
        "find with size and time": find, "fd, names only": fd and quietly(fd, "-u", ".", folder),
    })
    for what, key in (("walk and catalog, cold", "seconds_cold"), ("walk and catalog, nothing changed", "seconds_rescan")):
        setting.by_turns(what, "files/s", lambda: walk() and files / report[key], {"find with size and time": find})


def tree(folder):
    for number in range(FILES):
        place = folder / f"folder {number // 1000}" / str(number // 50)
        if number % 50 == 0:
            place.mkdir(parents=True)
        (place / f"file {number % 50}.txt").touch()
    return folder
