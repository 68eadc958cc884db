"""Code that all stages share: finds or installs programs, runs the rounds, and provides the input texts."""
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
HOME = HERE.parent.parent


class Missing(Exception):
    """The error that a peer is not available, with the reason."""


# Errors after which only this peer is skipped: it is missing, fails, or prints something unexpected.
FAILURES = (Missing, subprocess.CalledProcessError, OSError, LookupError, ValueError, ZeroDivisionError)


class Setting:
    """Paths of programs and models, and the results so far."""

    def __init__(self, scratch, rounds):
        target = Path(os.environ.get("CARGO_TARGET_DIR") or HOME / "target")
        self.scratch, self.rounds = scratch, rounds
        self.vic = os.environ.get("VIC") or str(target / "release" / "vic")
        self.models = Path(os.environ.get("MODELS") or os.environ.get("VIC_MODELS_DIR") or HOME / "models" / "cache")
        self.peers = Path(os.environ.get("PEERS") or target / "peers")
        self.ratios, self.missing = [], []
        self.processors = same_processors(int(os.environ.get("PROCESSORS") or 2))
        self.env = dict(
            os.environ, VIC_DATA_DIR=str(scratch / "data"), VIC_MODELS_DIR=str(self.models), VIC_LISTEN="127.0.0.1:0",
            ORT_DISABLE_TELEMETRY="1",
        )
        if not os.access(self.vic, os.X_OK):
            sys.exit(f"`{self.vic}` is missing: build it with `make build`, or set VIC to its path")

    def stage(self, name, compare, inputs):
        """Runs one stage. If a peer is missing or the stage fails, records a note, and the other stages still run."""
        print(f"{name} ...", file=sys.stderr, flush=True)
        try:
            compare(self, inputs)
        except FAILURES as error:
            self.miss(f"{name}: {told(error)}")
        finally:
            subprocess.run([self.vic, "daemon", "stop"], env=self.env, capture_output=True)
            shutil.rmtree(self.scratch / "data", ignore_errors=True)

    def miss(self, line):
        self.missing.append(f"not measured: {line}")

    def wanted(self, get):
        """Returns the result of `get`, or None with a note why the peer is missing."""
        try:
            return get()
        except FAILURES as error:
            self.miss(told(error))
            return None

    def by_turns(self, what, unit, vic, peers):
        """Measures vic and all peers in every round; `vic` and each of `peers` return a speed. Stores the median of the ratios
        of all rounds. Skips a peer that is None; records a note for a peer that fails."""
        peers = {name: measure for name, measure in peers.items() if measure}
        speeds = {name: [] for name in peers}
        own = []
        for _ in range(self.rounds):
            own.append(vic())
            for name in list(peers):
                speed = self.wanted(peers[name])
                if speed is None:
                    del peers[name], speeds[name]
                else:
                    speeds[name].append(speed)
        for name, measured in speeds.items():
            self.ratios.append({
                "what": what, "name": name, "unit": unit, "rounds": self.rounds, "processors": self.processors,
                "vic": statistics.median(own), "peer": statistics.median(measured),
                "ratio": statistics.median(a / b for a, b in zip(own, measured)),
            })

    def run(self, *command, **options):
        """Runs a program to its end and returns its output."""
        return subprocess.run(
            [str(it) for it in command], env=self.env, check=True, capture_output=True, text=True, **options
        ).stdout

    def bench(self, *arguments):
        """Runs `vic bench` and returns its report."""
        return json.loads(self.run(self.vic, "bench", *arguments, "--format", "json"))

    def python(self, name, *packages):
        """Returns the interpreter of a virtual environment with these packages; creates it on first use."""
        folder = self.peers / name
        interpreter, done = folder / "bin" / "python", folder / "packages"
        wanted = "\n".join(packages)
        if not done.exists() or done.read_text() != wanted:
            self.run(sys.executable, "-m", "venv", folder)
            try:
                self.run(interpreter, "-m", "pip", "install", "--quiet", *packages)
            except subprocess.CalledProcessError as error:
                raise Missing(f"{' '.join(packages)}: {told(error)}") from error
            done.write_text(wanted)
        return interpreter

    def program(self, names, debian, crate=None):
        """Returns the path of a program: from the PATH, else installed from Debian, else built from crates.io."""
        def found():
            own = self.peers / "bin"
            return next((it for name in names for it in [shutil.which(name), shutil.which(name, path=own)] if it), None)

        if not found() and os.geteuid() == 0 and shutil.which("apt-get"):
            subprocess.run(["apt-get", "install", "-y", "-qq", debian], capture_output=True)
        if not found() and crate and shutil.which("cargo"):
            subprocess.run(["cargo", "install", "--locked", "--quiet", "--root", str(self.peers), crate],
                           capture_output=True)
        if not found():
            raise Missing(f"{names[0]}: neither on the PATH nor to be had as Debian package `{debian}`")
        return found()

    def texts(self, inputs, count):
        """Returns a file of passages: the given file, or passages from the sample files."""
        path = self.scratch / f"texts-{count}.jsonl"
        if inputs:
            lines = inputs[0].read_text(encoding="utf-8").splitlines()[:count]
        else:
            lines = [json.dumps({"text": it}) for it in passages(count)]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return path

    def files(self, texts):
        """Returns a folder with each of these passages as a file."""
        folder = self.scratch / "passages"
        if not folder.exists():
            folder.mkdir()
            for number, line in enumerate(texts.read_text(encoding="utf-8").splitlines()):
                (folder / f"{number:06}.md").write_text(json.loads(line)["text"], encoding="utf-8")
        return folder


def same_processors(count):
    """Binds this process and its children to a few processors, if the system can. Returns the number of processors."""
    if not hasattr(os, "sched_setaffinity"):
        return os.cpu_count()
    allowed = sorted(os.sched_getaffinity(0))[:count]
    os.sched_setaffinity(0, allowed)
    return len(allowed)


def passages(count):
    """Returns passages of 40 to 240 words from the sample files; they are the same in every run."""
    kinds = {".md", ".org", ".tex", ".html", ".py"}
    files = sorted(it for it in (HOME / "data").rglob("*") if it.suffix in kinds)
    words = " ".join(it.read_text(encoding="utf-8") for it in files).split()
    draw = random.Random(7)
    for _ in range(count):
        start = draw.randrange(len(words) - 240)
        yield " ".join(words[start:start + draw.randint(40, 240)])


def told(error):
    """Describes an error in one line."""
    if isinstance(error, subprocess.CalledProcessError):
        said = (error.stderr or error.stdout or "").strip().splitlines()
        return f"{Path(error.cmd[0]).name} ended with {error.returncode}: {said[-1] if said else 'it said nothing'}"
    return f"its answer has no {error}" if isinstance(error, KeyError) else str(error)


def seconds(work):
    """Returns how long a call of `work` takes, in seconds."""
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun
