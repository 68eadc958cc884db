//! The thread that starts the worker processes of one pool.

use std::io;
use std::sync::mpsc;

use tokio::process::{Child, Command};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

/// A thread that starts worker processes and lives as long as its pool. The threads of the async runtime cannot start
/// workers: they may end earlier, and the kernel kills a worker when the thread that started it ends.
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
                // Ignores a send error: the caller has stopped waiting, and the worker is killed when the unsent `Child` is
                // dropped.
                birth.reply.send(birth.command.spawn()).ok();
            }
        })?;
        Ok(WorkerSpawner { requests: births })
    }

    pub(super) async fn spawn(&self, command: Command) -> io::Result<Child> {
        let (reply, answer) = oneshot::channel();
        let gone = || io::Error::other("the thread that starts extraction workers has ended");
        self.requests.send(SpawnRequest { command, runtime: Handle::current(), reply }).map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }
}
