"""A plugin as the protocol's document has it: one JSON request on standard input, one JSON response on standard output.

No model: it searches once and quotes the first passage that it is given.
"""

import json
import sys


def respond(request):
    task = request["task"]
    kind = task["kind"]
    if kind == "to_query":
        atom = {"kind": "attr_contains", "term": "?x", "key": "name", "needle": task["question"].split()[-1]}
        return {"query_ir_v1": {"version": 1, "select": ["?x"], "where": [atom], "limit": 20}}
    if kind == "answer":
        assert task["query"]["kind"] == "axql", task["query"]
        if "--search" in sys.argv:
            # The third version of the protocol: it looks further before it answers, and is asked on.
            return {"tool_call": {"name": "fts_chunks", "args": {"query": "hive"}}}
        return {"answer": f"{len(task['results']['rows'])} rows of {task['query']['axql']}"}
    if kind == "augment_proposals":
        known = [it["proposal_id"] for it in task["proposals"]["proposals"]]
        updates = [{"proposal_id": it, "schema_hint": "warehouse"} for it in known[:1]]
        return {"added_proposals": [], "schema_hint_updates": updates, "notes": [f"{len(known)} proposals seen"]}
    if kind == "tool_loop_step":
        steps = task["transcript"]
        if not any(it["tool"] == "fts_chunks" for it in steps):
            return {"tool_call": {"name": "fts_chunks", "args": {"query": "hive"}}}
        hits = [hit for it in steps for hit in it["result"].get("hits", [])]
        first = hits[0]
        return {"final_answer": {"answer": first["text"], "citations": [first["citation"]]}}
    return {"error": f"unknown task {kind}"}


print(json.dumps(respond(json.load(sys.stdin))))
print("debug output", file=sys.stderr)
