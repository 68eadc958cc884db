#!/usr/bin/env bash
# Runs the unit tests of every module with a file that differs from the commit BASE (default: HEAD), package by package.
set -euo pipefail
cd "$(dirname "$0")/.."
changed=$({ git diff --name-only "${BASE:-HEAD}"; git ls-files --others --exclude-standard; } | sort -u)

# test_changed PACKAGE FOLDER: tests the modules of PACKAGE, whose sources are in FOLDER, that have changed files.
test_changed() {
  local modules
  modules=$(sed -nE "s|^$2/(.*)\.rs$|\1|p" <<< "$changed" | sed -E 's|/mod$||; s|/|::|g' | grep -vE '^(lib|main|bin)' || true)
  [ -z "$modules" ] || cargo test --release --package "$1" --lib -- $modules
}

test_changed vic-system crates/system/src
test_changed vic-watch crates/watch/src
test_changed vic-kernels crates/kernels/src
test_changed vic-milvus crates/milvus/src
test_changed vic-protocol crates/protocol/src
test_changed vic-cli crates/cli/src
test_changed vic src
