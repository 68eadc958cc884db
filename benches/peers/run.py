#!/usr/bin/env python3
"""Compares the speed of vic with other programs (peers), on the same files and the same two processors. Runs them in turn for
five rounds, and prints the medians of the ratios as one table.

  run.py [--rounds 5] [--out FILE.json] [STAGE [INPUT...]]

  embed [TEXTS.jsonl]       onnxruntime with tokenizers, and fastembed, with the same model files
  walk [FOLDER]             find and fd
  keyword [TEXTS.jsonl]     ripgrep
  pdf [FOLDER]              pypdfium2 and pdftotext
  ocr [IMAGE|FOLDER...]     RapidOCR with the same networks, and tesseract
  query [TEXTS.jsonl]       LanceDB's Python client with the same vectors, and tantivy

Without a stage, runs all stages on the sample files or on inputs made from them. The first run installs peers from PyPI,
Debian or crates.io; if a peer is not available, the reason is printed. A ratio is vic's speed divided by the peer's:
above 1 vic is faster. Environment variables: VIC is the path of the program, MODELS the folder of the models, PEERS the folder
of the peers, PROCESSORS the number of processors to use.
"""
import argparse
import json
import sys
import tempfile
from pathlib import Path

import stage_embed
import stage_keyword
import stage_ocr
import stage_pdf
import stage_query
import stage_walk
from setting import Setting

STAGES = {
    "embed": stage_embed, "walk": stage_walk, "keyword": stage_keyword, "pdf": stage_pdf, "ocr": stage_ocr,
    "query": stage_query,
}


def show(ratios):
    """Prints the ratios as a table with aligned columns."""
    lines = [("measured", "vic", "peer", "", "ratio", "peer is")]
    for it in ratios:
        lines.append((it["what"], f'{it["vic"]:,.1f}', f'{it["peer"]:,.1f}', it["unit"], f'{it["ratio"]:.3g}', it["name"]))
    widths = [max(len(line[column]) for line in lines) for column in range(6)]
    for line in lines:
        cells = [cell.rjust(width) if column in (1, 2, 4) else cell.ljust(width)
                 for column, (cell, width) in enumerate(zip(line, widths))]
        print("  ".join(cells).rstrip())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, help="also write the ratios to this file")
    parser.add_argument("stage", nargs="?", choices=STAGES)
    parser.add_argument("inputs", nargs="*", type=Path)
    options = parser.parse_args()
    chosen = [options.stage] if options.stage else list(STAGES)
    with tempfile.TemporaryDirectory(prefix="vic-peers-") as scratch:
        setting = Setting(Path(scratch), options.rounds)
        for name in chosen:
            setting.stage(name, STAGES[name].compare, [it.resolve() for it in options.inputs])
    show(setting.ratios)
    for line in setting.missing:
        print(line)
    if options.out:
        options.out.write_text(json.dumps({"ratios": setting.ratios, "missing": setting.missing}, indent=2) + "\n")
    if not setting.ratios:
        sys.exit("nothing was measured")


if __name__ == "__main__":
    main()
