"""Compares OCR of images, in pages per minute, with RapidOCR (the same networks) and tesseract.

The environment variable OUT is a folder for the recognized texts (OUT/vic, OUT/peer), so that you can score them."""
import json
import os
import shutil
import subprocess
from pathlib import Path

from setting import HERE, HOME, seconds

KINDS = {".png", ".jpg", ".jpeg", ".gif", ".bmp", ".webp", ".tif", ".tiff"}
RAPIDOCR = ["rapidocr==3.10.0", "onnxruntime==1.31.1"]


def compare(setting, inputs):
    # Copies only images, because none of the programs can read other files of a folder.
    given = inputs or [HOME / "data" / "Scans"]
    found = [it for path in given for it in (sorted(path.rglob("*")) if path.is_dir() else [path])]
    folder = setting.scratch / "pictures"
    folder.mkdir()
    for path in found:
        if path.suffix.lower() in KINDS:
            shutil.copy(path, folder / path.name)
    images = sorted(folder.iterdir())
    out = Path(os.environ.get("OUT") or setting.scratch / "out")
    python = setting.wanted(lambda: setting.python("ocr", *RAPIDOCR))
    tesseract = setting.wanted(lambda: setting.program(["tesseract"], "tesseract-ocr"))

    def vic():
        return 60 * setting.bench("ocr", folder)["pages_per_second"]

    def rapid():
        said = setting.run(python, HERE / "ocr_peer.py", setting.models / "ppocr", out / "peer", *images)
        return json.loads(said.splitlines()[-1])["pages_per_minute"]

    def tess():
        def all_images():
            for path in images:
                subprocess.run([tesseract, str(path), "-"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)

        return 60 * len(images) / seconds(all_images)

    setting.by_turns("text in pictures", "pages/min", vic, {
        "RapidOCR in Python, the same networks": python and rapid, "tesseract, a process a page": tesseract and tess,
    })
    if "OUT" in os.environ:
        setting.run("cargo", "bench", "--quiet", "--profile", "release", "--bench", "ocr", "--", "--out", out / "vic",
                    "--models", setting.models, *images, cwd=HOME)
