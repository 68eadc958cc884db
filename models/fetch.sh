#!/usr/bin/env bash
# Fetches the default embedding model, the OCR models and the runtime libraries into models/cache (or VIC_MODELS_DIR), unless
# they are there. Needs `vic` on the PATH. Checks every file against the sha256 in catalog.toml.
set -euo pipefail
for name in onnxruntime pdfium all-MiniLM-L6-v2 ppocr; do
  vic models verify --quiet "$name" 2>/dev/null || vic models pull "$name"
done
