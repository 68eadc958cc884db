//! Tests that every path that vic prints is accepted as input, alone and with a location.

use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::harness::World;
use crate::support::http_client::post;

/// Returns a field of the first hit of `vic ask`.
fn first_hit_field(world: &World, question: &str, field: &str) -> String {
    let answer = world.json(&["ask", question]);
    let hit = &answer["hits"][0];
    let found = if field == "path" { &hit["path"] } else { &hit["metadata"][field] };
    found.as_str().unwrap_or_else(|| panic!("{answer}")).to_string()
}

/// Sends a POST request. Returns the HTTP status and the JSON body.
fn post_json(world: &World, path: &str, body: &Value) -> (u16, Value) {
    let answered = post(world, path, body);
    (answered.status, answered.json())
}

/// Writes a zip archive with one member.
fn write_zip(path: &Path, member: &str, text: &str) {
    let mut archive = zip::ZipWriter::new(std::fs::File::create(path).unwrap());
    archive.start_file(member, zip::write::SimpleFileOptions::default()).unwrap();
    archive.write_all(text.as_bytes()).unwrap();
    archive.finish().unwrap();
}

// Case A11
#[test]
fn non_utf8_name_is_printed_as_url_accepted_everywhere() {
    let world = World::new().with("VIC_WATCH", "0").start();
    let odd = world.files().join(OsStr::from_bytes(b"caf\xe9-menu.txt"));
    std::fs::write(&odd, "Soup of the day: leek").unwrap();
    world.write("plain.txt", "Bread and butter.");
    world.index();
    let url = first_hit_field(&world, "soup leek", "absolute_path");
    assert!(url.starts_with("file:///") && url.ends_with("/files/caf%E9-menu.txt"), "{url}");
    assert_eq!(first_hit_field(&world, "soup leek", "path"), url);
    assert_eq!(world.ok(&["read", &url]).trim(), "Soup of the day: leek");
    assert_eq!(world.json(&["similar", &url])["hits"][0]["path"], "plain.txt");
    assert_eq!(world.json(&["files", "menu"])["files"][0]["path"], url.as_str());
    assert_eq!(world.json(&["files", "--root", &url])["total"], 1);
    assert_eq!(world.json(&["ask", "soup", "--root", &url])["hits"][0]["path"], url.as_str());
    assert!(world.ok(&["grep", "leek"]).starts_with(&format!("{url}:1: Soup")));
    world.ok(&["index", &url]);
    world.ok(&["sync", &url]);
    let raw =
        world.run("/bin/sh", &["-c", &format!("{} read files/caf*-menu.txt", crate::support::harness::vic_program())]);
    assert_eq!(String::from_utf8_lossy(&raw.stdout).trim(), "Soup of the day: leek");
    let (_, read) = post_json(&world, "/v1/read", &json!({ "path": url }));
    assert_eq!(read["blocks"][0]["text"], "Soup of the day: leek", "{read}");
}

#[test]
fn printed_locations_are_accepted_by_every_command() {
    let world = World::new().with("VIC_WATCH", "0").start();
    let lines: Vec<String> = (1..=9).map(|it| format!("Line {it} of the lease.")).collect();
    world.write("Contracts/lease.md", lines.join("\n"));
    world.write("Contracts/other.md", "Mooring fees and a lease of the quay.");
    write_zip(&world.files().join("old.zip"), "in/note.md", "One\n\nThe key is with the baker.\nThree\n");
    world.index();
    assert_eq!(world.ok(&["read", "Contracts/lease.md"]).trim(), lines.join("\n"));
    assert_eq!(world.ok(&["read", "files/Contracts/lease.md"]).trim(), lines.join("\n"), "relative to `.`");
    assert_eq!(world.json(&["similar", "Contracts/lease.md"])["hits"][0]["path"], "Contracts/other.md");
    assert_eq!(world.json(&["files", "--root", "Contracts"])["total"], 2);
    assert_eq!(world.json(&["ask", "mooring", "--root", "Contracts"])["hits"][0]["path"], "Contracts/other.md");
    assert!(world.ok(&["grep", "baker", "--root", "old.zip"]).contains("baker"));
    world.ok(&["index", "Contracts/lease.md"]);
    world.ok(&["sync", "Contracts"]);
    for pasted in ["Contracts/lease.md, lines 3-4", "Contracts/lease.md:3-4", "Contracts/lease.md  lines 3-4  0.735 L1"]
    {
        assert_eq!(world.ok(&["read", pasted]).trim(), lines[2..4].join("\n"), "{pasted}");
        let (_, read) = post_json(&world, "/v1/read", &json!({ "path": pasted }));
        assert_eq!(read["blocks"][0]["text"], lines[2..4].join("\n"), "{pasted}: {read}");
    }
    assert_eq!(world.ok(&["read", "old.zip!/in/note.md, lines 3-3"]).trim(), "The key is with the baker.");
    assert_eq!(world.ok(&["read", "old.zip", "--member", "in/note.md", "--lines", "4"]).trim(), "Three");
    let document = world.json(&["read", "Contracts/lease.md", "--lines", "8-99"]);
    let anchor = &document["blocks"][0]["anchor"];
    assert_eq!((&anchor["line_start"], &anchor["line_end"]), (&json!(8), &json!(9)));
    let (code, told) = world.fails(&["read", "Contracts/lease.md", "--lines", "10-12"]);
    assert!(code == 3 && told.contains("it has lines 1-9"), "{code} {told}");
    let (code, told) = world.fails(&["read", "Contracts/lease.md", "--page", "1"]);
    assert!(code == 3 && told.contains("has no pages"), "{code} {told}");
    let (code, told) = world.fails(&["read", "Contracts/nothing.md"]);
    assert!(code == 3, "{code} {told}");
}

#[test]
fn ambiguous_relative_path_is_refused_with_both_roots() {
    let world = World::new().with("VIC_WATCH", "0").start();
    let roots = ["a", "b"].map(|it| world.files().join(it));
    for root in &roots {
        world.write(root.join("sub/README.md").to_str().unwrap(), format!("Text of {}.", root.display()));
        world.ok(&["index", root.to_str().unwrap()]);
    }
    let (code, told) = world.fails(&["read", "sub/README.md"]);
    assert_eq!(code, 2, "{told}");
    for root in &roots {
        assert!(told.contains(root.join("sub/README.md").to_str().unwrap()), "{told}");
    }
    let (status, refused) = post_json(&world, "/v1/read", &json!({ "path": "sub/README.md" }));
    assert!(status == 400 && refused.to_string().contains("in 2 roots"), "{status} {refused}");
    let (status, refused) = post_json(&world, "/v1/read", &json!({ "path": "sub/nothing.md" }));
    assert!(status == 404, "{status} {refused}");
}

// Case E13
#[test]
fn context_lines_match_file_with_secrets_redacted() {
    let world = World::new().with("VIC_WATCH", "0").start();
    let key = "ghp_16C7e42F292c6912E7710c838347Ae178B4a";
    world.write("hives.md", format!("# Hives\n\nkey {key}\nThe hive weighed 31 kg.\n\nSold in May.\nlast\n"));
    world.index();
    let shown = world.ok(&["grep", "31 kg", "-B", "3", "-A", "2"]);
    assert_eq!(
        shown.lines().collect::<Vec<_>>(),
        [
            // Lines 1 and 2 are missing despite `-B 3`: the context begins at the passage, not at the heading, because the
            // file has a redacted key.
            "hives.md-3- key [redacted]",
            "hives.md:4: The hive weighed 31 kg.",
            "hives.md-5- ",
            "hives.md-6- Sold in May.",
        ]
    );
    let (_, found) = post_json(&world, "/v1/grep", &json!({ "pattern": "31 kg", "before": 1, "after": 1 }));
    let hit = &found["matches"][0];
    assert_eq!((&hit["before"], &hit["after"]), (&json!(["key [redacted]"]), &json!([""])), "{found}");
    let (status, refused) = post_json(&world, "/v1/grep", &json!({ "pattern": "kg", "before": 51 }));
    assert!(status == 400 && refused["error"]["field"] == "before", "{status} {refused}");
}
