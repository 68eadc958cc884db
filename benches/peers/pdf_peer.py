#!/usr/bin/env python3
"""The peer of `vic bench extract`: extracts the text of every page with pypdfium2, in one process without limits.

Usage: pdf_peer.py [--runs N] FILE.pdf...
Prints one JSON object. A file that cannot be opened counts as zero pages, as in vic.
"""
import argparse
import json
import time

import pypdfium2


def read(path):
    pages = 0
    try:
        document = pypdfium2.PdfDocument(path)
    except pypdfium2.PdfiumError:
        return 0
    with document:
        for page in document:
            text = page.get_textpage()
            text.get_text_range()
            text.close()
            page.close()
            pages += 1
    return pages


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("files", nargs="+")
    options = parser.parse_args()
    read(options.files[0])
    start = time.perf_counter()
    pages = sum(read(path) for _ in range(options.runs) for path in options.files)
    seconds = time.perf_counter() - start
    print(json.dumps({"pages": pages, "pages_per_second": pages / seconds, "seconds": seconds}))


if __name__ == "__main__":
    main()
