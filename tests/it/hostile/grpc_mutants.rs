//! Tests gRPC calls that no client makes: messages with changed bytes and invented fields, for every method. Each call must
//! be answered or refused, never with an internal error.
//!
//! `VIC_MUTANTS` sets the number of calls, `VIC_SEED` the first seed; see `mutants.rs`.

use serde_json::json;

use crate::api::scopes::requests::grpc_messages;
use crate::hostile::mutants::DEFAULT_MUTANTS;
use crate::hostile::mutants::Xorshift;
use crate::hostile::mutants::mutate;
use crate::hostile::mutants::rng_of_mutant;
use crate::hostile::mutants::variable_or;
use crate::hostile::request_mutants::check_daemon_healthy;
use crate::hostile::request_mutants::unlimited_world;
use crate::support::grpc_client;
use crate::support::harness::World;
use crate::support::http_client::key;
use crate::support::http_client::post;

/// The method that stops the daemon. Never called.
const SHUTDOWN_METHOD: &str = "/vic.v1.Vic/Shutdown";

/// Methods that take folder paths. Mutated messages with a slash are not sent to them: the path could exist on this machine.
const FOLDER_METHODS: [&str; 4] = ["AddRoot", "RemoveRoot", "StartIndex", "Index"];

/// gRPC status codes that indicate a defect of the daemon.
const UNKNOWN: u32 = 2;
const INTERNAL: u32 = 13;

fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

/// Returns a random field, known or unknown to the method, with a value of any type.
fn random_field(dice: &mut Xorshift, depth: usize) -> Vec<u8> {
    let numbers = [0, 1, 2, 3, 9, 100, 127, u64::from(u32::MAX), i64::MAX as u64, i64::MIN as u64, u64::MAX];
    let texts =
        ["", "x", "\0", "heron", "NaN", "ext:md", "select ?x where ?x is File", "\u{202e}", "{\"a\": [", "((((", "**"];
    let number = 1 + dice.index_below(20) as u64;
    let (kind, value) = match dice.index_below(6) {
        0 | 1 => (0, varint(*dice.pick(&numbers))),
        2 => (1, dice.pick(&[f64::NAN, -1.0, 1e308, f64::INFINITY]).to_le_bytes().to_vec()),
        3 => (5, dice.pick(&[f32::NAN, -1.0, 0.5, f32::MIN_POSITIVE]).to_le_bytes().to_vec()),
        4 if depth < 4 => {
            let inner: Vec<u8> = (0..dice.index_below(4)).flat_map(|_| random_field(dice, depth + 1)).collect();
            (2, [varint(inner.len() as u64), inner].concat())
        }
        _ => {
            let text = dice.pick(&texts).repeat(1 + dice.index_below(2) * dice.index_below(2_000));
            (2, [varint(text.len() as u64), text.into_bytes()].concat())
        }
    };
    [varint(number << 3 | kind), value].concat()
}

/// Appends random fields to a message and changes some of its bytes.
fn mutated_message(mut message: Vec<u8>, dice: &mut Xorshift) -> Vec<u8> {
    for _ in 0..dice.index_below(4) {
        message.extend(random_field(dice, 0));
    }
    if dice.index_below(2) == 0 {
        mutate(&mut message, dice);
    }
    message
}

/// Calls a method with the owner's key. Returns the status code and asserts that the code indicates no defect.
fn call(world: &World, method: &str, message: &[u8], what: &str) -> u32 {
    let key = format!("Bearer {}", key(world));
    let called = grpc_client::call(world, "localhost", method, &[("authorization", &key)], message);
    let code = called.code.unwrap_or_else(|| panic!("{what}: {called:?}"));
    assert!(code != UNKNOWN && code != INTERNAL, "{what}: {called:?}\n{}", world.log());
    code
}

// Case D12
#[test]
fn mutated_grpc_calls_never_fail_as_internal() {
    let mut world = unlimited_world();
    let pid = world.pid();
    let job = post(&world, "/v1/index/start", &json!({})).json()["job_id"].as_str().unwrap().to_string();
    let own = world.files().join("1.md").display().to_string();
    // Skips `INGEST`, because the daemon would fetch the mutated addresses.
    let may_be_sent = |it: &Vec<u8>| memchr::memmem::find(it, b"ingest").is_none();
    let methods: Vec<String> = grpc_client::methods().into_iter().filter(|it| it != SHUTDOWN_METHOD).collect();
    let of =
        |method: &str| grpc_messages(method.rsplit_once('.').unwrap().1, &own, &job).into_iter().filter(may_be_sent);
    let kinds: Vec<(&String, Vec<u8>)> =
        methods.iter().flat_map(|it| of(it).map(move |message| (it, message))).collect();
    let mut fine = 0;
    for number in 0..variable_or("VIC_MUTANTS", DEFAULT_MUTANTS) {
        let mut dice = rng_of_mutant(number);
        // Calls the methods in turn, so that a few hundred calls cover every method and message.
        let (method, message) = &kinds[number as usize % kinds.len()];
        let message = mutated_message(message.clone(), &mut dice);
        let takes_folders = FOLDER_METHODS.iter().any(|it| method.ends_with(&format!("/{it}")));
        if takes_folders && message.contains(&b'/') {
            continue;
        }
        fine += u64::from(call(&world, method, &message, &format!("seed {number}: {method} {message:?}")) == 0);
        // Ends the pause, because later calls that wait for an index job would block.
        if method.ends_with("/Pause") {
            call(&world, "/vic.v1.Vic/Resume", &[], "the end of a pause");
        }
    }
    assert!(fine > 0, "no call succeeded");
    check_daemon_healthy(&mut world, pid);
}
