#!/bin/sh
# Runs vic and its Python peer by turns on the same texts and prints both speeds and their ratio (median of 3).
#
# Usage: benches/peers/embed.sh [TEXTS.jsonl]   (one JSON object with a field `text` on each line; without it, passages
#                                                of 40 to 240 words cut out of the sample warehouse)
# Needs python3 with venv and network on the first run; VIC names the program, MODEL_DIR the folder of the model.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
home=$(dirname -- "$(dirname -- "$here")")
vic=${VIC:-${CARGO_TARGET_DIR:-$home/target}/release/vic}
model=${MODEL_DIR:-$home/models/cache/all-MiniLM-L6-v2}
venv=${PEER_VENV:-$home/target/peer-venv}

reports=$(mktemp -d)
trap 'rm -rf "$reports"' EXIT
texts=${1:-}
if [ -z "$texts" ]; then
    texts=$reports/texts.jsonl
    python3 - "$home/data" > "$texts" <<'PYTHON'
import json, pathlib, random, sys

random.seed(7)
files = sorted(it for it in pathlib.Path(sys.argv[1]).rglob("*") if it.suffix in {".md", ".org", ".tex", ".html", ".py"})
words = " ".join(it.read_text(encoding="utf-8") for it in files).split()
for _ in range(1500):
    start = random.randrange(len(words) - 240)
    print(json.dumps({"text": " ".join(words[start:start + random.randint(40, 240)])}))
PYTHON
fi

if [ ! -x "$venv/bin/python" ]; then
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet onnxruntime numpy onnx safetensors tokenizers
fi

# The peer runs vic's own fp32 graph, which the first fp32 run writes.
if [ ! -f "$model/model.fp32.onnx" ]; then
    VIC_EMBED_PRECISION=fp32 "$vic" bench embed --texts "$texts" --format json > /dev/null
fi

for round in 1 2 3; do
    "$vic" bench embed --texts "$texts" --format json > "$reports/vic.$round"
    "$venv/bin/python" "$here/embed_peer.py" "$model" "$texts" > "$reports/peer.$round"
done

python3 - "$reports" <<'PYTHON'
import json, statistics, sys

def speeds(name):
    return [json.load(open(f"{sys.argv[1]}/{name}.{round}"))["tokens_per_second"] for round in (1, 2, 3)]

vic, peer = speeds("vic"), speeds("peer")
ratios = [a / b for a, b in zip(vic, peer)]
print(json.dumps({
    "vic_tokens_per_second": [round(it) for it in vic],
    "peer_tokens_per_second": [round(it) for it in peer],
    "ratio_median": round(statistics.median(ratios), 2),
}))
PYTHON
