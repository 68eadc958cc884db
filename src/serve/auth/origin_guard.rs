//! Rejects requests that a web page makes the user's browser send.
//!
//! A web page can send requests to 127.0.0.1. If it does so directly, they carry an `Origin` header, or a
//! `Sec-Fetch-Site` that names a page. If it uses its own host name and lets that resolve to 127.0.0.1 (DNS rebinding),
//! the `Host` is not one of this server. Both are rejected before the key is checked or the body is read. Host names are
//! compared literally, in the form that vic's clients send.

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

/// Returns why a request to the TCP port is rejected; `None` if it is accepted.
pub(crate) fn rejection_reason(
    uri: &Uri,
    headers: &HeaderMap,
    names: &HostNames,
    local: IpAddr,
) -> Option<&'static str> {
    if is_from_web_page(headers) {
        return Some(WEB_PAGE_REJECTED);
    }
    let mut hosts = headers.get_all(header::HOST).iter();
    let (first, second) = (hosts.next(), hosts.next());
    let is_ours = |it: &str| names.accepts(it, local);
    let named = uri.authority().is_some() || first.is_some();
    let ours = uri.authority().is_none_or(|it| is_ours(it.as_str()))
        && first.is_none_or(|it| it.to_str().is_ok_and(is_ours))
        && second.is_none();
    if named && ours { None } else { Some("the request's host is not this server (VIC_BRIDGE_HOSTS adds names)") }
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
        rejection_reason(&uri.parse().unwrap(), &headers, &names(&[]), LOOPBACK).is_none()
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
            rejection_reason(&uri, &HeaderMap::new(), &names, local.parse().unwrap()).is_none()
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
}
