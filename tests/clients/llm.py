"""Asks a model through vic, from Python. Needs grpcio and grpcio-tools, which compile the contract when this starts.

    python3 llm.py ADDRESS KEY QUESTION...      e.g. 127.0.0.1:8765 "$(cat ~/.local/share/vic/key)" how are you
"""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "proto"))

import grpc  # noqa: E402

messages, services = grpc.protos_and_services("vic/v1/llm.proto")


def main(address, key, *words):
    metadata = [("authorization", f"Bearer {key}")]
    with grpc.insecure_channel(address) as channel:
        llm = services.LlmStub(channel)
        look = llm.GetCapabilities(messages.GetCapabilitiesRequest(), metadata=metadata)
        print("backend", look.backend, look.default_model)
        request = messages.LlmRequest(messages=[messages.LlmMessage(role="user", content=" ".join(words))])
        for event in llm.Stream(request, metadata=metadata):
            kind = event.WhichOneof("event")
            if kind == "started":
                task = event.started.task_id
            elif kind == "token":
                print("token", json.dumps(event.token.text))
            elif kind == "completed":
                print("completed", event.completed.finish_reason)
            elif kind == "error":
                sys.exit(f"{event.error.code}: {event.error.message}")
        # It has ended: there is nothing to cancel any more.
        ended = llm.Cancel(messages.CancelLlmRequest(task_id=task), metadata=metadata).ended
        print("cancelled", ended)


main(*sys.argv[1:])
