//! Shell scripts that act as workers in tests.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::extract::protocol::{self, Reply};
use crate::extract::{PoolSettings, Tools, WorkerPool};
use crate::model::ExtractLimits;

/// Shell command that sends the first message of a worker: it is ready and jailed.
pub(super) const HELLO: &str = r"printf '\002\000\000\000{}' >&0";

/// Writes a shell script that acts as a worker, with the socket as descriptor 0, and returns its path.
pub(super) fn worker_script(folder: &Path, script: &str) -> PathBuf {
    let program = folder.join("worker");
    std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    program
}

/// Makes a pool with one worker that, for every file, runs the shell commands `does` and then sends the reply `says`.
pub(crate) fn scripted_pool(folder: &Path, does: &str, says: &Reply) -> WorkerPool {
    let reply = folder.join("reply");
    std::fs::write(&reply, protocol::encode_frame(says).unwrap()).unwrap();
    let script = format!(
        "frame() {{ dd bs=65536 count=1 <&0 >/dev/null 2>&1; }}\n\
         frame\n{HELLO}\nwhile frame; do\n{does}\ncat {} >&0\ndone",
        reply.display()
    );
    let limits = ExtractLimits { seconds: 20, ..ExtractLimits::default() };
    let settings = PoolSettings { workers: 1, limits, tools: Tools::default(), skills: true };
    WorkerPool::new(worker_script(folder, &script), settings)
}
