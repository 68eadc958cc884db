"""Compares the median time of a question: hybrid search by vic's daemon over gRPC, including the embedding; LanceDB's Python
client with the same vectors (embedding, flat vector search and full text; vectors alone, flat and with HNSW-SQ); and tantivy
(full text only). Uses all lines of a given file."""
import json
import random

from setting import HERE

TEXTS = 3_000
QUERIES = 100
PACKAGES = ["lancedb==0.40.0", "tantivy==0.27.0", "onnxruntime==1.31.1", "numpy", "onnx", "safetensors", "tokenizers"]


def compare(setting, inputs):
    texts = setting.texts(inputs, None if inputs else TEXTS)
    queries = setting.scratch / "queries.jsonl"
    draw = random.Random(3)
    lines = texts.read_text(encoding="utf-8").splitlines()
    with queries.open("w", encoding="utf-8") as file:
        for line in draw.sample(lines, min(QUERIES, len(lines))):
            words = json.loads(line)["text"].split()
            start = draw.randrange(max(1, len(words) - 8))
            print(json.dumps({"query": " ".join(words[start:start + 8])}), file=file)
    python = setting.wanted(lambda: setting.python("query", *PACKAGES))
    setting.run(setting.vic, "index", setting.files(texts))
    tables, model = setting.scratch / "tables", setting.models / "all-MiniLM-L6-v2"
    if python:
        setting.run(python, HERE / "query_peer.py", "build", tables, model, texts)

    def vic():
        report = setting.bench("search", "--queries", queries, "--clients", 1, "--seconds", 4)
        return 1_000 / report["service_p50_ms"]

    def peer(kind):
        def measure():
            return 1_000 / json.loads(setting.run(python, HERE / "query_peer.py", kind, tables, model, queries))["p50_ms"]

        return python and measure

    setting.by_turns(f"hybrid question over {len(lines):,} passages, by gRPC", "per s of median", vic, {
        "LanceDB in Python, embedding, flat vectors and full text": peer("hybrid"),
        "LanceDB in Python, flat vectors only, no embedding": peer("vectors"),
        "LanceDB in Python, HNSW-SQ vectors only, no embedding": peer("hnsw"),
        "tantivy in Python, full text only": peer("tantivy"),
    })
