//! Tests mutated settings files and plugin output: each is accepted or refused with an error, and no program crashes.
//!
//! `VIC_MUTANTS` sets the number of each kind of file, `VIC_SEED` the first seed; see `mutants.rs`.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use vic::config::{Config, WalkConfig};
use vic::data_dir::keys::{self, Right};
use vic::error::ErrorCode;
use vic::files::{Rules, WalkToken, walk};
use vic::llm::plugin::{PluginRequest, PluginResponse, PluginTask};

use crate::hostile::mutants::DEFAULT_MUTANTS;
use crate::hostile::mutants::Xorshift;
use crate::hostile::mutants::mutate;
use crate::hostile::mutants::rng_of_mutant;
use crate::hostile::mutants::variable_or;
use crate::hostile::query_mutants::mutate_json;
use crate::hostile::query_mutants::mutated_text;
use crate::support::harness::World;
use crate::support::http_client::get;
use crate::support::http_client::send;

/// Maximum time to parse one file.
const SOON: Duration = Duration::from_secs(10);

fn mutant_count() -> u64 {
    variable_or("VIC_MUTANTS", DEFAULT_MUTANTS)
}

/// Runs a parser and returns whether it accepts the text. Asserts that it neither panics nor exceeds the time limit.
fn run_reader(number: u64, written: &[u8], reader: impl FnOnce() -> bool) -> bool {
    let begun = Instant::now();
    let read = catch_unwind(AssertUnwindSafe(reader));
    let what = || format!("seed {number}: {:.2000?}", String::from_utf8_lossy(written));
    assert!(begun.elapsed() < SOON, "{}", what());
    read.unwrap_or_else(|_| panic!("{}", what()))
}

fn mutated_bytes(seeds: &[&str], pieces: &[&str], dice: &mut Xorshift) -> Vec<u8> {
    let mut text = mutated_text(seeds, pieces, dice).into_bytes();
    // In one of four cases, also changes bytes, so that the text may not be valid UTF-8.
    if dice.index_below(4) == 0 {
        mutate(&mut text, dice);
    }
    text
}

fn config_in(folder: &Path) -> Result<Config, vic::error::Error> {
    Config::from_lookup(&|name| (name == "VIC_DATA_DIR").then(|| folder.as_os_str().into()))
}

const CONFIGS: [&str; 3] = [
    "# Settings\nprivacy_mode = \"local_only\"\nlisten = \"127.0.0.1:7878\"\nembed_model = \"all-MiniLM-L6-v2\"\nwatch = true\n\
     ignore = \"*.tmp,/build/\"\nmax_file_bytes = 67108864\ncpu_percent = 50\n",
    "ollama_base_url = \"http://127.0.0.1:11434\"\nocr = \"auto\"\nredact = \"keys\"\nlog_level = \"info\"\nrescan_seconds = 3600\n",
    "include_hidden = false\nworkers = 2\nextract_memory_mib = 512\nbridge_auth = \"key\"\nl2_seconds = 20\njail = \"required\"\n",
];
const TUNED: [&str; 1] = ["# Written by `vic bench embed --autotune`\nembed_threads = 4\nembed_batch = 64\n"];

const TOML_PIECES: [&str; 20] = [
    "\n",
    " = ",
    "\"",
    "'''",
    "[",
    "]",
    "[[x]]\n",
    "[a.b]\n",
    "{",
    "}",
    ",",
    "#",
    "-1",
    "1e999",
    "nan",
    "true",
    "9999999999999999999999",
    "1979-05-27T07:32:00Z",
    "\\u0000",
    "privacy_mode = \"cloud_ok\"\n",
];

// Case E3
#[test]
fn mutated_settings_are_accepted_or_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut taken = 0;
    for number in 0..mutant_count() {
        let mut dice = rng_of_mutant(number);
        let (file, seeds) =
            if dice.index_below(5) == 0 { ("tuned.toml", &TUNED[..]) } else { ("config.toml", &CONFIGS[..]) };
        let text = mutated_bytes(seeds, &TOML_PIECES, &mut dice);
        std::fs::write(folder.path().join(file), &text).unwrap();
        taken += u64::from(run_reader(number, &text, || match config_in(folder.path()) {
            Ok(config) => Rules::new(&config.walk).is_ok(),
            Err(error) => {
                assert_ne!(error.code, ErrorCode::Internal, "{error}");
                assert!(!error.message.is_empty());
                false
            }
        }));
        std::fs::remove_file(folder.path().join(file)).unwrap();
    }
    assert!(taken > 0 && taken < mutant_count(), "{taken} of the files were accepted");
}

const IGNORES: [&str; 3] = [
    "*.tmp\n!keep.tmp\n/build/\n**/node_modules/**\ndocs/*.p[dc]f\n",
    "# a remark\n\\#file\nname\\ \n[a-z]*.md\nfoo/**/bar\n!/a/b\n",
    "a?b\n{x,y}.txt\n***\n!!\n/\n",
];

const IGNORE_PIECES: [&str; 18] =
    ["*", "**", "/", "!", "[", "]", "[!", "[a-", "{", "}", ",", "\\", "?", "\n", "\r\n", "#", " ", "\u{feff}"];

// Case E14
#[test]
fn mutated_ignore_files_are_applied_or_reported() {
    let folder = tempfile::tempdir().unwrap();
    for path in ["a/b/c.md", "docs/d.pdf", "keep.tmp", "x.txt"] {
        std::fs::create_dir_all(folder.path().join(path).parent().unwrap()).unwrap();
        std::fs::write(folder.path().join(path), "text").unwrap();
    }
    let rules =
        WalkConfig { ignore: vec![], include_hidden: false, max_file_bytes: 1 << 20, watch: false, rescan_seconds: 60 };
    let rules = Rules::new(&rules).unwrap();
    let (mut all, mut fewer) = (0, 0);
    for number in 0..mutant_count() {
        let mut dice = rng_of_mutant(number);
        let text = mutated_bytes(&IGNORES, &IGNORE_PIECES, &mut dice);
        let place = *dice.pick(&["", "a/", "docs/"]);
        let file = folder.path().join(place).join(dice.pick(&[".vicignore", ".gitignore", ".ignore"]));
        std::fs::write(&file, &text).unwrap();
        let is_whole = run_reader(number, &text, || {
            let mut found = 0;
            walk(folder.path(), &rules, None, &WalkToken::default(), |_| found += 1).unwrap();
            found == 4
        });
        (all, fewer) = (all + u64::from(is_whole), fewer + u64::from(!is_whole));
        std::fs::remove_file(&file).unwrap();
    }
    assert!(all > 0 && fewer > 0, "{all} ignore files ignored nothing, {fewer} ignored some files");
}

/// Returns key tables that vic has written, as seeds.
fn key_tables(world: &World) -> Vec<String> {
    let config = world.config();
    let folders = [world.files()];
    keys::add(&config, "anna", &folders, Right::Read).unwrap();
    let one = std::fs::read_to_string(config.keys_path()).unwrap();
    keys::add(&config, "ben", &folders, Right::Index).unwrap();
    vec![one, std::fs::read_to_string(config.keys_path()).unwrap()]
}

const KEY_TABLE_PIECES: [&str; 14] = [
    "[",
    "]",
    "{",
    "}",
    "\"",
    ",",
    ":",
    "null",
    "-1",
    "1e999",
    "\"roots\": []",
    "\"right\": \"owner\"",
    "\"/\"",
    "\\ud800",
];

// Case D6
#[test]
fn mutated_key_tables_never_admit_unknown_keys() {
    let mut world = World::new().with("VIC_BRIDGE_RATE_LIMIT_PER_MIN", "0").with("VIC_WATCH", "0").start();
    let (pid, tables, path) = (world.pid(), key_tables(&world), world.config().keys_path());
    let seeds: Vec<&str> = tables.iter().map(String::as_str).collect();
    for number in 0..mutant_count() {
        let mut dice = rng_of_mutant(number);
        let text = match dice.index_below(2) {
            0 => mutated_bytes(&seeds, &KEY_TABLE_PIECES, &mut dice),
            _ => {
                let mut table: Value = serde_json::from_str(dice.pick::<&str>(&seeds)).unwrap();
                mutate_json(&mut table, &mut dice);
                table.to_string().into_bytes()
            }
        };
        std::fs::write(&path, &text).unwrap();
        run_reader(number, &text, || keys::list(&world.config()).is_ok());
        // Sends a request only for every tenth seed, because that costs more than parsing.
        if number % 10 == 0 {
            let stranger =
                send(&world, "GET", "/v1/status", &[("authorization", "Bearer nobodys-key-of-24-letters")], "");
            let owner = get(&world, "/v1/status");
            // Accepts 429 for the unknown key, because frequent failed attempts are rate-limited.
            let is_refused = matches!(stranger.status, 401 | 429) && owner.status == 200;
            let told = (stranger.status, owner.status);
            assert!(is_refused, "seed {number}: {told:?} {}", String::from_utf8_lossy(&text));
        }
    }
    assert!(world.exit_status().is_none() && world.pid() == pid, "{}", world.log());
    assert!(!world.log().contains("panicked"), "{}", world.log());
}

const RESPONSES: [&str; 4] = [
    r#"{"query_ir_v1": {"version": 1, "select": ["?x"]}, "axql": "select ?x where ?x is File", "notes": ["n"]}"#,
    r#"{"answer": "The heron.", "added_proposals": [{"id": "p1"}], "schema_hint_updates": [{"proposal_id": "p1", "schema_hint": "Fam"}]}"#,
    r#"{"tool_call": {"name": "db_summary", "args": {"limit": 3}}, "final_answer": {"answer": "x", "citations": ["1"], "queries": [], "notes": []}}"#,
    r#"{"error": "no model"}"#,
];

const JSON_PIECES: [&str; 14] =
    ["{", "}", "[", "]", "\"", ",", ":", "null", "-1", "1e999", "\\ud800", "\\u0000", "\"error\": ", "\u{202e}"];

// Case E9
#[test]
fn mutated_plugin_output_is_response_or_refused() {
    let tasks = [
        PluginTask::ToQuery { question: "q".into(), schema: Default::default() },
        PluginTask::Answer { question: "q".into(), query: json!({}), results: json!({"rows": []}) },
        PluginTask::AugmentProposals { proposals: json!({}), evidence_chunks: None, max_new_proposals: 3 },
        PluginTask::ToolLoopStep {
            question: "q".into(),
            schema: Default::default(),
            tools: vec![],
            transcript: vec![],
            refused: None,
        },
    ];
    let requests: Vec<String> =
        tasks.iter().map(|it| serde_json::to_string(&PluginRequest::new(None, it.clone())).unwrap()).collect();
    let requests: Vec<&str> = requests.iter().map(String::as_str).collect();
    let mut taken = 0;
    for number in 0..mutant_count() {
        let mut dice = rng_of_mutant(number);
        let mut value: Value = serde_json::from_str(dice.pick::<&str>(&RESPONSES)).unwrap();
        (0..=dice.index_below(3)).for_each(|_| mutate_json(&mut value, &mut dice));
        let text = value.to_string().into_bytes();
        taken += u64::from(run_reader(number, &text, || {
            match PluginResponse::parse(value, dice.pick(&tasks), "the plugin") {
                Ok(_) => true,
                Err(error) => {
                    assert!(error.code == ErrorCode::FailedPrecondition && error.message.len() < 4_000, "{error}");
                    false
                }
            }
        }));
        // Also parses mutated bytes as they arrive through the pipe, which may not be valid JSON.
        let text = mutated_bytes(&RESPONSES, &JSON_PIECES, &mut dice);
        run_reader(number, &text, || {
            let parsed = serde_json::from_slice(&text).map(|it| PluginResponse::parse(it, &tasks[0], "the plugin"));
            parsed.is_ok_and(|it| it.is_ok())
        });
        let text = mutated_bytes(&requests, &JSON_PIECES, &mut dice);
        run_reader(number, &text, || PluginRequest::parse(&String::from_utf8_lossy(&text)).is_ok());
    }
    assert!(taken > 0 && taken < mutant_count(), "{taken} of the responses were accepted");
}
