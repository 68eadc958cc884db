#!/usr/bin/env python3
"""The peer of `vic bench embed`: the same model in ONNX Runtime for Python, run as a careful Python program would.

Uses the fused fp32 graph that vic writes as model.fp32.onnx, so that both programs have the best operators; the fast
`tokenizers` package; batches of texts sorted by length and padded to the longest text; two threads in one session. Special
tokens do not count, as in `vic bench embed`.

Usage: embed_peer.py MODEL_DIR TEXTS.jsonl [--precision int8] [--batch 32] [--threads 2] [--length 512] [--rounds 1]
With `--precision int8` it runs vic's int8 graph instead. Prints one JSON object.
"""

import argparse
import json
import os
import resource
import time

os.environ["ORT_DISABLE_TELEMETRY"] = "1"

import numpy as np
import onnxruntime as ort
from safetensors.numpy import load_file
from tokenizers import Tokenizer


class Peer:
    """The model in ONNX Runtime: network, embedding tables and tokenizer."""

    def __init__(self, folder, graph, threads, length):
        tables = load_file(os.path.join(folder, "model.safetensors"))
        self.words = tables["embeddings.word_embeddings.weight"]
        self.places = (
            tables["embeddings.position_embeddings.weight"] + tables["embeddings.token_type_embeddings.weight"][0]
        )
        self.tokenizer = Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(length)
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 3
        # Not fused, as in vic, because the fused operator is slower than its parts on some processors.
        self.session = ort.InferenceSession(
            graph, options, providers=["CPUExecutionProvider"], disabled_optimizers=["SkipLayerNormFusion"]
        )

    def embed(self, texts, batch):
        """Embeds the texts. Returns the vectors, and the number of tokens without special tokens."""
        encodings = self.tokenizer.encode_batch(texts)
        order = sorted(range(len(texts)), key=lambda at: -len(encodings[at].ids))
        vectors = np.empty((len(texts), self.words.shape[1]), np.float32)
        for start in range(0, len(order), batch):
            picked = order[start : start + batch]
            longest = len(encodings[picked[0]].ids)
            ids = np.zeros((len(picked), longest), np.int64)
            mask = np.zeros((len(picked), longest), np.int32)
            for row, at in enumerate(picked):
                length = len(encodings[at].ids)
                ids[row, :length] = encodings[at].ids
                mask[row, :length] = 1
            inputs = {"embeddings": self.words[ids] + self.places[:longest]}
            if any(it.name == "mask" for it in self.session.get_inputs()):
                inputs["mask"] = mask
            hidden = self.session.run(None, inputs)[0]
            pooled = (hidden * mask[:, :, None]).sum(1)
            vectors[picked] = pooled / np.linalg.norm(pooled, axis=1, keepdims=True)
        return vectors, sum(len(it.ids) - 2 for it in encodings)


def masked(path):
    """Returns vic's fp32 graph with a batch dimension and a mask, for batches of padded texts."""
    import onnx
    from onnx import helper

    model = onnx.load(path)
    graph = model.graph
    for value in (graph.input[0], graph.output[0]):
        value.type.tensor_type.shape.dim[0].dim_param = "batch"
    graph.input.append(helper.make_tensor_value_info("mask", onnx.TensorProto.INT32, ["batch", "tokens"]))
    for node in graph.node:
        if node.op_type == "Attention":
            node.input.append("mask")
        elif node.op_type == "QAttention":
            node.input[5] = "mask"
    return model.SerializeToString()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("texts")
    parser.add_argument("--precision", choices=["fp32", "int8"], default="fp32")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--vectors", help="also write the vectors to this .npy file")
    options = parser.parse_args()
    with open(options.texts, encoding="utf-8") as lines:
        texts = [json.loads(line)["text"] for line in lines]
    graph = masked(os.path.join(options.folder, f"model.{options.precision}.onnx"))
    peer = Peer(options.folder, graph, options.threads, options.length)
    peer.embed(texts[:64], options.batch)
    best = None
    for _ in range(options.rounds):
        start = time.perf_counter()
        vectors, tokens = peer.embed(texts, options.batch)
        seconds = time.perf_counter() - start
        best = seconds if best is None else min(best, seconds)
    if options.vectors:
        np.save(options.vectors, vectors)
    report = {
        "tokens_per_second": tokens / best,
        "texts_per_second": len(texts) / best,
        "texts": len(texts),
        "tokens": tokens,
        "seconds": best,
        "peak_rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "settings": {"onnxruntime": ort.__version__, "precision": options.precision, "batch": options.batch,
                     "threads": options.threads},
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main()
