#!/usr/bin/env bash
# Installs Milvus Lite for `make test-milvus` into models/cache/milvus (or VIC_MODELS_DIR/milvus). Needs Python 3.10 or newer.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
home=${VIC_MODELS_DIR:-$here/cache}/milvus
version=3.2.2

if [ "$("$home/bin/pip" list --format freeze 2>/dev/null | grep '^milvus-lite==')" != "milvus-lite==$version" ]; then
  python3 -m venv "$home"
  "$home/bin/pip" install --quiet "milvus-lite==$version"
fi
