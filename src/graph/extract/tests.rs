use crate::extract::{Tools, extract_bytes};
use crate::graph::extract::{self, Reading};
use crate::model::{
    Chunk, ChunkId, ContentHash, Document, ExtractLimits, FileKind, FileRecord, FileState, FoundFile, GraphPart,
    StoredChunk, Tier,
};

fn record(path: &str, kind: FileKind) -> FileRecord {
    FileRecord {
        id: 7,
        root_id: 1,
        root: "/w".into(),
        found: FoundFile {
            path: path.into(),
            size: 1,
            modified_ns: 0,
            changed_ns: 0,
            created_ns: None,
            inode: 1,
            device: 1,
            mode: 0o644,
            uid: 0,
            skip: None,
        },
        extension: path.rsplit('.').next().unwrap_or_default().into(),
        kind,
        media_type: String::new(),
        owner: String::new(),
        hash: Some(ContentHash([1; 32])),
        state: FileState::Indexed,
        reason: None,
        detail: String::new(),
        chunks: 1,
        tries: 1,
    }
}

/// The whole text as one chunk, as the index would have it.
fn chunk(document: &Document) -> StoredChunk {
    let text = document.text();
    let anchor = crate::model::Anchor { byte_start: Some(0), byte_end: Some(1 << 20), ..Default::default() };
    let chunk = Chunk {
        id: ChunkId("c0".into()),
        ordinal: 0,
        tokens: 1,
        body_start: 0,
        anchor,
        heading_path: vec!["Plan".into(), "Dates".into()],
        tier: Tier::L1,
        text,
    };
    StoredChunk { file_id: 7, chunk }
}

fn part(path: &str, kind: FileKind, text: &str) -> GraphPart {
    let document = extract_bytes(text.as_bytes(), path, &ExtractLimits::default(), &Tools::default()).unwrap();
    let chunks = [chunk(&document)];
    let record = record(path, kind);
    extract::part(&Reading { record: &record, chunks: &chunks, document: Some(&document) })
}

/// Edges of one relation as `target`, in the order in which they were found.
fn targets(part: &GraphPart, relation: &str) -> Vec<String> {
    part.edges.iter().filter(|it| it.relation == relation).map(|it| it.target.clone()).collect()
}

#[test]
fn a_note_says_where_it_leads_what_it_cites_and_whom_it_names() {
    let text = "---\nauthor: Ada Lovelace\ntags: [harbour, \"Winter\"]\n---\n# Plan\n\nSee [the lease](../Legal/the%20lease.pdf#p2), \
                [[Winter Service|service]] and <https://Example.org/a?token=secret>. Also https://example.org/b, \
                doi 10.1000/xyz.123. and arXiv:2101.00001v2. Ask ada@example.org #boats\n\n```\n[no](link.md)\n```\n";
    let part = part("Notes/plan.md", FileKind::Markup, text);
    assert_eq!(
        targets(&part, "links_to"),
        [
            "path:/w/Legal/the lease.pdf",
            "stem:/w:winter service",
            "url:https://example.org/a",
            "url:https://example.org/b"
        ]
    );
    assert_eq!(targets(&part, "cites"), ["doi:10.1000/xyz.123", "arxiv:2101.00001"]);
    assert_eq!(targets(&part, "authored_by"), ["person:ada lovelace"]);
    assert_eq!(targets(&part, "mentions"), ["person:ada@example.org"]);
    assert_eq!(targets(&part, "tagged"), ["tag:harbour", "tag:winter", "tag:boats"]);
    assert!(!serde_json::to_string(&part).unwrap().contains("secret"));
    let link = part.edges.iter().find(|it| it.target.starts_with("path:/w/Legal")).unwrap();
    let found = link.evidence.as_ref().unwrap();
    assert_eq!(found.chunk_id, "c0");
    assert_eq!(&text[found.start as usize..found.end as usize], "[the lease](../Legal/the%20lease.pdf#p2)");
}

#[test]
fn every_edge_has_a_confidence_and_whatever_was_found_in_a_text_its_chunk() {
    let part = part("a.md", FileKind::Markup, "# Plan\n\nSee [b](b.md) and mail x@y.org");
    for edge in &part.edges {
        assert!((0.0..=1.0).contains(&edge.confidence) && edge.confidence > 0.0, "{edge:?}");
        let is_place = edge.source.starts_with("folder:");
        assert_eq!(edge.evidence.is_none(), is_place, "{edge:?}");
    }
}

#[test]
fn headings_are_sections_and_passages_chunks_below_them() {
    let part = part("a.md", FileKind::Markup, "# Plan\n\n## Dates\n\nMay");
    let names: Vec<(&str, &str)> = part.nodes.iter().map(|it| (it.entity_type.as_str(), it.name.as_str())).collect();
    assert_eq!(names, [("File", "a.md"), ("Section", "Plan"), ("Section", "Dates"), ("Chunk", "a.md#0")]);
    let contains: Vec<(String, String)> = part
        .edges
        .iter()
        .filter(|it| it.relation == "contains")
        .map(|it| (it.source.clone(), it.target.clone()))
        .collect();
    let pair = |source: &str, target: &str| (source.to_string(), target.to_string());
    assert_eq!(
        contains,
        [
            pair("folder:/w", "file:7"),
            pair("file:7", "section:7#Plan"),
            pair("section:7#Plan", "section:7#Plan > Dates"),
            pair("section:7#Plan > Dates", "chunk:7#0")
        ]
    );
}

#[test]
fn a_page_links_where_its_markup_says() {
    let html = "<title>T</title><p>To <a href=\"sub/b.html\">the next</a> or <a href='mailto:x@y.org'>us</a></p><a href=\"#top\">up</a>";
    let part = part("web/a.html", FileKind::Web, html);
    assert_eq!(targets(&part, "links_to"), ["path:/w/web/sub/b.html"]);
    assert_eq!(targets(&part, "mentions"), ["person:x@y.org"]);
}

#[test]
fn a_letter_answers_another_and_has_people() {
    let mail = "Message-ID: <2@x>\r\nIn-Reply-To: <1@x>\r\nReferences: <0@x> <1@x>\r\nFrom: Ada L <ada@x.org>\r\n\
                To: Bob <bob@x.org>, carol@x.org\r\nSubject: Re: lease\r\n\r\nFine.";
    let part = part("m.eml", FileKind::Mail, mail);
    assert_eq!(targets(&part, "links_to"), ["message:1@x", "message:0@x"]);
    assert!(part.aliases.contains(&("message:2@x".into(), "file:7".into())));
    assert_eq!(targets(&part, "authored_by"), ["person:ada@x.org"]);
    let mut named = targets(&part, "mentions");
    named.sort();
    assert_eq!(named, ["person:ada@x.org", "person:bob@x.org", "person:carol@x.org"]);
    let ada = part.nodes.iter().find(|it| it.key == "person:ada@x.org").unwrap();
    assert_eq!((ada.name.as_str(), &ada.attributes[0]), ("ada@x.org", &("called".to_string(), "Ada L".to_string())));
}

#[test]
fn code_defines_symbols_and_imports_modules() {
    for (path, code, symbol, module) in [
        ("a.rs", "use std::fmt::{self, Write};\n\nfn weigh() {}\n", "weigh", "module:std::fmt"),
        ("a.py", "from hive.scale import read\n\ndef weigh():\n    pass\n", "weigh", "module:hive.scale"),
        ("a.js", "import { read } from './scale.js';\n\nfunction weigh() {}\n", "weigh", "module:./scale.js"),
        ("a.go", "package a\n\nimport \"fmt\"\n\nfunc weigh() {}\n", "weigh", "module:fmt"),
        ("A.java", "import org.hive.Scale;\n\nclass A {\n  void weigh() {}\n}\n", "A.weigh", "module:org.hive.Scale"),
        ("a.c", "#include \"scale.h\"\n\nint weigh(void) { return 0; }\n", "weigh", "module:scale.h"),
    ] {
        let part = part(path, FileKind::Code, code);
        assert!(
            targets(&part, "defines").contains(&format!("symbol:7#{symbol}")),
            "{path}: {:?}",
            targets(&part, "defines")
        );
        assert!(targets(&part, "imports").contains(&module.to_string()), "{path}: {:?}", targets(&part, "imports"));
    }
    let part = part("src/a.js", FileKind::Code, "import x from './scale.js';\n");
    assert!(targets(&part, "imports").contains(&"path:/w/src/scale.js".to_string()));
}

#[test]
fn a_proto_file_has_services_calls_and_messages() {
    let proto = "syntax = \"proto3\";\n\npackage a.b;\n\nimport \"c.proto\";\n\n// service Not {}\nservice Hive {\n  // rpc Not(X) returns (Y);\n\n  \
                 rpc Weigh(WeighRequest) returns (stream Weight);\n}\n\nmessage WeighRequest {}\nmessage Weight {}\n";
    let part = part("h.proto", FileKind::Code, proto);
    assert_eq!(targets(&part, "has_rpc"), ["proto:a.b.Hive.Weigh"]);
    assert_eq!(targets(&part, "takes"), ["proto:a.b.WeighRequest"]);
    assert_eq!(targets(&part, "returns"), ["proto:a.b.Weight"]);
    let mut defined = targets(&part, "defines");
    defined.sort();
    assert_eq!(defined, ["proto:a.b.Hive", "proto:a.b.WeighRequest", "proto:a.b.Weight"]);
    assert!(targets(&part, "imports").contains(&"module:c.proto".to_string()));
}

#[test]
fn copies_and_names_find_each_other_whoever_comes_first() {
    let part = part("Winter Service.md", FileKind::Markup, "text");
    assert_eq!(targets(&part, "duplicate_of").len(), 1);
    for alias in ["path:/w/Winter Service.md", "stem:/w:winter service"] {
        assert!(part.aliases.contains(&(alias.into(), "file:7".into())), "{alias}");
    }
}
