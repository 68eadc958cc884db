"""Makes the expected vectors of a tiny BERT with random weights and a dense layer after pooling, with numpy.

usage: python3 models/reference/make_dense_vectors.py > models/reference/tiny-dense.json

The weights come from the generator of `TinyBert` in src/embed/onnx/graph/tests.rs, so that only the vectors are stored.
"""
import base64
import json
import math

import numpy as np

HIDDEN, HEADS, LAYERS, INNER, OUTPUTS = 64, 2, 2, 128, 96
VOCABULARY, POSITIONS, EPSILON, SEED, DENSE_SEED = 100, 64, 1e-12, 11, 12
TEXTS = ["w1", "w1 w2 w3", "w90 w17 w17 w4 w55 w0 w33", " ".join(f"w{it * 7 % 96}" for it in range(60))]


class Generator:
    def __init__(self, seed):
        self.state = seed

    def numbers(self, shape, middle, spread):
        count = math.prod(shape)
        out = np.empty(count, np.float32)
        for at in range(count):
            self.state = (self.state * 6364136223846793005 + 1442695040888963407) % (1 << 64)
            unit = np.float32(self.state >> 40) / np.float32(1 << 23) - np.float32(1)
            out[at] = np.float32(middle) + np.float32(spread) * unit
        return out.reshape(shape).astype(np.float64)


def tensors():
    generator, found, norms = Generator(SEED), {}, ["embeddings.LayerNorm"]
    for table, rows in [("word", VOCABULARY), ("position", POSITIONS), ("token_type", 2)]:
        found[f"embeddings.{table}_embeddings.weight"] = generator.numbers([rows, HIDDEN], 0, 1)
    for layer in range(LAYERS):
        p = f"encoder.layer.{layer}"
        for name, outputs, inputs in [
            ("attention.self.query", HIDDEN, HIDDEN),
            ("attention.self.key", HIDDEN, HIDDEN),
            ("attention.self.value", HIDDEN, HIDDEN),
            ("attention.output.dense", HIDDEN, HIDDEN),
            ("intermediate.dense", INNER, HIDDEN),
            ("output.dense", HIDDEN, INNER),
        ]:
            found[f"{p}.{name}.weight"] = generator.numbers([outputs, inputs], 0, 0.3)
            found[f"{p}.{name}.bias"] = generator.numbers([outputs], 0, 0.1)
        norms += [f"{p}.attention.output.LayerNorm", f"{p}.output.LayerNorm"]
    for norm in norms:
        found[f"{norm}.weight"] = generator.numbers([HIDDEN], 1, 0.2)
        found[f"{norm}.bias"] = generator.numbers([HIDDEN], 0, 0.1)
    return found


def forward(t, ids):
    def norm(x, name):
        centred = x - x.mean(-1, keepdims=True)
        scale = np.sqrt((centred**2).mean(-1, keepdims=True) + EPSILON)
        return centred / scale * t[name + ".weight"] + t[name + ".bias"]

    dense = lambda x, name: x @ t[name + ".weight"].T + t[name + ".bias"]
    gelu = np.vectorize(lambda x: 0.5 * x * (1 + math.erf(x / math.sqrt(2))))
    x = t["embeddings.word_embeddings.weight"][ids] + t["embeddings.position_embeddings.weight"][: len(ids)]
    x = norm(x + t["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
    width = HIDDEN // HEADS
    for layer in range(LAYERS):
        p = f"encoder.layer.{layer}"
        parts = (dense(x, f"{p}.attention.self.{it}") for it in ("query", "key", "value"))
        q, k, v = (it.reshape(-1, HEADS, width).transpose(1, 0, 2) for it in parts)
        scores = np.exp(q @ k.transpose(0, 2, 1) / math.sqrt(width))
        context = (scores / scores.sum(-1, keepdims=True)) @ v
        mixed = dense(context.transpose(1, 0, 2).reshape(-1, HIDDEN), f"{p}.attention.output.dense")
        x = norm(x + mixed, f"{p}.attention.output.LayerNorm")
        inner = gelu(dense(x, f"{p}.intermediate.dense"))
        x = norm(x + dense(inner, f"{p}.output.dense"), f"{p}.output.LayerNorm")
    return x


def main():
    t, generator = tensors(), Generator(DENSE_SEED)
    weight, bias = generator.numbers([OUTPUTS, HIDDEN], 0, 0.3), generator.numbers([OUTPUTS], 0, 0.5)
    found = []
    for text in TEXTS:
        ids = [2, *(4 + int(it[1:]) for it in text.split()), 3]
        vector = np.tanh(weight @ forward(t, ids).mean(0) + bias)
        vector = (vector / np.linalg.norm(vector)).astype("<f4").tobytes()
        found.append({"text": text, "vector": base64.b64encode(vector).decode()})
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
