//! The thread that starts worker processes.

use std::io;
use std::sync::mpsc;

use tokio::process::{Child, Command};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

/// A thread that starts processes and lives as long as its pool. The kernel kills a worker when the thread that started it
/// ends, and threads of the async runtime come and go.
#[derive(Debug)]
pub(super) struct WorkerSpawner {
    requests: mpsc::Sender<SpawnRequest>,
}

struct SpawnRequest {
    command: Command,
    runtime: Handle,
    reply: oneshot::Sender<io::Result<Child>>,
}

impl WorkerSpawner {
    pub(super) fn open() -> io::Result<WorkerSpawner> {
        let (births, requests) = mpsc::channel::<SpawnRequest>();
        std::thread::Builder::new().name("worker-births".to_string()).spawn(move || {
            for mut birth in requests {
                let _inside = birth.runtime.enter();
                // If the caller has stopped waiting, the child is dropped, which kills it.
                birth.reply.send(birth.command.spawn()).ok();
            }
        })?;
        Ok(WorkerSpawner { requests: births })
    }

    pub(super) async fn spawn(&self, command: Command) -> io::Result<Child> {
        let (reply, answer) = oneshot::channel();
        let gone = || io::Error::other("the thread that starts workers is gone");
        self.requests.send(SpawnRequest { command, runtime: Handle::current(), reply }).map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }
}
