#!/usr/bin/env python3
"""The peer of `benches/ocr.rs`: the Python package RapidOCR with its own settings, all processors, and the same networks.

Usage: ocr_peer.py MODELS OUT IMAGE...
Writes the text of each image to OUT/<file name>.txt. Prints one JSON object for each image and one at the end. The time
includes decoding the image, but not loading the networks.
"""

import hashlib
import json
import os
import pathlib
import sys
import time

os.environ["ORT_DISABLE_TELEMETRY"] = "1"

import rapidocr

PAIRS = {"det.onnx": "PP-OCRv6_det_small.onnx", "rec.onnx": "PP-OCRv6_rec_small.onnx"}


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def check_networks(models):
    """Exits with an error unless vic and RapidOCR have the same model files."""
    own = pathlib.Path(rapidocr.__file__).parent / "models"
    for ours, theirs in PAIRS.items():
        if digest(models / ours) != digest(own / theirs):
            sys.exit(f"{ours} and {theirs} differ")


def main():
    models, out, images = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3:]
    check_networks(models)
    out.mkdir(parents=True, exist_ok=True)
    engine = rapidocr.RapidOCR(params={"Global.log_level": "error"})
    total = 0.0
    for image in images:
        start = time.perf_counter()
        result = engine(image)
        seconds = time.perf_counter() - start
        total += seconds
        lines = list(result.txts or [])
        name = pathlib.Path(image).name
        (out / f"{name}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
        print(json.dumps({"file": name, "lines": len(lines), "seconds": round(seconds, 3)}))
    report = {
        "pages": len(images),
        "seconds": total,
        "pages_per_minute": len(images) * 60 / total,
        "settings": {"rapidocr": "3.10.0"},
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main()
