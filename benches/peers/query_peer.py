#!/usr/bin/env python3
"""The peer of `vic bench search`: searches the same passages with LanceDB or tantivy in Python.

Usage: query_peer.py build TABLES MODEL_DIR TEXTS.jsonl
       query_peer.py hybrid|vectors|hnsw|tantivy TABLES MODEL_DIR QUERIES.jsonl
Prints one JSON object with the median time of a question, after a warm-up round.
"""
import json
import os
import pathlib
import statistics
import sys
import time

os.environ["ORT_DISABLE_TELEMETRY"] = "1"

import lancedb
import tantivy
from lancedb.index import FTS, HnswSq

from embed_peer import Peer, masked

LIMIT = 10


def lines(path, field):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line)[field] for line in file]


def encoder(model):
    return Peer(model, masked(os.path.join(model, "model.fp32.onnx")), 2, 512)


def build(tables, model, path):
    texts = lines(path, "text")
    vectors, _ = encoder(model).embed(texts, 32)
    database = lancedb.connect(tables / "lance")
    rows = [{"id": at, "text": text, "vector": vector} for at, (text, vector) in enumerate(zip(texts, vectors))]
    database.create_table("passages", rows, mode="overwrite").create_index("text", config=FTS())
    database.create_table("neighbours", rows, mode="overwrite").create_index("vector", config=HnswSq(distance_type="cosine"))
    schema = tantivy.SchemaBuilder().add_integer_field("id", stored=True).add_text_field("text").build()
    (tables / "tantivy").mkdir(parents=True, exist_ok=True)
    writer = tantivy.Index(schema, path=str(tables / "tantivy")).writer()
    for at, text in enumerate(texts):
        writer.add_document(tantivy.Document(id=at, text=text))
    writer.commit()
    writer.wait_merging_threads()


def fused(*lists):
    """Returns a reranker for LanceDB: reciprocal rank fusion."""
    scores = {}
    for found in lists:
        for rank, it in enumerate(found):
            scores[it] = scores.get(it, 0) + 1 / (60 + rank)
    return sorted(scores, key=scores.get, reverse=True)[:LIMIT]


def asker(kind, tables, model, queries):
    """Returns a function that answers one question with this kind of search."""
    if kind == "tantivy":
        index = tantivy.Index.open(str(tables / "tantivy"))
        searcher = index.searcher()

        def ask(query):
            words = " ".join(it for it in "".join(c if c.isalnum() else " " for c in query).split())
            return searcher.search(index.parse_query(words, ["text"]), LIMIT).hits

        return ask
    name = "neighbours" if kind == "hnsw" else "passages"
    table, own = lancedb.connect(tables / "lance").open_table(name), encoder(model)

    def ids(search, score):
        return [it["id"] for it in search.select(["id", score]).limit(100).to_list()]

    if kind in ("vectors", "hnsw"):
        known = {query: own.embed([query], 1)[0][0] for query in queries}
        return lambda query: ids(table.search(known[query]), "_distance")

    def hybrid(query):
        vector = own.embed([query], 1)[0][0]
        return fused(ids(table.search(vector), "_distance"), ids(table.search(query, query_type="fts"), "_score"))

    return hybrid


def main():
    kind, tables, model, path = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3], sys.argv[4]
    if kind == "build":
        build(tables, model, path)
        return
    queries = lines(path, "query")
    ask = asker(kind, tables, model, queries)
    times = []
    for _ in range(2):
        times.clear()
        for query in queries:
            start = time.perf_counter()
            ask(query)
            times.append(time.perf_counter() - start)
    print(json.dumps({"p50_ms": 1_000 * statistics.median(times), "queries": len(queries)}))


if __name__ == "__main__":
    main()
