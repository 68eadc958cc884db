"""Compares embedding, in tokens per second, with ONNX Runtime in Python (fp32 and vic's own int8 graph) and fastembed."""
import json

from setting import HERE, Missing

MODEL = "all-MiniLM-L6-v2"
ONNXRUNTIME = ["onnxruntime==1.31.1", "numpy", "onnx", "safetensors", "tokenizers"]
FASTEMBED = ["fastembed==0.9.1", "onnxruntime==1.31.1", "onnx", "safetensors"]


def compare(setting, inputs):
    texts = setting.texts(inputs, 1_500)
    folder = setting.models / MODEL
    for precision in ("fp32", "int8"):
        # Runs vic first if its graph is missing: the peer uses the graph that vic writes on its first run with this precision.
        if not (folder / f"model.{precision}.onnx").exists():
            setting.bench("embed", "--texts", texts, "--no-peak", "--precision", precision)
    plain = setting.wanted(lambda: setting.python("embed", *ONNXRUNTIME))
    fast = setting.wanted(lambda: setting.python("fastembed", *FASTEMBED))

    def vic(*more):
        return lambda: setting.bench("embed", "--texts", texts, "--no-peak", *more)["tokens_per_second"]

    def peer(interpreter, program, *more):
        def measure():
            said = setting.run(interpreter, HERE / program, folder, texts, "--threads", setting.processors, *more)
            speed = json.loads(said)["tokens_per_second"]
            if not speed:
                raise Missing(f"{program} embedded nothing")
            return speed

        return interpreter and measure

    setting.by_turns("embedding, default precision", "tokens/s", vic(), {
        "onnxruntime in Python, fused fp32 graph, sorted by length": peer(plain, "embed_peer.py"),
        "the same with vic's int8 graph": peer(plain, "embed_peer.py", "--precision", "int8"),
        "fastembed, fp32, the same weights": peer(fast, "fastembed_peer.py"),
    })
    setting.by_turns("embedding, int8 graph in ONNX Runtime, so that only the pipeline differs", "tokens/s",
                     vic("--engine", "onnx", "--precision", "int8"), {
        "onnxruntime in Python, the same graph": peer(plain, "embed_peer.py", "--precision", "int8"),
    })
    setting.by_turns("embedding, four calls at a time", "tokens/s", vic("--callers", 4), {
        "vic, one call at a time": vic("--callers", 1),
    })
