//! Tests that a canary in any kind of secret does not appear in the index, in answers or in the log.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use arrow::array::AsArray;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures::TryStreamExt;
use lancedb::query::ExecutableQuery;
use serde_json::json;

use crate::support::harness::World;
use crate::support::http_client;

/// Names that mark files as secrets. The text around the canary in these files gives no hint of a secret.
pub(super) const SECRET_NAMES: [&str; 54] = [
    ".env",
    ".env.local",
    ".env.production",
    "deploy.env",
    "id_rsa",
    "id_ed25519",
    "id_ecdsa",
    "id_rsa.bak",
    "id_dsa",
    "server.pem",
    "server.key",
    "cert.p12",
    "cert.pfx",
    "vault.kdbx",
    "old.kdb",
    ".netrc",
    "_netrc",
    ".pgpass",
    ".my.cnf",
    ".npmrc",
    ".pypirc",
    ".git-credentials",
    ".htpasswd",
    ".aws/credentials",
    ".aws/config",
    ".kube/config",
    ".docker/config.json",
    ".ssh/config",
    ".ssh/known_hosts",
    ".gnupg/secring.gpg",
    ".gnupg/trustdb.gpg",
    ".pki/nssdb/key4.db",
    "credentials.json",
    "service-account.json",
    ".bash_history",
    ".zsh_history",
    ".python_history",
    ".config/google-chrome/Default/Cookies",
    ".mozilla/firefox/x/logins.json",
    ".config/gh/hosts.yml",
    "key.ppk",
    "store.jks",
    "login.keychain",
    "terraform.tfstate",
    ".envrc",
    ".env-prod",
    ".env~",
    ".cargo/credentials.toml",
    ".zhistory",
    "client_secret_1.json",
    "export.1pux",
    "my.opvault/default/profile.js",
    ".electrum/wallets/default_wallet",
    ".config/google-chrome-beta/Default/Preferences",
];

/// Files with innocent names whose content is secret. `CANARY` becomes 24 generated letters and digits.
const SECRET_CONTENTS: [(&str, &str); 20] = [
    (
        "notes.txt",
        "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEA\nCANARY\n-----END OPENSSH PRIVATE KEY-----\n",
    ),
    (
        "copy.md",
        "Our key:\n\n-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nCANARY\n-----END RSA PRIVATE KEY-----\n\nKeep it.",
    ),
    ("pgp.txt", "-----BEGIN PGP PRIVATE KEY BLOCK-----\n\nCANARY\n=abcd\n-----END PGP PRIVATE KEY BLOCK-----\n"),
    ("github.md", "Use ghp_CANARY0123456789abcd for now."),
    ("gitlab.md", "Use glpat-CANARY for now."),
    ("runner.md", "Use glrt-CANARY for now."),
    ("slack.md", "Use xoxb-1234-CANARY for now."),
    ("socket.md", "Use xapp-1-A1234-CANARY for now."),
    ("model.md", "Use sk-proj-CANARY for now."),
    ("stripe.py", "charge('sk_live_CANARY')\n"),
    ("hook.py", "check('whsec_CANARY')\n"),
    ("image.md", "Use dckr_pat_CANARY for now."),
    ("assigned.py", "api_key = \"CANARY\"\n"),
    ("assigned.yml", "client_secret: CANARY\n"),
    ("assigned.json", "{\"accessToken\": \"CANARY\"}\n"),
    ("header.http", "GET / HTTP/1.1\nAuthorization: Bearer CANARY\n"),
    ("address.toml", "url = \"postgres://anna:CANARY@db.example/x\"\n"),
    ("page.html", "<html><p>The password: <code>CANARY</code></p></html>"),
    ("table.csv", "service,token\nmail,token=CANARY\n"),
    ("letter.eml", "Subject: key\nContent-Type: text/plain\n\nYour token: CANARY\n"),
];

/// Returns the canary with this number: 24 letters and digits that look like a generated key.
fn canary(number: usize) -> String {
    let mut state = 0x9E37_79B9_7F4A_7C15u64.wrapping_mul(number as u64 + 1);
    let mut canary: String = (0..19)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            b"ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnpqrstuvwxyz23456789"[(state >> 33) as usize % 56] as char
        })
        .collect();
    // A fixed end, so that every canary has uppercase letters, lowercase letters and digits.
    canary.push_str("xK7q9");
    canary
}

/// Writes all secrets, some also inside an archive. Returns the canaries.
fn write_secrets(world: &World) -> Vec<String> {
    let mut canaries = Vec::new();
    let mut next = || {
        canaries.push(canary(canaries.len()));
        canaries[canaries.len() - 1].clone()
    };
    for name in SECRET_NAMES {
        world.write(name, format!("value {}\n", next()));
    }
    for (name, text) in SECRET_CONTENTS {
        world.write(name, text.replace("CANARY", &next()));
    }
    let mut writer = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let members = [
        ("home/.ssh/id_rsa", "value CANARY"),
        (".env", "X=CANARY"),
        ("in.md", "Use glpat-CANARY now."),
        ("ok.md", "The kestrel."),
    ];
    for (name, text) in members {
        writer.start_file(name, zip::write::SimpleFileOptions::default()).unwrap();
        writer.write_all(text.replace("CANARY", &next()).as_bytes()).unwrap();
    }
    world.write("backup.zip", writer.finish().unwrap().into_inner());
    canaries
}

/// Returns encodings of a text to search for: plain, UTF-16, and base64 at each of the three offsets.
fn encodings(text: &str) -> Vec<Vec<u8>> {
    let mut guises = vec![text.as_bytes().to_vec(), text.encode_utf16().flat_map(u16::to_le_bytes).collect()];
    for shift in 0..3 {
        let encoded = STANDARD.encode([vec![b' '; shift], text.as_bytes().to_vec()].concat());
        // Omits both ends of the base64 text, which depend on the bytes beside the secret.
        guises.push(encoded.as_bytes()[4..encoded.len() - 4].to_vec());
    }
    guises
}

pub(super) fn all_files(folder: &Path) -> Vec<PathBuf> {
    let entries = folder.read_dir().unwrap().map(|it| it.unwrap().path());
    entries.flat_map(|it| if it.is_dir() { all_files(&it) } else { vec![it] }).collect()
}

/// Returns which of these texts occur in these bytes, in any of the encodings.
pub(super) fn found_in(what: &str, bytes: &[u8], texts: &[String]) -> Vec<String> {
    let is_in = |text: &String| encodings(text).iter().any(|it| memchr::memmem::find(bytes, it).is_some());
    texts.iter().filter(|it| is_in(it)).map(|it| format!("{it} in {what}")).collect()
}

/// Returns all texts of all index tables. Read as rows, because the files of a table are compressed.
pub(super) fn table_texts(data: &Path) -> String {
    let texts = async {
        let index = lancedb::connect(data.join("index").to_str().unwrap()).execute().await.unwrap();
        let mut texts = String::new();
        for name in index.table_names().execute().await.unwrap() {
            let rows = index.open_table(&name).execute().await.unwrap().query().execute().await.unwrap();
            for batch in rows.try_collect::<Vec<_>>().await.unwrap() {
                let columns = batch.columns().iter().filter_map(|it| it.as_string_opt::<i32>());
                texts.extend(columns.flat_map(|it| it.iter().flatten()).map(|it| format!("{it}\n")));
            }
        }
        texts
    };
    tokio::runtime::Runtime::new().unwrap().block_on(texts)
}

// Case E13
#[test]
fn secrets_never_reach_index_answers_or_log() {
    let mut world = World::new().with("VIC_INCLUDE_HIDDEN", "1").with("VIC_LOG_LEVEL", "trace").start();
    let canaries = write_secrets(&world);
    assert!(canaries.len() >= 60);
    world.write("control.md", "The control is wallflowercanary.");
    world.index();
    let mut found = Vec::new();
    for (number, canary) in canaries.iter().enumerate() {
        let question = format!("what is {}", &canary[..6]);
        // Uses four APIs in turn, so that each gets a quarter of the canaries.
        let answer = match number % 4 {
            0 => world.json(&["ask", &question]).to_string(),
            1 => world.json(&["grep", &canary[6..]]).to_string(),
            2 => http_client::post(&world, "/v1/search", &json!({ "query": question })).body,
            _ => world.json(&["files"]).to_string(),
        };
        found.extend(found_in("an answer", answer.as_bytes(), &canaries));
    }
    for file in all_files(&world.files()) {
        let read = world.vic(&["read", "--", file.to_str().unwrap()]);
        found.extend(found_in(
            &format!("`vic read {}`", file.display()),
            &[read.stdout, read.stderr].concat(),
            &canaries,
        ));
    }
    let control = ["wallflowercanary".to_string()];
    let kept = |texts: &[String], world: &World| -> Vec<String> {
        all_files(&world.data())
            .iter()
            .flat_map(|it| found_in(&it.display().to_string(), &std::fs::read(it).unwrap(), texts))
            .collect()
    };
    assert!(world.terminate());
    found.extend(kept(&canaries, &world));
    found.extend(found_in("the log", world.log().as_bytes(), &canaries));
    let texts = table_texts(&world.data());
    found.extend(found_in("a table", texts.as_bytes(), &canaries));
    assert!(found.is_empty(), "{}", found.join("\n"));
    // Control: the same search finds the text of a normal file. Otherwise the search above would check nothing.
    assert!(!kept(&control, &world).is_empty() && texts.contains(&control[0]));
}

#[test]
fn log_contains_no_document_text_or_question() {
    let mut world = World::new().with("VIC_LOG_LEVEL", "trace").start();
    for (name, text) in [("a.md", "# wallflowerone\n\nwallflowertwo"), ("b.html", "<title>wallflowerthree</title>")] {
        world.write(name, text);
    }
    world.write("c.docx", "PK\u{3}\u{4} wallflowerfour");
    world.write("d.ipynb", "{\"cells\": wallflowerfive");
    world.write("e.pdf", "%PDF-1.4 wallflowersix");
    world.index();
    world.ok(&["ask", "wallflowerquestion wallflowertwo"]);
    world.vic(&["grep", "wallflowergrep"]);
    world.vic(&["ask", "after:wallflowerdate x"]);
    assert!(world.terminate());
    let log = world.log();
    assert!(log.contains("vicd is ready"));
    let words: Vec<&str> = log.lines().filter(|it| it.contains("wallflower")).collect();
    assert!(words.is_empty(), "{}", words.join("\n"));
}

#[test]
fn card_numbers_are_redacted_only_on_request() {
    for (redact, hidden) in [("keys", false), ("all", true)] {
        let world = World::new().with("VIC_REDACT", redact).start();
        let note = world.write("note.md", "Pay the ferry with 4111 1111 1111 1111.");
        world.index();
        let read = world.ok(&["read", note.to_str().unwrap()]);
        assert_eq!(read.contains("[redacted]"), hidden, "{read}");
        assert_eq!(world.paths(&["ferry"]), ["note.md"]);
    }
}

// Case E13
#[test]
fn new_redaction_rule_reindexes_existing_files() {
    let mut world = World::new().start();
    world.write("note.md", "Pay the ferry with 4111 1111 1111 1111.");
    world.index();
    let shown = |world: &World| world.ok(&["grep", "Pay the ferry"]);
    assert!(shown(&world).contains("4111"), "the number must be visible without redaction");
    assert!(world.terminate());
    let mut world = world.with("VIC_REDACT", "all");
    world.spawn_and_wait();
    world.wait_until("the note is indexed again", Duration::from_secs(30), |it| shown(it).contains("[redacted]"));
    assert!(!table_texts(&world.data()).contains("4111"));
}
