// Asks a model through vic, from JavaScript. Needs @grpc/grpc-js and @grpc/proto-loader.
//
//     node llm.js ADDRESS KEY QUESTION...      e.g. 127.0.0.1:8765 "$(cat ~/.local/share/vic/key)" how are you

const path = require("path");
const grpc = require("@grpc/grpc-js");
const loader = require("@grpc/proto-loader");

const proto = path.join(__dirname, "..", "..", "proto");
const contract = loader.loadSync("vic/v1/llm.proto", { includeDirs: [proto], keepCase: true, oneofs: true });
const { Llm } = grpc.loadPackageDefinition(contract).vic.v1;

const [address, key, ...words] = process.argv.slice(2);
const llm = new Llm(address, grpc.credentials.createInsecure());
const metadata = new grpc.Metadata();
metadata.set("authorization", `Bearer ${key}`);

const fail = (error) => {
  console.error(error.message);
  process.exit(1);
};

llm.GetCapabilities({}, metadata, (error, look) => {
  if (error) fail(error);
  console.log("backend", look.backend, look.default_model);
  const call = llm.Stream({ messages: [{ role: "user", content: words.join(" ") }] }, metadata);
  let task;
  call.on("error", fail);
  call.on("data", (event) => {
    if (event.event === "started") task = event.started.task_id;
    if (event.event === "token") console.log("token", JSON.stringify(event.token.text));
    if (event.event === "completed") console.log("completed", event.completed.finish_reason);
    if (event.event === "error") fail(event.error);
  });
  call.on("end", () => {
    // It has ended: there is nothing to cancel any more.
    llm.Cancel({ task_id: task }, metadata, (error, reply) => {
      if (error) fail(error);
      console.log("cancelled", reply.ended ? "True" : "False");
    });
  });
});
