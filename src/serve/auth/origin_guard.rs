//! Rejects requests that a foreign web page makes the user's browser send.
//!
//! A web page can send requests to 127.0.0.1. If it does so directly, they carry an `Origin` header, or a
//! `Sec-Fetch-Site` that names a page. If it uses its own host name and lets that resolve to 127.0.0.1 (DNS rebinding),
//! the `Host` is not one of this server. Both are rejected before the key is checked or the body is read. Host names are
//! compared literally, in the form that vic's clients send.
//!
//! The page of vic itself is the only one that may send requests: its `Origin` is this server, and `Sec-Fetch-Site` is
//! `same-origin`. Such a request needs a session (see `sessions`); a key in it does not count.

use std::net::{IpAddr, Ipv6Addr};

use axum::http::{HeaderMap, HeaderValue, Uri, header};

/// Host names under which the server accepts requests.
#[derive(Clone, Debug)]
pub(crate) struct HostNames {
    port: u16,
    /// Further accepted names from the settings, in lower case, with or without a port.
    more: Vec<String>,
}

impl HostNames {
    pub(crate) fn new(port: u16, more: Vec<String>) -> HostNames {
        HostNames { port, more }
    }

    /// Returns whether a host name, with or without a port, is accepted. `local` is the server's own IP address on this
    /// connection.
    fn accepts(&self, host: &str, local: IpAddr) -> bool {
        let address = match local.to_canonical() {
            IpAddr::V4(it) => it.to_string(),
            IpAddr::V6(it) => bracketed(it),
        };
        let own = host.strip_suffix(&format!(":{}", self.port)).unwrap_or(host);
        let (name, _) = host.rsplit_once(':').filter(|(_, port)| port.parse::<u16>().is_ok()).unwrap_or((host, ""));
        matches!(own, "localhost" | "127.0.0.1" | "[::1]")
            || own == address
            || self.more.iter().any(|it| it == host || it == name)
    }
}

fn bracketed(address: Ipv6Addr) -> String {
    format!("[{address}]")
}

/// Returns whether the headers set by the browser show that a web page sent the request.
pub(crate) fn is_from_web_page(headers: &HeaderMap) -> bool {
    let by_page = |it: &HeaderValue| it != "none";
    headers.contains_key(header::ORIGIN) || headers.get_all("sec-fetch-site").iter().any(by_page)
}

/// Error message for requests that a web page sent.
pub(crate) const WEB_PAGE_REJECTED: &str = "requests sent by web pages are rejected";

/// Who sent an accepted request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sender {
    /// A program, or a user who typed the address into a browser.
    Program,
    /// The page of this server.
    OwnPage,
}

/// Returns who sent a request to the TCP port, or why the request is rejected.
pub(crate) fn check_sender(
    uri: &Uri,
    headers: &HeaderMap,
    names: &HostNames,
    local: IpAddr,
) -> Result<Sender, &'static str> {
    let mut hosts = headers.get_all(header::HOST).iter();
    let (first, second) = (hosts.next(), hosts.next());
    let is_ours = |it: &str| names.accepts(it, local);
    let named = uri.authority().is_some() || first.is_some();
    let ours = uri.authority().is_none_or(|it| is_ours(it.as_str()))
        && first.is_none_or(|it| it.to_str().is_ok_and(is_ours))
        && second.is_none();
    let sender = match is_from_web_page(headers) {
        false => Sender::Program,
        true if ours && is_own_page(uri, headers) => Sender::OwnPage,
        true => return Err(WEB_PAGE_REJECTED),
    };
    match named && ours {
        true => Ok(sender),
        false => Err("the request's host is not this server (VIC_BRIDGE_HOSTS adds names)"),
    }
}

/// Returns whether the browser says that a page of the host to which the request goes sent it.
fn is_own_page(uri: &Uri, headers: &HeaderMap) -> bool {
    let sites = || headers.get_all("sec-fetch-site").iter();
    let mut origins = headers.get_all(header::ORIGIN).iter();
    let (origin, second) = (origins.next(), origins.next());
    let host = match uri.authority() {
        Some(authority) => Some(authority.as_str()),
        None => headers.get(header::HOST).and_then(|it| it.to_str().ok()),
    };
    let is_of_host = |it: &HeaderValue| {
        let origin = it.to_str().unwrap_or_default();
        let origin_host = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
        origin_host.is_some() && origin_host == host
    };
    sites().next().is_some()
        && sites().all(|it| it == "same-origin")
        && second.is_none()
        && origin.is_none_or(is_of_host)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOOPBACK: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn names(more: &[&str]) -> HostNames {
        HostNames::new(8765, more.iter().map(|it| it.to_string()).collect())
    }

    fn check(authority: &str, hosts: &[&str], more: &[(&'static str, &str)]) -> bool {
        let uri = if authority.is_empty() { "/x".into() } else { format!("http://{authority}/x") };
        let mut headers = HeaderMap::new();
        hosts.iter().for_each(|it| assert!(!headers.append(header::HOST, it.parse().unwrap()) || hosts.len() > 1));
        more.iter().for_each(|(name, value)| assert!(headers.insert(*name, value.parse().unwrap()).is_none()));
        check_sender(&uri.parse().unwrap(), &headers, &names(&[]), LOOPBACK) == Ok(Sender::Program)
    }

    #[test]
    fn local_names_are_accepted_with_or_without_port() {
        for name in ["localhost:8765", "localhost", "127.0.0.1:8765", "127.0.0.1", "[::1]:8765", "[::1]"] {
            assert!(check(name, &[], &[]), "{name}");
            assert!(check("", &[name], &[]), "{name}");
            assert!(check(name, &[name], &[]), "{name}");
        }
    }

    #[test]
    fn foreign_hosts_are_rejected_in_uri_and_header() {
        for name in [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.nip.io",
            "localhost.",
            "LOCALHOST",
            "localhost:80",
            "127.0.0.1:9",
            "127.9.9.9",
            "127.1",
            "2130706433",
            "0x7f000001",
            "0.0.0.0:8765",
            "10.0.0.1:8765",
            "[::ffff:127.0.0.1]",
            "[::]",
        ] {
            assert!(!check(name, &[], &[]), "{name}");
            assert!(!check("", &[name], &[]), "{name}");
            assert!(!check("localhost", &[name], &[]), "{name}");
            assert!(!check(name, &["localhost"], &[]), "{name}");
        }
        assert!(!check("localhost@evil.example", &[], &[]));
        assert!(!check("evil@localhost", &[], &[]));
        assert!(!check("", &[], &[]), "a request without a host");
        assert!(!check("", &[""], &[]), "an empty host");
        assert!(!check("", &["localhost", "localhost"], &[]), "two hosts");
        assert!(!check("", &["localhost", "evil.example"], &[]), "two hosts");
    }

    #[test]
    fn remote_hosts_match_local_address_or_listed_name() {
        let check = |host: &str, local: &str| {
            let names = names(&["files.example", "proxy.example:8443"]);
            let uri = format!("https://{host}/x").parse().unwrap();
            check_sender(&uri, &HeaderMap::new(), &names, local.parse().unwrap()).is_ok()
        };
        for (host, local, passes) in [
            ("192.0.2.7:8765", "192.0.2.7", true),
            ("192.0.2.7:8765", "::ffff:192.0.2.7", true),
            ("192.0.2.8:8765", "192.0.2.7", false),
            ("[2001:db8::1]:8765", "2001:db8::1", true),
            ("[2001:db8::2]", "2001:db8::1", false),
            ("files.example", "192.0.2.7", true),
            ("files.example:8765", "192.0.2.7", true),
            ("files.example:443", "192.0.2.7", true),
            ("proxy.example:8443", "192.0.2.7", true),
            ("proxy.example", "192.0.2.7", false),
            ("x.files.example", "192.0.2.7", false),
            ("evil.example", "192.0.2.7", false),
        ] {
            assert_eq!(check(host, local), passes, "{host}");
        }
    }

    #[test]
    fn web_page_requests_are_rejected() {
        for origin in ["http://localhost:8765", "https://evil.example", "null", "file://", "chrome-extension://abc", ""]
        {
            assert!(!check("localhost", &[], &[("origin", origin)]), "{origin}");
        }
        for site in ["cross-site", "same-site", "same-origin"] {
            assert!(!check("localhost", &[], &[("sec-fetch-site", site)]), "{site}");
        }
        assert!(check("localhost", &[], &[("sec-fetch-site", "none")]), "navigation by the user");
    }

    /// Returns who sent a request to `localhost:8765` with these values of `Origin` and `Sec-Fetch-Site`.
    fn sender(host: &str, origin: Option<&str>, sites: &[&str]) -> Option<Sender> {
        let mut headers = HeaderMap::from_iter([(header::HOST, host.parse().unwrap())]);
        origin.map(|it| headers.insert(header::ORIGIN, it.parse().unwrap()));
        for site in sites {
            headers.append("sec-fetch-site", site.parse().unwrap());
        }
        check_sender(&"/x".parse().unwrap(), &headers, &names(&["files.example"]), LOOPBACK).ok()
    }

    #[test]
    fn only_page_of_same_host_is_own_page() {
        let own = Some(Sender::OwnPage);
        assert_eq!(sender("localhost:8765", None, &["same-origin"]), own);
        assert_eq!(sender("localhost:8765", Some("http://localhost:8765"), &["same-origin"]), own);
        assert_eq!(sender("[::1]:8765", Some("http://[::1]:8765"), &["same-origin"]), own);
        assert_eq!(sender("files.example", Some("https://files.example"), &["same-origin"]), own);
        for origin in [
            "http://127.0.0.1:8765",
            "http://localhost:8766",
            "http://localhost",
            "https://evil.example",
            "ftp://localhost:8765",
            "localhost:8765",
            "null",
            "",
        ] {
            assert_eq!(sender("localhost:8765", Some(origin), &["same-origin"]), None, "{origin}");
        }
        for sites in [&["cross-site"][..], &["same-site"], &["none"], &[], &["same-origin", "cross-site"]] {
            assert_eq!(sender("localhost:8765", Some("http://localhost:8765"), sites), None, "{sites:?}");
        }
        assert_eq!(sender("evil.example", Some("http://evil.example"), &["same-origin"]), None, "rebinding");
    }
}
