"""Compares text extraction from PDFs, in pages per second: vic's jailed workers, pypdfium2 in Python, and pdftotext."""
import json
import shutil
import subprocess

from setting import HERE, HOME, seconds

# All files are read repeatedly until this many pages are reached, so that a few small files take long enough to measure.
LEAST_PAGES = 1_000


def compare(setting, inputs):
    folder = setting.scratch / "pdfs"
    folder.mkdir()
    for number, path in enumerate(sorted((inputs[0] if inputs else HOME / "data").rglob("*.pdf"))):
        shutil.copy(path, folder / f"{number:04} {path.name}")
    files = sorted(folder.iterdir())
    pages = max(1, setting.bench("extract", folder)["pages"])
    runs = max(1, -(-LEAST_PAGES // int(pages)))
    python = setting.wanted(lambda: setting.python("pdf", "pypdfium2==5.15.2"))
    pdftotext = setting.wanted(lambda: setting.program(["pdftotext"], "poppler-utils"))

    def vic():
        return setting.bench("extract", folder, "--runs", runs)["pages_per_second"]

    def pypdfium():
        return json.loads(setting.run(python, HERE / "pdf_peer.py", "--runs", runs, *files))["pages_per_second"]

    def poppler():
        def all_files():
            for path in files:
                subprocess.run([pdftotext, str(path), "-"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

        return pages / seconds(all_files)

    setting.by_turns("text of PDFs", "pages/s", vic, {
        "pypdfium2 in Python, no jail": python and pypdfium, "pdftotext, a process a file": pdftotext and poppler,
    })
