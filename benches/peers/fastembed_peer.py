#!/usr/bin/env python3
"""The peer of `vic bench embed`: fastembed with its own settings over the same weights, tokenizer and fused fp32 graph.

Usage: fastembed_peer.py MODEL_DIR TEXTS.jsonl [--threads 2]
Prints one JSON object. Special tokens are not counted.
"""
import argparse
import json
import os
import pathlib
import shutil
import tempfile
import time

os.environ["ORT_DISABLE_TELEMETRY"] = "1"
os.environ["HF_HUB_OFFLINE"] = "1"

import numpy as np
import onnx
from fastembed import TextEmbedding
from fastembed.common.model_description import ModelSource, PoolingType
from onnx import helper, numpy_helper
from safetensors.numpy import load_file
from tokenizers import Tokenizer

from embed_peer import masked


def whole_graph(folder):
    """Returns vic's fp32 graph with the embedding tables added, so that it maps token ids and a mask to hidden states."""
    model = onnx.load_from_string(masked(os.path.join(folder, "model.fp32.onnx")))
    graph, tables = model.graph, load_file(os.path.join(folder, "model.safetensors"))
    words = tables["embeddings.word_embeddings.weight"]
    places = tables["embeddings.position_embeddings.weight"] + tables["embeddings.token_type_embeddings.weight"][0]
    graph.initializer.extend([
        numpy_helper.from_array(words, "peer.words"), numpy_helper.from_array(places, "peer.places"),
        numpy_helper.from_array(np.array([0], np.int64), "peer.zero"),
        numpy_helper.from_array(np.array([1], np.int64), "peer.one"),
    ])
    nodes = [
        helper.make_node("Gather", ["peer.words", "input_ids"], ["peer.of_words"]),
        helper.make_node("Shape", ["input_ids"], ["peer.shape"], start=1, end=2),
        helper.make_node("Slice", ["peer.places", "peer.zero", "peer.shape", "peer.zero", "peer.one"], ["peer.of_places"]),
        helper.make_node("Add", ["peer.of_words", "peer.of_places"], ["embeddings"]),
        helper.make_node("Cast", ["attention_mask"], ["mask"], to=onnx.TensorProto.INT32),
    ]
    own = list(graph.node)
    del graph.node[:], graph.input[:]
    graph.node.extend(nodes + own)
    graph.input.extend(
        helper.make_tensor_value_info(name, onnx.TensorProto.INT64, ["batch", "tokens"])
        for name in ("input_ids", "attention_mask")
    )
    return model


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("texts")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    with open(options.texts, encoding="utf-8") as lines:
        texts = [json.loads(line)["text"] for line in lines]
    counter = Tokenizer.from_file(os.path.join(options.folder, "tokenizer.json"))
    counter.no_padding()
    counter.enable_truncation(512)
    tokens = sum(len(it.ids) - 2 for it in counter.encode_batch(texts))
    with tempfile.TemporaryDirectory() as place:
        place = pathlib.Path(place)
        onnx.save(whole_graph(options.folder), place / "model.onnx")
        for name in ("tokenizer.json", "config.json"):
            shutil.copy(os.path.join(options.folder, name), place / name)
        (place / "tokenizer_config.json").write_text(json.dumps({"model_max_length": 512, "pad_token": "[PAD]"}))
        (place / "special_tokens_map.json").write_text(json.dumps({"pad_token": "[PAD]"}))
        TextEmbedding.add_custom_model(
            model="local/same-weights", pooling=PoolingType.MEAN, normalization=True, dim=384,
            sources=ModelSource(hf="local/same-weights"), model_file="model.onnx",
        )
        model = TextEmbedding("local/same-weights", specific_model_path=str(place), threads=options.threads)
        list(model.embed(texts[:64]))
        start = time.perf_counter()
        vectors = list(model.embed(texts))
        seconds = time.perf_counter() - start
    assert len(vectors) == len(texts) and abs(np.linalg.norm(vectors[0]) - 1.0) < 1e-3
    print(json.dumps({"tokens_per_second": tokens / seconds, "texts": len(texts), "tokens": tokens, "seconds": seconds}))


if __name__ == "__main__":
    main()
