//! Tells which user of this machine opened a TCP connection, from the tables of the kernel.

use std::net::{IpAddr, SocketAddr};

/// Returns the user id of the process that holds the other end of a connection from this machine; `None` if the connection is
/// from another machine, or if the system does not tell.
pub(crate) fn peer_user(peer: SocketAddr) -> Option<u32> {
    if !peer.ip().to_canonical().is_loopback() {
        return None;
    }
    ["/proc/net/tcp", "/proc/net/tcp6"].iter().find_map(|it| find_user(&std::fs::read_to_string(it).ok()?, peer))
}

/// Finds the socket with this local address in a table such as `/proc/net/tcp`, and returns its user.
fn find_user(table: &str, wanted: SocketAddr) -> Option<u32> {
    table.lines().skip(1).find_map(|line| {
        let mut columns = line.split_ascii_whitespace();
        let address = parse_address(columns.nth(1)?)?;
        let is_wanted = address.port() == wanted.port() && address.ip().to_canonical() == wanted.ip().to_canonical();
        // The columns between are: the remote address, the state, the queues, the timer and the retransmissions.
        if is_wanted { columns.nth(5)?.parse().ok() } else { None }
    })
}

/// Parses an address as the kernel writes it: words of four bytes in the order of the machine, in hex, and the port.
fn parse_address(text: &str) -> Option<SocketAddr> {
    let (address, port) = text.split_once(':')?;
    let mut bytes = Vec::with_capacity(16);
    for at in (0..address.len()).step_by(8) {
        bytes.extend(u32::from_str_radix(address.get(at..at + 8)?, 16).ok()?.to_ne_bytes());
    }
    let ip = match bytes.len() {
        4 => IpAddr::from(<[u8; 4]>::try_from(bytes).ok()?),
        16 => IpAddr::from(<[u8; 16]>::try_from(bytes).ok()?),
        _ => return None,
    };
    Some(SocketAddr::new(ip, u16::from_str_radix(port, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_connection_is_of_own_user() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let user = peer_user(client.local_addr().unwrap());
        assert_eq!(user, Some(rustix::process::geteuid().as_raw()));
    }

    #[test]
    fn addresses_of_the_kernel_are_parsed() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
                     0: 0100007F:2230 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  1000        0 1 1\n";
        assert_eq!(find_user(table, "127.0.0.1:8752".parse().unwrap()), Some(1_000));
        assert_eq!(find_user(table, "127.0.0.1:8753".parse().unwrap()), None);
        assert_eq!(
            parse_address("B80D01200000000067452301EFCDAB89:0050"),
            "[2001:db8::123:4567:89ab:cdef]:80".parse().ok()
        );
        assert_eq!(peer_user("192.0.2.1:80".parse().unwrap()), None);
    }
}
