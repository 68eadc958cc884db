"""Asks a model through vic, from Python; the model calls a tool that this program runs. Needs grpcio and grpcio-tools,
which compile the contract when this starts.

    python3 llm.py ADDRESS KEY QUESTION...      e.g. 127.0.0.1:8765 "$(cat ~/.local/share/vic/key)" how heavy is the hive
"""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "proto"))

import grpc  # noqa: E402

messages, services = grpc.protos_and_services("vic/v1/llm.proto")

WEIGH = messages.LlmTool(
    name="weigh",
    description="weighs a hive",
    parameters_json=json.dumps({"type": "object", "required": ["hive"], "properties": {"hive": {"type": "string"}}}),
)


def weigh(arguments_json):
    """The tool: what the model is told."""
    return json.dumps({"hive": json.loads(arguments_json)["hive"], "kg": 31})


def turn(llm, metadata, conversation):
    """One request; gives what the model said and called, and the name of the task."""
    request = messages.LlmRequest(messages=conversation, tools=[WEIGH], workload="tool", with_proof=True)
    said = messages.LlmMessage(role="assistant")
    for event in llm.Stream(request, metadata=metadata):
        kind = event.WhichOneof("event")
        if kind == "started":
            task = event.started.task_id
        elif kind == "token":
            print("token", json.dumps(event.token.text))
            said.content += event.token.text
        elif kind == "tool_call":
            print("tool", event.tool_call.name, event.tool_call.arguments_json)
            said.tool_calls.append(event.tool_call)
        elif kind == "completed":
            print("completed", event.completed.finish_reason, len(event.completed.proof.seal))
        elif kind == "error":
            sys.exit(f"{event.error.code}: {event.error.message}")
    return said, task


def main(address, key, *words):
    metadata = [("authorization", f"Bearer {key}")]
    with grpc.insecure_channel(address) as channel:
        llm = services.LlmStub(channel)
        look = llm.GetCapabilities(messages.GetCapabilitiesRequest(), metadata=metadata)
        print("backend", look.backend, look.default_model)
        conversation = [messages.LlmMessage(role="user", content=" ".join(words))]
        limits = llm.Validate(messages.LlmRequest(messages=conversation), metadata=metadata)
        print("valid", limits.id)
        try:
            llm.Validate(messages.LlmRequest(messages=conversation, max_tokens=limits.max_tokens + 1), metadata=metadata)
        except grpc.RpcError as error:
            print("refused", error.code().value[0])
        while True:
            said, task = turn(llm, metadata, conversation)
            if not said.tool_calls:
                break
            results = [
                messages.LlmMessage(
                    role="tool", content=weigh(it.arguments_json), tool_call_id=it.id, tool_name=it.name
                )
                for it in said.tool_calls
            ]
            conversation += [said, *results]
        vectors = llm.Embed(messages.LlmEmbedRequest(texts=["one", "three"]), metadata=metadata).vectors
        print("vectors", len(vectors), len(vectors[0].values))
        # It has ended: there is nothing to cancel any more.
        ended = llm.Cancel(messages.CancelLlmRequest(task_id=task), metadata=metadata).ended
        print("cancelled", ended)


main(*sys.argv[1:])
