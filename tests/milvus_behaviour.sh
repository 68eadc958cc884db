#!/usr/bin/env bash
# Runs the tests that tests/it/milvus/behaviour.txt lists with the index of each daemon in Milvus Lite. Run it by `make test-milvus`.
set -euo pipefail
cd "$(dirname "$0")/.."
mapfile -t tests < <(grep -v '^#' tests/it/milvus/behaviour.txt)
log=$(mktemp)
trap 'rm -f "$log"' EXIT
VIC_TEST_STORE=milvus cargo test --release --test it -- --exact --test-threads 2 "${tests[@]}" 2>&1 | tee "$log"
# A test that has another name now would not run.
if ! grep -q "^test result: ok. ${#tests[@]} passed" "$log"; then
  echo "error: behaviour.txt lists ${#tests[@]} tests, and not all ran" >&2
  exit 1
fi
