//! Tests that the Unix socket and the data directory belong to one user and one daemon.

use std::fs::DirEntry;
use std::io::{Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::process::{Uid, geteuid};
use rustix::thread::set_thread_res_uid;

use crate::support::capabilities;
use crate::support::harness::World;
use crate::support::http_client::key;

// Case D9
#[test]
fn data_directory_is_private_under_any_umask() {
    let umask = ["sh", "-c", "umask 000; exec \"$@\"", "sh"].map(String::from).to_vec();
    let mut world = World::new().under(umask);
    std::fs::create_dir(world.data()).unwrap();
    std::fs::set_permissions(world.data(), std::fs::Permissions::from_mode(0o777)).unwrap();
    world.spawn_and_wait();
    world.write("a.md", "A private thought about the orchard.");
    world.index();
    assert_eq!(world.data().metadata().unwrap().mode() & 0o777, 0o700);
    for name in ["key", "vicd.sock"] {
        let found = world.data().join(name).symlink_metadata().unwrap();
        assert_eq!(found.mode() & 0o777, 0o600, "{name}");
    }
    let mut open = Vec::new();
    find_accessible(&world.data(), &mut open);
    assert!(open.is_empty(), "{open:?}");
    assert!(key(&world).len() >= 43, "the key must have 256 bits, which are 43 characters");
}

// Case D9
#[test]
fn files_created_before_first_start_are_private() {
    let mut world = World::new();
    let folder = world.files().display().to_string();
    let commands: [&[&str]; 4] = [
        &["keys", "add", "ada", "--root", &folder],
        &["llm", "use", "mock"],
        &["bench", "embed", "--autotune", "--seconds", "0.2"],
        &["demo"],
    ];
    for command in commands {
        let vic = world.command(crate::support::harness::vic_program());
        let mut careless = Command::new("sh");
        careless.args(["-c", "umask 000; exec \"$@\"", "sh"]).arg(vic.get_program()).args(command).env_clear();
        careless.envs(vic.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let output = careless.output().unwrap();
        assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(world.data().metadata().unwrap().mode() & 0o777, 0o700, "{command:?}");
    }
    let written: Vec<String> = world.data().read_dir().unwrap().map(|it| name_of(&it.unwrap())).collect();
    assert!(["keys.json", "llm.json", "tuned.toml", "demo"].iter().all(|it| written.contains(&it.to_string())));
    world.spawn_and_wait();
    assert_eq!(world.json(&["keys", "list"])[0]["name"], "ada");
}

fn name_of(entry: &DirEntry) -> String {
    entry.file_name().to_string_lossy().into_owned()
}

fn find_accessible(folder: &Path, open: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let Ok(found) = path.symlink_metadata() else { continue };
        if found.mode() & 0o077 != 0 && !found.is_symlink() {
            open.push(format!("{} {:o}", path.display(), found.mode()));
        }
        if found.is_dir() {
            find_accessible(&path, open);
        }
    }
}

// Case D9
#[test]
fn stale_socket_or_link_is_replaced() {
    let mut world = World::new().start();
    world.kill();
    let socket = world.data().join("vicd.sock");
    assert!(socket.exists(), "a killed daemon must leave its socket, or the test checks nothing");
    world.spawn_and_wait();
    world.kill();
    let target = world.data().join("target");
    std::fs::write(&target, "kept").unwrap();
    std::fs::remove_file(&socket).unwrap();
    std::os::unix::fs::symlink(&target, &socket).unwrap();
    world.spawn_and_wait();
    assert!(socket.symlink_metadata().unwrap().file_type().is_socket());
    assert_eq!(std::fs::read_to_string(target).unwrap(), "kept");
}

/// Connects to the socket as this user and sends an HTTP/2 preface. Returns the response, empty if the daemon refuses.
fn answer_to(user: Uid, socket: &Path) -> Vec<u8> {
    let socket = socket.to_owned();
    // Runs in its own thread, because the system call changes the user id of this thread only.
    let ask = move || {
        set_thread_res_uid(user, user, user).unwrap();
        let mut stream = UnixStream::connect(socket).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        // Ignores the error: the daemon may have closed the connection already.
        let _ = stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0");
        let mut answer = vec![0; 64];
        let length = stream.read(&mut answer).unwrap_or(0);
        answer.truncate(length);
        answer
    };
    std::thread::spawn(ask).join().unwrap()
}

// Case D9
#[test]
fn other_user_is_refused_by_world_writable_socket() {
    if !capabilities::can_switch_user(geteuid().is_root()) {
        return;
    }
    let world = World::new().start();
    let socket = world.data().join("vicd.sock");
    for path in [world.data().parent().unwrap(), &world.data(), &socket] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
    }
    assert!(!answer_to(geteuid(), &socket).is_empty());
    assert_eq!(answer_to(Uid::from_raw(65_534), &socket), b"");
    assert!(world.log().contains("refused a connection of another user"), "{}", world.log());
}

#[test]
fn daemon_with_deleted_socket_is_found_and_stopped() {
    let mut world = World::new().start();
    let pid = world.pid();
    std::fs::remove_file(world.data().join("vicd.sock")).unwrap();
    assert!(world.ok(&["daemon", "status"]).contains(&format!("pid {pid}")));
    assert_eq!(world.json(&["daemon", "status"])["reachable"], false);
    // Waits for the daemon, because it is a child of this test and would otherwise stay a zombie after its end.
    let mut daemon = world.release();
    let ended = std::thread::spawn(move || daemon.wait().unwrap().success());
    assert!(world.ok(&["daemon", "stop"]).contains("stopped"));
    assert!(ended.join().unwrap());
    assert_eq!(world.fails(&["daemon", "status"]).0, 4);
}

#[test]
fn ending_daemon_keeps_socket_of_successor() {
    let mut first = World::new().start();
    // Simulates a data directory that was emptied under a running daemon; a second daemon must not start in it.
    std::fs::remove_file(first.data().join("vicd.lock")).unwrap();
    let refused = first.command(env!("CARGO_BIN_EXE_vicd")).output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(5), "{said}");
    assert!(said.contains("without holding the data lock"), "{said}");
    std::fs::remove_file(first.data().join("vicd.sock")).unwrap();
    let socket = first.data().join("vicd.sock");
    let other = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    assert!(first.terminate());
    assert!(socket.exists(), "the socket of the second daemon must stay");
    drop(other);
}
