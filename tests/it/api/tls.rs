//! Tests TLS on the TCP port: requests, certificate renewal, and expired certificates.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::symlink;
use std::sync::Arc;
use std::time::Duration;

use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::time_provider::{DefaultTimeProvider, TimeProvider};
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::support::harness::World;
use crate::support::http_client::connect;
use crate::support::http_client::key;

/// A self-signed certificate for `localhost` and 127.0.0.1, valid until 2120.
const CERTIFICATE: &str = "\
-----BEGIN CERTIFICATE-----
MIIBZDCCAQqgAwIBAgIBATAKBggqhkjOPQQDAjAUMRIwEAYDVQQDDAlsb2NhbGhv
c3QwIBcNMjAwMTAxMDAwMDAwWhgPMjEyMDAxMDEwMDAwMDBaMBQxEjAQBgNVBAMM
CWxvY2FsaG9zdDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABFGMJeciKjFuN7lH
yYPyLe6LGT6he374AqgKeq0eR97HTXIy2f3FjbOXS7gpyg1iaO1oSNkzeLSDxNlO
ih0/o7ajSzBJMBoGA1UdEQQTMBGCCWxvY2FsaG9zdIcEfwAAATAMBgNVHRMBAf8E
AjAAMB0GA1UdDgQWBBQlcXi/piUr38Q2Wu/EN02J39U9zzAKBggqhkjOPQQDAgNI
ADBFAiEAlhPtvnzoNVUoCC5LEnhD3Y/fwMNAU9WL1ETbti9BcV4CIEay1Hq0KNm+
i4Na+6o8nw/Ptp2VaTmyr28kxrFrs4xQ
-----END CERTIFICATE-----
";

/// The private key of [`CERTIFICATE`], used only by these tests.
const PRIVATE_KEY: &str = "\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg0p7Wr2XZrHmEoERj
5dDIr1Kyyv7DglEQIPWnbKItY2ShRANCAARRjCXnIioxbje5R8mD8i3uixk+oXt+
+AKoCnqtHkfex01yMtn9xY2zl0u4KcoNYmjtaEjZM3i0g8TZToodP6O2
-----END PRIVATE KEY-----
";

/// A second certificate for the same names, with another private key.
const RENEWED: &str = "\
-----BEGIN CERTIFICATE-----
MIIBYzCCAQqgAwIBAgIBAjAKBggqhkjOPQQDAjAUMRIwEAYDVQQDDAlsb2NhbGhv
c3QwIBcNMjAwMTAxMDAwMDAwWhgPMjEyMDAxMDEwMDAwMDBaMBQxEjAQBgNVBAMM
CWxvY2FsaG9zdDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABOnPso8vAhBS6Zcf
ZB6SGmSvMzdCVaNlJCjjXxMWsi4nP4mTiwcFkDLKVb+w3lru/EgJ/12YVMdJXRiI
5BYFpnmjSzBJMBoGA1UdEQQTMBGCCWxvY2FsaG9zdIcEfwAAATAMBgNVHRMBAf8E
AjAAMB0GA1UdDgQWBBRp7gLFjW/koW0wyYViC+ONqDPsjzAKBggqhkjOPQQDAgNH
ADBEAiAk3h+JEWCnId7VdpFpmYbOA1i//LoJ/FLT0BERRQkJQgIgTd7Nxf8jCsN1
bpSh3H3QQiltwL/5VSQ1BHibKPE9hEo=
-----END CERTIFICATE-----
";

/// The private key of [`RENEWED`].
const RENEWED_PRIVATE: &str = "\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgt9d6U8uEWMWXVt8t
9z+tCHpVAih+jeySxenAE6M3ZdChRANCAATpz7KPLwIQUumXH2QekhpkrzM3QlWj
ZSQo418TFrIuJz+Jk4sHBZAyylW/sN5a7vxICf9dmFTHSV0YiOQWBaZ5
-----END PRIVATE KEY-----
";

/// A certificate that was valid in 2020 and expired on 2021-01-01.
const EXPIRED: &str = "\
-----BEGIN CERTIFICATE-----
MIIBQjCB6aADAgECAgEDMAoGCCqGSM49BAMCMBQxEjAQBgNVBAMMCWxvY2FsaG9z
dDAeFw0yMDAxMDEwMDAwMDBaFw0yMTAxMDEwMDAwMDBaMBQxEjAQBgNVBAMMCWxv
Y2FsaG9zdDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABGRzBjrz5cWGA61f0lTU
CTD7mk1jX28w/oRY09SjFqnnzvIPhJ8bAys3JUQZCmbvn57T2itETWxfNl3v6A/S
KJyjLDAqMBoGA1UdEQQTMBGCCWxvY2FsaG9zdIcEfwAAATAMBgNVHRMBAf8EAjAA
MAoGCCqGSM49BAMCA0gAMEUCIQDrMehqtW2ub675Ir1Y3eYpMa+ks4VHfy3KgAUD
G907XwIgFVSMcVWkVPJ8+RNjSomizR9OsqYWc5/+fAssajMzxJA=
-----END CERTIFICATE-----
";

/// The private key of [`EXPIRED`].
const EXPIRED_PRIVATE: &str = "\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgiIh9NF/+WQ9SHf9t
ismzndp+AvvLgIFQcEQLDMnj+xqhRANCAARkcwY68+XFhgOtX9JU1Akw+5pNY19v
MP6EWNPUoxap587yD4SfGwMrNyVEGQpm75+e09orRE1sXzZd7+gP0iic
-----END PRIVATE KEY-----
";

fn world() -> World {
    world_with(CERTIFICATE, PRIVATE_KEY)
}

fn world_with(shown: &str, its_key: &str) -> World {
    let world = World::new();
    let (certificate, private) = (world.files().join("cert.pem"), world.files().join("private.pem"));
    std::fs::write(&certificate, shown).unwrap();
    std::fs::write(&private, its_key).unwrap();
    let world = world.with("VIC_BRIDGE_TLS_CERT", certificate.to_str().unwrap());
    world.with("VIC_BRIDGE_TLS_KEY", private.to_str().unwrap())
}

/// Sends a request over TLS and returns the whole response.
fn send(stream: TcpStream, request: &str) -> String {
    send_to(CERTIFICATE, stream, request).unwrap()
}

/// Like [`send`], to a server that must present this certificate. Returns an error if it presents another one.
fn send_to(certificate: &str, stream: TcpStream, request: &str) -> std::io::Result<String> {
    send_at(Arc::new(DefaultTimeProvider), certificate, stream, request)
}

/// A clock that always shows May 2020, when [`EXPIRED`] was valid.
#[derive(Debug)]
struct FixedClock;

impl TimeProvider for FixedClock {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(Duration::from_secs(1_590_000_000)))
    }
}

/// Like [`send_to`], but checks the certificate at the time of this clock.
fn send_at(
    clock: Arc<dyn TimeProvider>,
    certificate: &str,
    stream: TcpStream,
    request: &str,
) -> std::io::Result<String> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()).unwrap();
    let config = ClientConfig::builder_with_details(Arc::new(ring::default_provider()), clock)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").unwrap();
    let mut tls = StreamOwned::new(ClientConnection::new(Arc::new(config), name).unwrap(), stream);
    tls.write_all(request.as_bytes())?;
    let mut told = Vec::new();
    // Ignores the error: a server may close the connection without a TLS close notification.
    let _closed = tls.read_to_end(&mut told);
    Ok(String::from_utf8(told).unwrap())
}

fn head(host: &str) -> String {
    format!("GET /v1/status HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n")
}

#[test]
fn certificate_makes_port_tls_only() {
    let world = world().start();
    let shown = format!("authorization: Bearer {}\r\n", key(&world));
    let told = send(connect(&world), &format!("{}{shown}\r\n", head("localhost")));
    assert!(told.starts_with("HTTP/1.1 200"), "{told}");
    assert!(send(connect(&world), &format!("{}\r\n", head("localhost"))).starts_with("HTTP/1.1 401"));
    assert!(send(connect(&world), &format!("{}{shown}\r\n", head("evil.example"))).starts_with("HTTP/1.1 403"));
    let mut plain = connect(&world);
    plain.write_all(format!("{}{shown}\r\n", head("localhost")).as_bytes()).unwrap();
    let mut told = Vec::new();
    let _reset = plain.read_to_end(&mut told);
    assert!(!told.starts_with(b"HTTP/"), "{told:?}");
    assert!(world.ok(&["bridge"]).contains("https://127.0.0.1:"));
}

#[test]
fn public_address_is_served_over_tls_with_key() {
    let world = world().with("VIC_LISTEN", "0.0.0.0:0").start();
    let port: u16 = world.listen().rsplit(':').next().unwrap().parse().unwrap();
    let connect = || TcpStream::connect(("127.0.0.1", port)).unwrap();
    let shown = format!("authorization: Bearer {}\r\n", key(&world));
    assert!(send(connect(), &format!("{}{shown}\r\n", head("localhost"))).starts_with("HTTP/1.1 200"));
    assert!(send(connect(), &format!("{}\r\n", head("localhost"))).starts_with("HTTP/1.1 401"));
    assert!(send(connect(), &format!("{}{shown}\r\n", head("files.example"))).starts_with("HTTP/1.1 403"));
}

#[test]
fn renewed_certificate_is_loaded_without_restart() {
    let world = world().start();
    let request = format!("{}\r\n", head("localhost"));
    let is_shown = |certificate: &str| send_to(certificate, connect(&world), &request).is_ok();
    assert!(is_shown(CERTIFICATE) && !is_shown(RENEWED));
    let [certificate, private] = ["cert.pem", "private.pem"].map(|it| world.files().join(it));
    std::fs::write(&certificate, RENEWED).unwrap();
    // Waits longer than the interval in which the daemon checks its certificate files.
    std::thread::sleep(Duration::from_secs(4));
    assert!(is_shown(CERTIFICATE), "a certificate without its private key must not be used");
    let told = || world.json(&["status"])["degraded"].to_string();
    assert!(told().contains("keeps its old certificate") && told().contains("private.pem"), "{}", told());
    std::fs::write(&private, RENEWED_PRIVATE).unwrap();
    world.wait_until("the daemon presents the new certificate", Duration::from_secs(10), |_| is_shown(RENEWED));
    assert!(!is_shown(CERTIFICATE) && !told().contains("old certificate"), "{}", told());
}

#[test]
fn expired_certificate_is_reported_until_replaced() {
    let world = world_with(EXPIRED, EXPIRED_PRIVATE).start();
    let [certificate, private] = ["cert.pem", "private.pem"].map(|it| world.files().join(it));
    let told = |world: &World| world.json(&["status"])["degraded"].to_string();
    let problem = told(&world);
    for part in ["has expired on 2021-01-01 00:00 UTC", certificate.to_str().unwrap(), private.to_str().unwrap()] {
        assert!(problem.contains(part), "no `{part}` in {problem}");
    }
    assert!(world.log().contains("has expired on"), "{}", world.log());
    let shown = format!("authorization: Bearer {}\r\n", key(&world));
    let health = format!("GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{shown}\r\n");
    // Clients that check the certificate cannot connect, unless their clock shows a time before the expiry.
    assert!(send_to(EXPIRED, connect(&world), &health).is_err());
    let late = Arc::new(FixedClock);
    assert!(
        send_at(late, EXPIRED, connect(&world), &health).unwrap().contains("certificate of the TCP port has expired")
    );
    std::fs::write(&certificate, CERTIFICATE).unwrap();
    std::fs::write(&private, PRIVATE_KEY).unwrap();
    world.wait_until("the daemon reports no expired certificate", Duration::from_secs(10), |world| {
        !told(world).contains("has expired")
    });
    assert!(!send(connect(&world), &health).contains("certificate"));
}

#[test]
fn retargeted_link_renews_certificate() {
    let world = World::new();
    let folder = |name: &str| world.files().join(name);
    for (name, certificate, private) in [("old", CERTIFICATE, PRIVATE_KEY), ("new", RENEWED, RENEWED_PRIVATE)] {
        std::fs::create_dir(folder(name)).unwrap();
        std::fs::write(folder(name).join("cert.pem"), certificate).unwrap();
        std::fs::write(folder(name).join("private.pem"), private).unwrap();
    }
    let (old, new, current, next) = (folder("old"), folder("new"), folder("current"), folder("next"));
    symlink(old, &current).unwrap();
    let world = world.with("VIC_BRIDGE_TLS_CERT", current.join("cert.pem").to_str().unwrap());
    let world = world.with("VIC_BRIDGE_TLS_KEY", current.join("private.pem").to_str().unwrap()).start();
    let request = format!("{}\r\n", head("localhost"));
    let is_shown = |certificate: &str| send_to(certificate, connect(&world), &request).is_ok();
    assert!(is_shown(CERTIFICATE));
    symlink(new, &next).unwrap();
    std::fs::rename(next, current).unwrap();
    world.wait_until("the daemon presents the new certificate", Duration::from_secs(10), |_| is_shown(RENEWED));
}
