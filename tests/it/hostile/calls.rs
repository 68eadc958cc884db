//! Calls of gRPC that no client makes: every method is sent messages with bytes changed and with fields that nobody put
//! there. Each is answered or refused, and never as if vic had a defect.
//!
//! `VIC_MUTANTS` says how many, `VIC_SEED` where to begin; see `mutants`.

use serde_json::json;

use super::mutants::{Dice, FEW, mutate, seed, setting};
use super::requests::{still_well, world};
use crate::h2;
use crate::harness::World;
use crate::http::{key, post};
use crate::scopes::asked::messages;

/// Ends the daemon, whatever it is sent.
const ENDS: &str = "/vic.v1.Vic/Shutdown";

/// These take paths of folders. What has a slash in it could be one of this machine.
const TAKES_FOLDERS: [&str; 4] = ["AddRoot", "RemoveRoot", "StartIndex", "Index"];

/// Codes of gRPC that tell of a defect.
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

/// A field that a message may have or not, with a value that fits or not.
fn field(dice: &mut Dice, depth: usize) -> Vec<u8> {
    let numbers = [0, 1, 2, 3, 9, 100, 127, u64::from(u32::MAX), i64::MAX as u64, i64::MIN as u64, u64::MAX];
    let texts =
        ["", "x", "\0", "heron", "NaN", "ext:md", "select ?x where ?x is File", "\u{202e}", "{\"a\": [", "((((", "**"];
    let number = 1 + dice.roll(20) as u64;
    let (kind, value) = match dice.roll(6) {
        0 | 1 => (0, varint(*dice.pick(&numbers))),
        2 => (1, dice.pick(&[f64::NAN, -1.0, 1e308, f64::INFINITY]).to_le_bytes().to_vec()),
        3 => (5, dice.pick(&[f32::NAN, -1.0, 0.5, f32::MIN_POSITIVE]).to_le_bytes().to_vec()),
        4 if depth < 4 => {
            let inner: Vec<u8> = (0..dice.roll(4)).flat_map(|_| field(dice, depth + 1)).collect();
            (2, [varint(inner.len() as u64), inner].concat())
        }
        _ => {
            let text = dice.pick(&texts).repeat(1 + dice.roll(2) * dice.roll(2_000));
            (2, [varint(text.len() as u64), text.into_bytes()].concat())
        }
    };
    [varint(number << 3 | kind), value].concat()
}

/// A message that is no longer what it was.
fn changed(mut message: Vec<u8>, dice: &mut Dice) -> Vec<u8> {
    for _ in 0..dice.roll(4) {
        message.extend(field(dice, 0));
    }
    if dice.roll(2) == 0 {
        mutate(&mut message, dice);
    }
    message
}

/// Sends a message with the key; gives the code of what came back, which is none of a defect.
fn call(world: &World, method: &str, message: &[u8], what: &str) -> u32 {
    let key = format!("Bearer {}", key(world));
    let called = h2::call(world, "localhost", method, &[("authorization", &key)], message);
    let code = called.code.unwrap_or_else(|| panic!("{what}: {called:?}"));
    assert!(code != UNKNOWN && code != INTERNAL, "{what}: {called:?}\n{}", world.log());
    code
}

#[test]
fn calls_of_any_kind_are_answered_or_refused_and_never_as_a_defect() {
    let mut world = world();
    let pid = world.pid();
    let job = post(&world, "/v1/index/start", &json!({})).json()["job_id"].as_str().unwrap().to_string();
    let own = world.files().join("1.md").display().to_string();
    // What INGEST names is fetched.
    let may_be_sent = |it: &Vec<u8>| memchr::memmem::find(it, b"ingest").is_none();
    let methods: Vec<String> = h2::methods().into_iter().filter(|it| it != ENDS).collect();
    let of = |method: &str| messages(method.rsplit_once('.').unwrap().1, &own, &job).into_iter().filter(may_be_sent);
    let kinds: Vec<(&String, Vec<u8>)> =
        methods.iter().flat_map(|it| of(it).map(move |message| (it, message))).collect();
    let mut fine = 0;
    for number in 0..setting("VIC_MUTANTS", FEW) {
        let mut dice = seed(number);
        // Each in turn, so that a few hundred leave none out.
        let (method, message) = &kinds[number as usize % kinds.len()];
        let message = changed(message.clone(), &mut dice);
        let takes_folders = TAKES_FOLDERS.iter().any(|it| method.ends_with(&format!("/{it}")));
        if takes_folders && message.contains(&b'/') {
            continue;
        }
        fine += u64::from(call(&world, method, &message, &format!("seed {number}: {method} {message:?}")) == 0);
        // Whoever waits for a job or for what is new would wait for the end of the pause.
        if method.ends_with("/Pause") {
            call(&world, "/vic.v1.Vic/Resume", &[], "the end of a pause");
        }
    }
    assert!(fine > 0, "this shows nothing");
    still_well(&mut world, pid);
}
