//! Keeps web pages out of the TCP port.
//!
//! A page can make a browser send requests to 127.0.0.1, either openly (then they carry an `Origin`) or through a name of
//! its own that it points at 127.0.0.1 (then the host is not this machine's). Both are refused before anything is read.
//! This is no authentication: every local program passes.

use std::net::IpAddr;

use axum::http::{HeaderMap, Uri, header, uri::Authority};

/// Says why a request is refused, if it is. With `remote`, other machines may connect, and any address passes as host: a
/// page can only point names at this machine.
pub(crate) fn refusal(uri: &Uri, headers: &HeaderMap, remote: bool) -> Option<&'static str> {
    if headers.contains_key(header::ORIGIN) {
        return Some("requests of web pages are refused");
    }
    let mut hosts = headers.get_all(header::HOST).iter().map(|value| value.to_str().ok()?.parse::<Authority>().ok());
    let named = uri.authority().is_some() || headers.contains_key(header::HOST);
    let local = uri.authority().is_none_or(|it| is_ours(it, remote))
        && hosts.all(|host| host.as_ref().is_some_and(|it| is_ours(it, remote)));
    if named && local { None } else { Some("the host of the request is not this machine") }
}

fn is_ours(authority: &Authority, remote: bool) -> bool {
    let host = authority.host();
    // `user@` has no place here; it only serves to confuse readers of the name.
    if authority.as_str().contains('@') {
        return false;
    }
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost")
        || address.parse::<IpAddr>().is_ok_and(|it| remote || it.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(authority: &str, host: Option<&str>, origin: Option<&str>) -> bool {
        let uri = if authority.is_empty() { "/x".into() } else { format!("http://{authority}/x") };
        let mut headers = HeaderMap::new();
        for (name, value) in [(header::HOST, host), (header::ORIGIN, origin)] {
            if let Some(value) = value {
                headers.insert(name, value.parse().unwrap());
            }
        }
        refusal(&uri.parse().unwrap(), &headers, false).is_none()
    }

    #[test]
    fn this_machine_passes_under_each_of_its_names() {
        for name in ["localhost:8765", "LOCALHOST", "127.0.0.1:8765", "127.9.9.9", "[::1]:8765", "[::ffff:127.0.0.1]"] {
            assert!(check(name, None, None), "{name}");
            assert!(check("", Some(name), None), "{name}");
        }
    }

    #[test]
    fn other_hosts_are_refused_wherever_they_stand() {
        for name in ["evil.example", "localhost.evil.example", "10.0.0.1:8765", "0.0.0.0", "127.0.0.1.evil.example"] {
            assert!(!check(name, None, None), "{name}");
            assert!(!check("", Some(name), None), "{name}");
            assert!(!check("localhost", Some(name), None), "{name}");
        }
        assert!(!check("localhost@evil.example", None, None));
        assert!(!check("evil@localhost", None, None));
        assert!(!check("", None, None), "a request without a host");
    }

    #[test]
    fn other_machines_pass_by_address_but_not_by_name() {
        let check = |host: &str| refusal(&format!("http://{host}/x").parse().unwrap(), &HeaderMap::new(), true);
        for (host, passes) in [("192.0.2.7:8765", true), ("[2001:db8::1]", true), ("evil.example", false)] {
            assert_eq!(check(host).is_none(), passes, "{host}");
        }
    }

    #[test]
    fn web_pages_are_refused_even_from_this_machine() {
        for origin in ["http://localhost:8765", "https://evil.example", "null"] {
            assert!(!check("localhost", None, Some(origin)), "{origin}");
        }
    }
}
