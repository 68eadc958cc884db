//! Nothing leaves the machine, nothing is written elsewhere.

use std::process::Command;

use crate::harness::World;

#[test]
fn embedding_writes_nothing_outside_vics_folders_and_opens_no_socket_to_anywhere() {
    let world = World::new().start();
    world.write("a.md", "A private thought about the orchard.");
    world.index();
    assert_eq!(world.paths(&["orchard"]), ["a.md"]);
    // The runtime's telemetry would write below HOME and open a connection; HOME must not even exist.
    assert!(!world.files().with_file_name("home").exists());
    for socket in inet_sockets(world.pid()) {
        assert!(socket.contains("127.0.0.1"), "{socket}");
    }
}

/// Internet sockets of a process, one line each, by `/proc`: state and addresses in dotted form.
fn inet_sockets(pid: u32) -> Vec<String> {
    let links = Command::new("ls").args(["-l", &format!("/proc/{pid}/fd")]).output().unwrap();
    let links = String::from_utf8_lossy(&links.stdout).into_owned();
    let mut sockets = Vec::new();
    for table in ["tcp", "tcp6", "udp", "udp6"] {
        let text = std::fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default();
        for line in text.lines().skip(1) {
            let fields: Vec<&str> = line.split_whitespace().collect();
            if links.contains(&format!("socket:[{}]", fields[9])) {
                sockets.push(format!("{table} {} -> {}", dotted(fields[1]), dotted(fields[2])));
            }
        }
    }
    sockets
}

fn dotted(field: &str) -> String {
    let (address, port) = field.split_once(':').unwrap();
    match u32::from_str_radix(address, 16) {
        Ok(number) if address.len() == 8 => format!("{}:{port}", std::net::Ipv4Addr::from(number.swap_bytes())),
        _ => field.to_string(),
    }
}

#[test]
fn known_secrets_are_named_but_never_read() {
    let world = World::new().with("VIC_INCLUDE_HIDDEN", "1").start();
    world.write("id_rsa", "-----BEGIN OPENSSH PRIVATE KEY-----\nxylophonekey\n");
    world.write(".env", "TOKEN=xylophonetoken\n");
    world.write("ok.md", "Nothing special.");
    world.index();
    let found = world.json(&["ask", "xylophonekey xylophonetoken"]).to_string();
    assert!(!found.contains("TOKEN=") && !found.contains("BEGIN OPENSSH"), "{found}");
    let secret = world.files().join("id_rsa");
    assert_eq!(world.fails(&["read", secret.to_str().unwrap()]).0, 7);
}

#[test]
fn a_remote_embedder_is_refused_in_local_only() {
    let world = World::new().with("VIC_EMBED_BACKEND", "ollama").with("VIC_OLLAMA_BASE_URL", "http://192.0.2.1:11434");
    let started = Command::new(env!("CARGO_BIN_EXE_vicd"))
        .env("VIC_DATA_DIR", world.data())
        .env("VIC_LISTEN", "127.0.0.1:0")
        .env("VIC_EMBED_BACKEND", "ollama")
        .env("VIC_OLLAMA_BASE_URL", "http://192.0.2.1:11434")
        .output()
        .unwrap();
    assert_eq!(started.status.code(), Some(7), "{}", String::from_utf8_lossy(&started.stderr));
}
