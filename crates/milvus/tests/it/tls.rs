//! TLS with a certificate of the user's own authority.

use vic_milvus::mock::MockServer;
use vic_milvus::{Client, ErrorKind, Settings};

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

#[tokio::test]
async fn certificate_of_the_user_is_trusted_and_no_other() {
    let server = MockServer::start_tls(CERTIFICATE, PRIVATE).await.unwrap();
    let limit = std::time::Duration::from_secs(2);
    let trusting = Settings { ca_pem: Some(CERTIFICATE.into()), ..server.settings() };
    Client::connect(trusting).await.unwrap().check_health().await.unwrap();
    let error = Client::connect(Settings { read_timeout: limit, ..server.settings() }).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Unreachable(_)), "{error:?}");
    let plain = Settings { read_timeout: limit, ..Settings::new(server.address().replace("https", "http")) };
    let error = Client::connect(plain).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Unreachable(_)), "{error:?}");
    let damaged = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let unclosed = "-----BEGIN CERTIFICATE-----\nAAAA\n";
    for pem in ["", "no certificate", damaged, unclosed] {
        let settings = Settings { ca_pem: Some(pem.into()), read_timeout: limit, ..server.settings() };
        let error = Client::connect(settings).await.unwrap_err();
        println!("{pem}: {error}");
    }
}
