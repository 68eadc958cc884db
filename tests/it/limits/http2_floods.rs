//! Tests HTTP/2 floods, with more frames than any client sends: the daemon closes the connection soon with
//! ENHANCE_YOUR_CALM, even if the client keeps it open. Other clients are not affected, and the memory is freed.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::limits::requests::HEALTH_LIMIT;
use crate::limits::requests::health_p99;
use crate::limits::requests::resident_mib;
use crate::support::harness::World;
use crate::support::http_client::connect;
use crate::support::http_client::get;
use crate::support::long_tests::PromiseChecks;
use crate::support::long_tests::size_from_env;

/// Maximum time until the daemon ends a flood.
const FLOOD_LIMIT: Duration = Duration::from_secs(5);

/// Maximum memory that floods of one kind leave allocated, in MiB.
const LEFT_MIB: f64 = 64.0;

/// Maximum duration of the floods of one kind, for a slow machine.
const LONGEST: Duration = Duration::from_secs(60);

// HTTP/2 frame types, frame flags and error codes.
const HEADERS: u8 = 1;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;
const GO_AWAY: u8 = 7;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const REFUSED_STREAM: u32 = 7;
const CANCEL: u32 = 8;
const ENHANCE_YOUR_CALM: u32 = 11;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// Returns the encoded headers of `GET /health`.
fn header_block() -> Vec<u8> {
    let mut block = vec![0x82, 0x86, 0x04, 7];
    block.extend(b"/health");
    block.extend([0x01, 9]);
    block.extend(b"localhost");
    block
}

/// Returns the connection preface followed by these frames.
fn flood_bytes(frames: impl Iterator<Item = Vec<u8>>) -> Vec<u8> {
    let mut storm = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    storm.extend(frame(SETTINGS, 0, 0, &[]));
    frames.for_each(|it| storm.extend(it));
    storm
}

fn flood_kinds() -> Vec<(&'static str, Vec<u8>)> {
    let streams = || (0..10_000).map(|it| 2 * it + 1);
    let open = |stream: u32, flags: u8| frame(HEADERS, flags, stream, &header_block());
    let endless = |count: usize, length: usize| {
        let more = std::iter::repeat_n(frame(CONTINUATION, 0, 1, &vec![0; length]), count);
        flood_bytes(std::iter::once(open(1, END_STREAM)).chain(more))
    };
    let reset = |stream: u32| {
        let reset = frame(RESET, 0, stream, &CANCEL.to_be_bytes());
        [open(stream, END_STREAM | END_HEADERS), reset].concat()
    };
    vec![
        ("10,000 streams, each reset at once", flood_bytes(streams().map(reset))),
        ("headers of 16 MB", endless(1_000, 16_000)),
        ("headers of 10,000 parts with nothing in them", endless(10_000, 0)),
        ("10,000 streams, all open", flood_bytes(streams().map(|it| open(it, END_HEADERS)))),
    ]
}

/// The reaction of the server to a flood.
#[derive(Debug, Default)]
struct FloodResponse {
    /// The error code of the GOAWAY frame, and the time until it arrived.
    why: Option<(u32, Duration)>,
    /// Number of streams that the server refused.
    refused: usize,
    /// Whether the server closed the connection.
    is_over: bool,
}

impl FloodResponse {
    /// Reads frames until the server closes the connection or [`FLOOD_LIMIT`] is over.
    fn read(mut reader: TcpStream, begun: Instant) -> FloodResponse {
        reader.set_read_timeout(Some(FLOOD_LIMIT)).unwrap();
        let (mut told, mut bytes, mut piece) = (FloodResponse::default(), Vec::new(), [0; 16 << 10]);
        while begun.elapsed() < FLOOD_LIMIT {
            match reader.read(&mut piece) {
                Ok(0) => told.is_over = true,
                Ok(length) => bytes.extend(&piece[..length]),
                Err(error) => told.is_over = error.kind() == std::io::ErrorKind::ConnectionReset,
            }
            while let Some((kind, payload)) = first_frame(&mut bytes) {
                match kind {
                    RESET => told.refused += usize::from(number(&payload, 0) == REFUSED_STREAM),
                    // The error code follows the last stream id. Debug data may follow the code.
                    GO_AWAY => told.why = Some((number(&payload, 4), begun.elapsed())),
                    _ => (),
                }
            }
            if told.is_over {
                break;
            }
        }
        told
    }
}

/// Removes the first complete frame from the buffer. Returns its type and payload, or None if no frame is complete.
fn first_frame(bytes: &mut Vec<u8>) -> Option<(u8, Vec<u8>)> {
    let head: [u8; 9] = bytes.get(..9)?.try_into().unwrap();
    let end = 9 + u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
    if bytes.len() < end {
        return None;
    }
    Some((head[3], bytes.drain(..end).skip(9).collect()))
}

/// Returns the 32-bit number at this offset of a frame payload.
fn number(payload: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(payload[at..at + 4].try_into().unwrap())
}

/// Sends a flood and asserts that the server ends it. Returns the time until the GOAWAY frame.
fn send(world: &World, what: &str, storm: &[u8]) -> Duration {
    let mut stream = connect(world);
    stream.set_write_timeout(Some(FLOOD_LIMIT)).unwrap();
    let (reader, begun) = (stream.try_clone().unwrap(), Instant::now());
    let reading = std::thread::spawn(move || FloodResponse::read(reader, begun));
    // Ignores the error if the server has closed the connection. The client does not close it, because the server must do so
    // by itself.
    let _cut_early = stream.write_all(storm);
    let told = reading.join().unwrap();
    let (code, after) = told.why.unwrap_or_else(|| panic!("{what}: no GOAWAY frame: {told:?}"));
    assert!(code == ENHANCE_YOUR_CALM && told.is_over, "{what}: {told:?}");
    assert!(told.refused > 0 || !what.ends_with("open"), "{what}: {told:?}");
    after
}

/// Sends floods from `sides` clients while `/health` is requested `looks` times, and checks times and memory.
fn check_floods(sides: usize, looks: usize) {
    let world = World::new().start();
    let mut promises = PromiseChecks::default();
    for (what, storm) in flood_kinds() {
        // Sends one flood before the measurement, because the first flood allocates memory that stays.
        send(&world, what, &storm);
        let (before, begun) = (resident_mib(&world), Instant::now());
        let (is_enough, sent) = (AtomicBool::new(false), AtomicUsize::new(0));
        let storming = || {
            let mut slowest = Duration::ZERO;
            while !is_enough.load(Ordering::Relaxed) && begun.elapsed() < LONGEST {
                slowest = slowest.max(send(&world, what, &storm));
                sent.fetch_add(1, Ordering::Relaxed);
            }
            slowest
        };
        let (p99, slowest) = std::thread::scope(|scope| {
            let storming: Vec<_> = (0..sides).map(|_| scope.spawn(storming)).collect();
            let p99 = health_p99(&world, looks);
            is_enough.store(true, Ordering::Relaxed);
            (p99, storming.into_iter().map(|it| it.join().unwrap()).max().unwrap())
        });
        let storms = sent.into_inner();
        promises.within_time(&format!("health during {storms} storms: {what} (p99)"), p99, HEALTH_LIMIT);
        promises.at_most(&format!("time until the slowest flood is ended: {what}"), slowest, FLOOD_LIMIT, FLOOD_LIMIT);
        let left = resident_mib(&world) - before;
        promises.at_most(&format!("memory left allocated by the floods, MiB: {what}"), left, LEFT_MIB, LEFT_MIB);
    }
    assert_eq!(get(&world, "/health").status, 200);
    promises.check();
}

// Case D11
#[test]
fn http2_floods_end_only_their_connection() {
    check_floods(1, 200);
}

/// Sends floods from more clients and for a longer time.
// Case D11
#[test]
#[ignore = "measures, and needs the machine for itself: see `make torture`"]
fn torture_storms() {
    check_floods(size_from_env("VIC_TORTURE_SIDES", 4) as usize, 2_000);
}
