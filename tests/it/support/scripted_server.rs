//! A small scripted HTTP server in place of a model server: it parses and records requests and sends scripted responses.
//! Bodies are chunked, so that a response can stop in the middle.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;

/// A request that the server received.
#[derive(Clone, Debug)]
pub(crate) struct ReceivedRequest {
    pub(crate) method: String,
    pub(crate) path: String,
    /// The body as JSON; null if the body is not JSON.
    pub(crate) body: Value,
}

/// One step of a scripted response.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Sends the status line and the content type.
    Head(u16, &'static str),
    /// Sends a chunk of the body.
    Send(String),
    /// Sends raw bytes, without a head and without chunk framing.
    Raw(Vec<u8>),
    /// Waits for this time.
    Wait(Duration),
    /// Closes the connection before the response is complete.
    Close,
}

impl Step {
    /// Returns the steps of a complete JSON response.
    pub(crate) fn json(status: u16, body: &Value) -> Vec<Step> {
        vec![Step::Head(status, "application/json; charset=utf-8"), Step::Send(body.to_string())]
    }
}

type Script = dyn Fn(&ReceivedRequest) -> Vec<Step> + Send + Sync;

/// A running scripted server. Its thread ends with the test process.
pub(crate) struct Server {
    pub(crate) address: String,
    asked: Arc<Mutex<Vec<ReceivedRequest>>>,
}

impl Server {
    /// Starts the server on a free local port.
    pub(crate) fn start(part: impl Fn(&ReceivedRequest) -> Vec<Step> + Send + Sync + 'static) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (part, log): (Arc<Script>, _) = (Arc::new(part), asked.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (part, log) = (part.clone(), log.clone());
                // Runs each connection on its own thread: an error ends only this connection.
                std::thread::spawn(move || serve(stream, &*part, &log).ok());
            }
        });
        Server { address, asked }
    }

    /// Returns the requests at this path so far.
    pub(crate) fn requests_at(&self, path: &str) -> Vec<ReceivedRequest> {
        self.asked.lock().unwrap().iter().filter(|it| it.path == path).cloned().collect()
    }

    /// Returns the number of requests so far.
    pub(crate) fn request_count(&self) -> usize {
        self.asked.lock().unwrap().len()
    }
}

fn serve(stream: TcpStream, part: &Script, log: &Mutex<Vec<ReceivedRequest>>) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if stream.read_line(&mut head)? == 0 {
            return Ok(());
        }
    }
    let lower = head.to_ascii_lowercase();
    let length = lower.lines().find_map(|it| it.strip_prefix("content-length:")?.trim().parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    stream.read_exact(&mut body)?;
    let mut words = head.split(' ').map(str::to_string);
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let asked = ReceivedRequest { method, path, body: serde_json::from_slice(&body).unwrap_or_default() };
    log.lock().unwrap().push(asked.clone());
    perform(&part(&asked), stream.get_mut())
}

/// Performs the steps of a response until the client stops reading.
fn perform(acts: &[Step], out: &mut impl Write) -> std::io::Result<()> {
    for act in acts {
        match act {
            Step::Head(status, kind) => {
                write!(out, "HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\n")?;
                write!(out, "transfer-encoding: chunked\r\nconnection: close\r\n\r\n")?;
            }
            Step::Send(text) => write!(out, "{:x}\r\n{text}\r\n", text.len())?,
            Step::Raw(bytes) => out.write_all(bytes)?,
            Step::Wait(time) => std::thread::sleep(*time),
            Step::Close => return Ok(()),
        }
        out.flush()?;
    }
    write!(out, "0\r\n\r\n")?;
    out.flush()
}

/// Returns the bytes that these steps send.
pub(crate) fn response_bytes(acts: &[Step]) -> Vec<u8> {
    let mut bytes = Vec::new();
    perform(acts, &mut bytes).unwrap();
    bytes
}
