// Asks a model through vic, from JavaScript; the model calls a tool that this program runs. Needs @grpc/grpc-js and
// @grpc/proto-loader.
//
//     node llm.js ADDRESS KEY QUESTION...      e.g. 127.0.0.1:8765 "$(cat ~/.local/share/vic/key)" how heavy is the hive

const path = require("path");
const { promisify } = require("util");
const grpc = require("@grpc/grpc-js");
const loader = require("@grpc/proto-loader");

const proto = path.join(__dirname, "..", "..", "proto");
const contract = loader.loadSync("vic/v1/llm.proto", { includeDirs: [proto], keepCase: true, oneofs: true });
const { Llm } = grpc.loadPackageDefinition(contract).vic.v1;

const [address, key, ...words] = process.argv.slice(2);
const llm = new Llm(address, grpc.credentials.createInsecure());
const metadata = new grpc.Metadata();
metadata.set("authorization", `Bearer ${key}`);
const call = (method, request) => promisify(llm[method].bind(llm))(request, metadata);

const parameters = { type: "object", required: ["hive"], properties: { hive: { type: "string" } } };
const tools = [{ name: "weigh", description: "weighs a hive", parameters_json: JSON.stringify(parameters) }];

// The tool: what the model is told.
const weigh = (text) => JSON.stringify({ hive: JSON.parse(text).hive, kg: 31 });

// One request; gives what the model said and called, and the name of the task.
const turn = async (messages) => {
  const said = { role: "assistant", content: "", tool_calls: [] };
  let task;
  for await (const it of llm.Stream({ messages, tools, workload: "tool", with_proof: true }, metadata)) {
    if (it.event === "started") task = it.started.task_id;
    if (it.event === "token") {
      console.log("token", JSON.stringify(it.token.text));
      said.content += it.token.text;
    }
    if (it.event === "tool_call") {
      console.log("tool", it.tool_call.name, it.tool_call.arguments_json);
      said.tool_calls.push(it.tool_call);
    }
    if (it.event === "completed") console.log("completed", it.completed.finish_reason, it.completed.proof.seal.length);
    if (it.event === "error") throw new Error(`${it.error.code}: ${it.error.message}`);
  }
  return { said, task };
};

const main = async () => {
  const look = await call("GetCapabilities", {});
  console.log("backend", look.backend, look.default_model);
  const messages = [{ role: "user", content: words.join(" ") }];
  const limits = await call("Validate", { messages });
  console.log("valid", limits.id);
  await call("Validate", { messages, max_tokens: limits.max_tokens + 1 }).catch((error) => {
    console.log("refused", error.code);
  });
  let { said, task } = await turn(messages);
  while (said.tool_calls.length > 0) {
    const result = (it) => ({ role: "tool", content: weigh(it.arguments_json), tool_call_id: it.id, tool_name: it.name });
    messages.push(said, ...said.tool_calls.map(result));
    ({ said, task } = await turn(messages));
  }
  const { vectors } = await call("Embed", { texts: ["one", "three"] });
  console.log("vectors", vectors.length, vectors[0].values.length);
  // It has ended: there is nothing to cancel any more.
  const reply = await call("Cancel", { task_id: task });
  console.log("cancelled", reply.ended ? "True" : "False");
};

main().catch((error) => {
  console.error(error.message);
  process.exit(1);
});
