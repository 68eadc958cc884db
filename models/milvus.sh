#!/usr/bin/env bash
# Installs what `make test-milvus` needs into models/cache (or VIC_MODELS_DIR): Milvus Lite into `milvus`, and a full server of
# Milvus in one process, from the package `milvus`, into `milvus-server`. Needs Python 3.10 or newer.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
home=${VIC_MODELS_DIR:-$here/cache}

# Installs the package $2 with the version $3 into the virtual environment $1.
install_package() {
  if [ "$("$home/$1/bin/pip" list --format freeze 2>/dev/null | grep "^$2==")" != "$2==$3" ]; then
    python3 -m venv "$home/$1"
    "$home/$1/bin/pip" install --quiet "$2==$3"
  fi
}

install_package milvus milvus-lite 3.2.2
# The newest version that has a package for Linux.
install_package milvus-server milvus 2.3.5
