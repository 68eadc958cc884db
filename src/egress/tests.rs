use crate::egress::*;

fn code(url: &str, mode: PrivacyMode) -> Option<ErrorCode> {
    crate::egress::check_allowed(url, mode, Purpose::Embedding).err().map(|error| error.code)
}

// Case D13
#[test]
fn remote_hosts_require_cloud_mode() {
    for mode in [PrivacyMode::LocalOnly, PrivacyMode::CloudReasoningOk] {
        for url in ["http://127.0.0.1:11434", "http://localhost:1", "http://[::1]:8080/v1", "http://127.8.9.1"] {
            assert_eq!(code(url, mode), None, "{url}");
        }
        for url in [
            "http://192.168.1.9:11434",
            "https://api.example.com",
            "http://0.0.0.0:1",
            "http://[::ffff:10.0.0.1]/",
            "http://localhost.example.com",
            "http://127.0.0.1@example.com/",
            "http://10.0.0.1#127.0.0.1",
            // The metadata service of cloud providers, which returns credentials, in four notations of its address.
            "http://169.254.169.254/latest/meta-data",
            "http://2852039166/",
            "http://0xa9fea9fe/",
            "http://[::ffff:169.254.169.254]/",
        ] {
            assert_eq!(code(url, mode), Some(ErrorCode::PermissionDenied), "{url}");
        }
    }
    assert_eq!(code("http://192.168.1.9:11434", PrivacyMode::CloudEmbeddingOk), None);
}

#[test]
fn cloud_modes_allow_their_purposes() {
    let url = "http://192.168.1.9:11434";
    for (mode, purpose, expected) in [
        (PrivacyMode::LocalOnly, Purpose::Reasoning, "cloud_reasoning_ok"),
        (PrivacyMode::CloudReasoningOk, Purpose::Embedding, "cloud_embedding_ok"),
        (PrivacyMode::CloudReasoningOk, Purpose::Reasoning, ""),
        (PrivacyMode::CloudEmbeddingOk, Purpose::Reasoning, ""),
    ] {
        let hint =
            crate::egress::check_allowed(url, mode, purpose).err().map(|error| error.hint.unwrap()).unwrap_or_default();
        assert!(hint.contains(expected) && hint.is_empty() == expected.is_empty(), "{mode:?} {purpose:?}: {hint}");
    }
}

#[test]
fn non_http_addresses_are_rejected() {
    for url in ["", "127.0.0.1:80", "file:///etc/passwd", "ftp://127.0.0.1/"] {
        assert_eq!(code(url, PrivacyMode::CloudEmbeddingOk), Some(ErrorCode::InvalidArgument), "{url}");
    }
}

#[test]
fn downloads_require_https_or_local_host() {
    assert!(check_download("https://example.com/x").is_ok());
    assert!(check_download("http://127.0.0.1:9/x").is_ok());
    assert_eq!(check_download("http://example.com/x").unwrap_err().code, ErrorCode::PermissionDenied);
}

/// Returns size and permission from the audit records of one destination, newest first.
fn logged(destination: &str) -> Vec<(u64, bool)> {
    let records = AUDIT_LOG.get().unwrap().list(1_000).unwrap();
    records.iter().filter(|it| it.destination == destination).map(|it| (it.bytes, it.allowed)).collect()
}

#[tokio::test]
async fn audit_log_records_cloud_requests_and_refusals() {
    use std::io::{Read, Write};
    let dir = tempfile::tempdir().unwrap().keep();
    set_audit_log(AuditLog::open(&dir.join("audit.sqlite")).unwrap());
    let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", server.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in server.incoming().take(2) {
            let mut stream = stream.unwrap();
            assert!(stream.read(&mut [0; 4_096]).unwrap() > 0);
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").unwrap();
        }
    });
    for (mode, records) in [(PrivacyMode::LocalOnly, vec![]), (PrivacyMode::CloudReasoningOk, vec![(5, true)])] {
        let outbound = open_client(&url, mode, Purpose::Reasoning, None).await.unwrap();
        assert!(outbound.send(outbound.post(&url).body("hello")).await.unwrap().status().is_success());
        assert_eq!(logged(&url), records, "{mode:?}");
    }
    assert!(open_client("https://192.0.2.7", PrivacyMode::LocalOnly, Purpose::Reasoning, None).await.is_err());
    assert_eq!(logged("https://192.0.2.7"), [(0, false)]);
}

#[tokio::test]
async fn dns_lookups_run_off_thread_with_timeout() {
    // The future is pending at the first poll: the lookup does not block this thread, which is the only one.
    let mut made = std::pin::pin!(open_client("http://localhost:1", PrivacyMode::LocalOnly, Purpose::Reasoning, None));
    assert!(futures::poll!(&mut made).is_pending());
    made.await.unwrap();
    let [remote, local] = ["http://models.example", "http://127.0.0.1:1"].map(|it| parse_http_url(it).unwrap());
    let silent = || {
        std::thread::sleep(Duration::from_secs(2));
        Ok(())
    };
    // Starts more lookups than there are permits: each times out, whether it holds a permit or waits for one.
    let names = (0..9).map(|_| with_dns_limit(&remote, Duration::from_millis(50), silent));
    for refused in futures::future::join_all(names).await {
        assert_eq!(refused.unwrap_err().code, ErrorCode::Unavailable);
    }
    assert_eq!(with_dns_limit(&local, Duration::from_secs(20), || Ok(7)).await.unwrap(), 7);
}

/// Self-signed certificate for `localhost` and 127.0.0.1, valid until 2120.
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

/// Private key of the certificate, used only in this test.
const PRIVATE: &str = "\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg0p7Wr2XZrHmEoERj
5dDIr1Kyyv7DglEQIPWnbKItY2ShRANCAARRjCXnIioxbje5R8mD8i3uixk+oXt+
+AKoCnqtHkfex01yMtn9xY2zl0u4KcoNYmjtaEjZM3i0g8TZToodP6O2
-----END PRIVATE KEY-----
";

/// Starts an HTTPS server with the test certificate and returns its address.
async fn serve_tls() -> String {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio_rustls::rustls::ServerConfig;
    use tokio_rustls::rustls::crypto::ring;
    use tokio_rustls::rustls::pki_types::pem::PemObject;
    use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
    let config = ServerConfig::builder_with_provider(std::sync::Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![CertificateDer::from_pem_slice(CERTIFICATE.as_bytes()).unwrap()],
            PrivateKeyDer::from_pem_slice(PRIVATE.as_bytes()).unwrap(),
        )
        .unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(std::sync::Arc::new(config));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("https://localhost:{}", listener.local_addr().unwrap().port());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            // Ignores a failed handshake: a client that rejects the certificate disconnects.
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            let _request = stream.read(&mut [0; 4_096]).await;
            let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
            let _gone = stream.write_all(answer).await;
            let _gone = stream.shutdown().await;
        }
    });
    address
}

#[tokio::test]
async fn user_ca_certificate_is_trusted() {
    let dir = tempfile::tempdir().unwrap();
    let pem = dir.path().join("ca.pem");
    std::fs::write(&pem, CERTIFICATE).unwrap();
    let url = serve_tls().await;
    let mode = PrivacyMode::LocalOnly;
    for (trusted, is_trusted) in [(vec![], false), (read_certificates(&pem).unwrap(), true)] {
        let outbound = build_client(&url, mode, Purpose::Reasoning, None, &trusted).unwrap();
        let answer = outbound.send(outbound.get(&url)).await;
        assert_eq!(answer.is_ok(), is_trusted, "{:?}", answer.err());
    }
}

#[test]
fn file_without_certificate_is_rejected() {
    let dir = tempfile::tempdir().unwrap();
    let pem = dir.path().join("ca.pem");
    let damaged = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    for text in ["", "hello", PRIVATE, damaged, "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n"] {
        std::fs::write(&pem, text).unwrap();
        let error = read_certificates(&pem).unwrap_err();
        assert_eq!(error.code, ErrorCode::InvalidArgument, "{text}: {error}");
        assert!(error.message.contains("ca.pem") && error.hint.unwrap().contains("VIC_SERVERS_CA"));
    }
    assert_eq!(read_certificates(&dir.path().join("none")).unwrap_err().code, ErrorCode::NotFound);
}
