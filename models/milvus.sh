#!/usr/bin/env bash
# Installs what `make test-milvus` needs into models/cache (or VIC_MODELS_DIR): Milvus Lite into `milvus`, and a full server of
# Milvus in one process, from the package `milvus`, into `milvus-server`. Needs Python 3.10 or newer.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
home=${VIC_MODELS_DIR:-$here/cache}

# Installs packages, each as NAME==VERSION, into the virtual environment $1.
install_packages() {
  local environment=$home/$1
  shift
  local installed
  installed=$("$environment/bin/pip" list --format freeze 2>/dev/null || true)
  for package in "$@"; do
    if ! grep -qxF "$package" <<< "$installed"; then
      python3 -m venv "$environment"
      "$environment/bin/pip" install --quiet "$@"
      return
    fi
  done
}

# The server of Milvus Lite imports pymilvus, which its package does not require.
install_packages milvus milvus-lite==3.2.2 pymilvus==3.0.2
# The newest version that has a package for Linux.
install_packages milvus-server milvus==2.3.5
