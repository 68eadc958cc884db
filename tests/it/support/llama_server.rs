//! Runs a real language model server for tests: llama.cpp's `llama-server` with a small model, from `models/llama.sh`.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A running `llama-server`. Dropping the value kills the server.
pub(crate) struct Llama {
    child: Child,
    port: u16,
    log: tempfile::NamedTempFile,
}

impl Llama {
    /// Starts the server for chat and waits until the model is loaded.
    pub(crate) fn start() -> Llama {
        Llama::with(&[])
    }

    /// Starts the server with additional arguments and waits until the model is loaded.
    pub(crate) fn with(arguments: &[&str]) -> Llama {
        let folder = llama_dir();
        let program = folder.join("llama-server");
        assert!(program.exists(), "`{}` is missing: run `models/llama.sh` or `make test-models`", program.display());
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let log = tempfile::NamedTempFile::new().unwrap();
        let child = Command::new(program)
            .args(["--model", folder.join("gemma-3-270m-q4_k_m.gguf").to_str().unwrap(), "--alias", "gemma-3-270m"])
            .args(["--host", "127.0.0.1", "--port", &port.to_string(), "--ctx-size", "8192", "--parallel", "2"])
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(log.reopen().unwrap())
            .stderr(log.reopen().unwrap())
            .spawn()
            .unwrap();
        let mut llama = Llama { child, port, log };
        let begun = Instant::now();
        while llama.health() != Some(200) {
            let ended = llama.child.try_wait().unwrap();
            assert!(ended.is_none() && begun.elapsed() < Duration::from_secs(120), "{ended:?}\n{}", llama.log());
            std::thread::sleep(Duration::from_millis(100));
        }
        llama
    }

    /// Returns the base URL of the server.
    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Kills the server.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Returns the output of the server so far.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.log.path()).unwrap_or_default()
    }

    /// Returns the HTTP status of `/health`: 503 while the model loads, then 200.
    fn health(&self) -> Option<u16> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(10))).ok()?;
        stream.write_all(b"GET /health HTTP/1.0\r\nhost: 127.0.0.1\r\n\r\n").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        answer.split(' ').nth(1)?.parse().ok()
    }
}

impl Drop for Llama {
    fn drop(&mut self) {
        if self.child.try_wait().is_ok_and(|it| it.is_none()) {
            self.kill();
        }
    }
}

/// Returns the folder in which `models/llama.sh` installs the server, or the folder in `VIC_TEST_LLAMA`.
fn llama_dir() -> PathBuf {
    let cache = Path::new(env!("CARGO_MANIFEST_DIR")).join("models/cache");
    std::env::var_os("VIC_TEST_LLAMA").map_or(cache.join("llama"), PathBuf::from)
}
