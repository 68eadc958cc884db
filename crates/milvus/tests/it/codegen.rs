//! `src/generated.rs` is what the files in `proto/` generate.
//!
//! The file is checked in, so that a build needs no generator. Milvus has 154 methods; the file holds those of `METHODS`,
//! and the messages that they reach. `VIC_REGENERATE=1 cargo test -p vic-milvus generated` writes it again.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use prost_types::{DescriptorProto, FileDescriptorProto, FileDescriptorSet};

/// The methods that the client calls.
const METHODS: [&str; 23] = [
    "AlterAlias",
    "CheckHealth",
    "Connect",
    "CreateAlias",
    "CreateCollection",
    "CreateIndex",
    "Delete",
    "DescribeAlias",
    "DescribeCollection",
    "DescribeIndex",
    "DropAlias",
    "DropCollection",
    "Flush",
    "GetFlushState",
    "GetLoadState",
    "GetVersion",
    "HasCollection",
    "ListAliases",
    "LoadCollection",
    "Query",
    "Search",
    "ShowCollections",
    "Upsert",
];

/// Messages that travel as bytes inside a message, so that no field names their type.
const INSIDE_BYTES: [&str; 2] = [".milvus.proto.common.PlaceholderGroup", ".milvus.proto.schema.CollectionSchema"];

/// Messages of features that vic does not use. A field of one of these types is left out; the reader of the format skips
/// fields that it does not know.
const UNUSED: [&str; 19] = [
    ".milvus.proto.common.Highlighter",
    ".milvus.proto.common.HighlightResult",
    ".milvus.proto.common.KeyDataPair",
    ".milvus.proto.common.MsgBase",
    ".milvus.proto.common.SearchAggregationSpec",
    ".milvus.proto.milvus.ElementIndices",
    ".milvus.proto.milvus.QuotaState",
    ".milvus.proto.milvus.SubSearchRequest",
    ".milvus.proto.msg.MsgPosition",
    ".milvus.proto.schema.AggBucket",
    ".milvus.proto.schema.CollectionShardInfo",
    ".milvus.proto.schema.FieldPartialUpdateOp",
    ".milvus.proto.schema.FunctionChain",
    ".milvus.proto.schema.FunctionScore",
    ".milvus.proto.schema.FunctionSchema",
    ".milvus.proto.schema.StructArrayField",
    ".milvus.proto.schema.StructArrayFieldSchema",
    ".milvus.proto.schema.TemplateValue",
    ".milvus.proto.schema.TypeSchema",
];

const PACKAGES: [&str; 3] = ["common", "schema", "milvus"];

#[test]
fn generated_code_is_that_of_the_proto_files() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let generated = generate(root);
    let path = root.join("src/generated.rs");
    if wants_new_file() {
        std::fs::write(&path, &generated).unwrap();
    }
    let checked_in = std::fs::read_to_string(&path).unwrap();
    assert!(generated == checked_in, "src/generated.rs is out of date: set VIC_REGENERATE=1 and run this test again");
}

#[expect(clippy::disallowed_methods, reason = "a switch of this test, not a setting of vic")]
fn wants_new_file() -> bool {
    std::env::var_os("VIC_REGENERATE").is_some()
}

fn generate(root: &Path) -> String {
    let mut compiler = protox::Compiler::new([root.join("proto")]).unwrap();
    let files = compiler.include_imports(true).include_source_info(false).open_file("milvus.proto").unwrap();
    let pruned = prune(files.file_descriptor_set());
    let out = tempfile::tempdir().unwrap();
    tonic_prost_build::configure()
        // Its `connect` would collide with the method `Connect`.
        .build_transport(false)
        .server_mod_attribute(".", "#[cfg(feature = \"mock\")]")
        .out_dir(out.path())
        .compile_fds(pruned)
        .unwrap();
    let mut text = String::from(HEADER);
    for package in PACKAGES {
        let code = std::fs::read_to_string(out.path().join(format!("milvus.proto.{package}.rs"))).unwrap();
        text.push_str(&format!("pub mod {package} {{\n{code}}}\n"));
    }
    text
}

const HEADER: &str =
    "// Generated from proto/ by tests/it/codegen.rs, which also checks that this file is up to date.\n\n";

/// The files without the methods, messages and enums that vic does not use.
fn prune(mut files: FileDescriptorSet) -> FileDescriptorSet {
    for file in &mut files.file {
        file.service.retain(|service| service.name() == "MilvusService");
        for service in &mut file.service {
            service.method.retain(|method| METHODS.contains(&method.name()));
        }
        file.message_type.iter_mut().for_each(drop_unused_fields);
        file.enum_type.iter_mut().for_each(|values| values.options = None);
        file.extension.clear();
    }
    let kept = reachable(&files);
    for file in &mut files.file {
        let package = file.package().to_string();
        let is_kept = |name: &str| kept.contains(&format!(".{package}.{name}"));
        file.message_type.retain(|message| is_kept(message.name()));
        file.enum_type.retain(|values| is_kept(values.name()));
    }
    files.file.retain(|file| !file.message_type.is_empty() || !file.enum_type.is_empty());
    let names: BTreeSet<String> = files.file.iter().map(|file| file.name().to_string()).collect();
    for file in &mut files.file {
        file.dependency.retain(|name| names.contains(name));
        file.public_dependency.clear();
        file.weak_dependency.clear();
    }
    files
}

fn drop_unused_fields(message: &mut DescriptorProto) {
    // The options hold privileges of the server, and warnings about fields that older servers need.
    message.options = None;
    message.field.iter_mut().for_each(|field| field.options = None);
    let unused_maps: BTreeSet<String> = (message.nested_type.iter())
        .filter(|entry| entry.field.iter().any(|field| UNUSED.contains(&field.type_name())))
        .map(|entry| entry.name().to_string())
        .collect();
    message.nested_type.retain(|entry| !unused_maps.contains(entry.name()));
    message.field.retain(|field| {
        let last = field.type_name().rsplit('.').next().unwrap_or_default();
        !UNUSED.contains(&field.type_name()) && !unused_maps.contains(last)
    });
}

/// The full names of the types that the methods reach.
fn reachable(files: &FileDescriptorSet) -> BTreeSet<String> {
    let uses = uses_of_types(files);
    let methods = files.file.iter().flat_map(|file| &file.service).flat_map(|service| &service.method);
    let mut queue: Vec<String> = INSIDE_BYTES.iter().map(ToString::to_string).collect();
    queue.extend(methods.flat_map(|method| [method.input_type().to_string(), method.output_type().to_string()]));
    let mut kept = BTreeSet::new();
    while let Some(name) = queue.pop() {
        if kept.insert(name.clone()) {
            queue.extend(uses.get(&name).into_iter().flatten().cloned());
        }
    }
    kept
}

/// The types that the fields of each message name.
fn uses_of_types(files: &FileDescriptorSet) -> BTreeMap<String, Vec<String>> {
    let mut uses = BTreeMap::new();
    for file in &files.file {
        for message in &file.message_type {
            uses.insert(full_name(file, message), types_of(message));
        }
    }
    uses
}

fn full_name(file: &FileDescriptorProto, message: &DescriptorProto) -> String {
    format!(".{}.{}", file.package(), message.name())
}

fn types_of(message: &DescriptorProto) -> Vec<String> {
    let own = message.field.iter().map(|field| field.type_name().to_string());
    own.chain(message.nested_type.iter().flat_map(types_of)).filter(|name| !name.is_empty()).collect()
}
