#!/bin/sh
# Runs vic's reading of pictures and the Python package RapidOCR by turns, on the same pictures and with the same networks,
# and prints the pages per minute of both and their ratio (median of 3).
#
# Usage: benches/peers/ocr.sh [IMAGE|FOLDER]...   (without any: the pictures of the sample warehouse)
# Needs python3 with venv and network on the first run; MODELS names the folder of the models, OUT one that keeps the texts
# (OUT/vic and OUT/peer), so that both can be scored.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
home=$(dirname -- "$(dirname -- "$here")")
models=${MODELS:-${VIC_MODELS_DIR:-$home/models/cache}}
venv=${PEER_VENV:-$home/target/peer-ocr-venv}

reports=$(mktemp -d)
trap 'rm -rf "$reports"' EXIT
out=${OUT:-$reports/out}
[ $# -gt 0 ] || set -- "$home/data/Scans"

# Pictures only: what else lies in a folder is for neither of them.
list=$reports/list
for given in "$@"; do
    find "$given" -type f | grep -iE '\.(png|jpe?g|gif|bmp|webp|tiff?)$' || true
done | sort > "$list"
set --
while IFS= read -r path; do set -- "$@" "$path"; done < "$list"

if [ ! -x "$venv/bin/python" ]; then
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet rapidocr==3.10.0 onnxruntime==1.31.1
fi

for round in 1 2 3; do
    (cd "$home" && cargo bench --quiet --profile release --bench ocr -- --out "$out/vic" --models "$models" "$@") | tail -n 1 > "$reports/vic.$round"
    "$venv/bin/python" "$here/ocr_peer.py" "$models/ppocr" "$out/peer" "$@" | tail -n 1 > "$reports/peer.$round"
done

python3 - "$reports" <<'PYTHON'
import json, statistics, sys

def reports(name):
    return [json.load(open(f"{sys.argv[1]}/{name}.{round}")) for round in (1, 2, 3)]

vic, peer = reports("vic"), reports("peer")
print(json.dumps({
    "pages": vic[0]["pages"],
    "vic_pages_per_minute": [round(it["pages_per_minute"], 1) for it in vic],
    "peer_pages_per_minute": [round(it["pages_per_minute"], 1) for it in peer],
    "ratio_median": round(statistics.median(a["pages_per_minute"] / b["pages_per_minute"] for a, b in zip(vic, peer)), 2),
}))
PYTHON
