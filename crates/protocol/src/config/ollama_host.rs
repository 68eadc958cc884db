//! `OLLAMA_HOST`, the address of the user's Ollama server: the only setting of another program that vic reads. Accepts
//! the forms that Ollama documents: a host, a port, or both, with or without scheme and path.

/// The environment variable in which Ollama itself keeps its address.
pub(super) const OLLAMA_HOST: &str = "OLLAMA_HOST";

/// Port for an address that has neither port nor scheme: Ollama's default port.
const DEFAULT_PORT: u16 = 11_434;

/// Returns the URL at which a client reaches the server. Invalid parts of `host` are replaced by Ollama's defaults.
pub(super) fn client_address(host: &str) -> String {
    let host = host.trim().trim_matches(['"', '\'']).trim();
    let (scheme, rest, default) = match host.split_once("://") {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("https") => ("https", rest, 443),
        Some((_, rest)) => ("http", rest, 80),
        None => ("http", host, DEFAULT_PORT),
    };
    let (place, path) = rest.split_once('/').map_or((rest, ""), |(place, path)| (place, path.trim_end_matches('/')));
    let (name, port) = split_host_port(place);
    let port = port.and_then(|it| it.parse().ok()).unwrap_or(default);
    let name = match name {
        // Replace the address of a server that listens on all interfaces by the loopback address, where clients reach it.
        "" | "0.0.0.0" => "127.0.0.1".to_string(),
        "::" => "[::1]".into(),
        name if name.contains(':') => format!("[{name}]"),
        name => name.into(),
    };
    let path = if path.is_empty() { String::new() } else { format!("/{path}") };
    format!("{scheme}://{name}:{port}{path}")
}

/// Splits an address into host and port. An IPv6 address with a port must be in brackets.
fn split_host_port(place: &str) -> (&str, Option<&str>) {
    if let Some((name, rest)) = place.strip_prefix('[').and_then(|it| it.split_once(']')) {
        return (name, rest.strip_prefix(':'));
    }
    match place.rsplit_once(':') {
        Some((name, _)) if name.contains(':') => (place, None),
        Some((name, port)) => (name, Some(port)),
        None => (place, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documented_forms_are_parsed() {
        for (host, expected) in [
            ("", "http://127.0.0.1:11434"),
            ("192.168.1.9", "http://192.168.1.9:11434"),
            ("192.168.1.9:1234", "http://192.168.1.9:1234"),
            (":1234", "http://127.0.0.1:1234"),
            ("models.example.com", "http://models.example.com:11434"),
            ("http://models.example.com", "http://models.example.com:80"),
            ("https://models.example.com", "https://models.example.com:443"),
            ("https://models.example.com:8443/ollama/", "https://models.example.com:8443/ollama"),
            ("example.com/ollama", "http://example.com:11434/ollama"),
            ("[::1]", "http://[::1]:11434"),
            ("[::1]:1337", "http://[::1]:1337"),
            ("::1", "http://[::1]:11434"),
            (" \"10.0.0.1:99\" ", "http://10.0.0.1:99"),
            ("10.0.0.1:port", "http://10.0.0.1:11434"),
            ("10.0.0.1:66000", "http://10.0.0.1:11434"),
            // A client cannot connect to 0.0.0.0, the address on which a server listens on all interfaces.
            ("0.0.0.0", "http://127.0.0.1:11434"),
            ("0.0.0.0:8080", "http://127.0.0.1:8080"),
            ("[::]:8080", "http://[::1]:8080"),
        ] {
            assert_eq!(client_address(host), expected, "{host}");
        }
    }
}
