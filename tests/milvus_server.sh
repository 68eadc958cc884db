#!/usr/bin/env bash
# Tests the client of Milvus against a full server (2.3.5). The server listens on all networks without authentication, so it
# runs in a network namespace, and in a process namespace, which ends all its processes. Run it by `make test-milvus`.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ "${1:-}" != inside ]; then
  if ! unshare --user --map-root-user --net --pid --fork --mount-proc true 2>/dev/null; then
    echo 'NOT PROVEN the client of Milvus against a full server: this machine has no namespaces'
    exit "${VIC_TESTS_MUST_PROVE:-0}"
  fi
  # Builds here, where the network is.
  cargo test --release --package vic-milvus --no-run
  exec unshare --user --map-root-user --net --pid --fork --mount-proc "$0" inside
fi

data=$(mktemp -d)
trap 'rm -rf "$data"' EXIT
ip link set lo up
"$VIC_MODELS_DIR/milvus-server/bin/milvus-server" --debug --data "$data" > "$data/log" 2>&1 &
if ! VIC_TEST_MILVUS=http://127.0.0.1:19530 CARGO_NET_OFFLINE=true \
    cargo test --release --package vic-milvus -- --ignored --test-threads 1 full_server; then
  tail -n 20 "$data/log" >&2
  exit 1
fi
