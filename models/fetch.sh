#!/usr/bin/env bash
# Fetches the default model, the one that reads pictures and the runtime libraries into models/cache (or
# VIC_MODELS_DIR), unless they are there.
# Needs `vic` on the PATH. Every file is checked against the sha256 in catalog.toml.
set -euo pipefail
for name in onnxruntime pdfium all-MiniLM-L6-v2 ppocr; do
  vic models verify --quiet "$name" 2>/dev/null || vic models pull "$name"
done
