//! Tells which user of this machine opened a TCP connection, from the tables of the kernel.

use std::net::{IpAddr, SocketAddr};

/// State of an established connection in the tables. The kernel writes user 0 for sockets in other states, such as those that
/// wait after their end: another user could leave one with the same address.
const ESTABLISHED: &str = "01";

/// Returns whether a process of this machine, but not of the user `own`, holds the other end of the connection from `peer` to
/// `server`. `false` for a connection from another machine, and if the system has no tables of connections.
pub(crate) fn is_of_other_local_user(peer: SocketAddr, server: SocketAddr, own: u32) -> bool {
    let tables: Vec<String> =
        ["/proc/net/tcp", "/proc/net/tcp6"].iter().filter_map(|it| std::fs::read_to_string(it).ok()).collect();
    if tables.is_empty() {
        return false;
    }
    match tables.iter().find_map(|it| find_user(it, peer, server)) {
        Some(user) => user != own,
        // A connection of this machine that is in no table has ended.
        None => peer.ip().to_canonical().is_loopback() || is_same(peer, SocketAddr::new(server.ip(), peer.port())),
    }
}

/// Finds the established connection from `local` to `remote` in a table such as `/proc/net/tcp`, and returns its user.
fn find_user(table: &str, local: SocketAddr, remote: SocketAddr) -> Option<u32> {
    table.lines().skip(1).find_map(|line| {
        let mut columns = line.split_ascii_whitespace().skip(1);
        let (own, other) = (parse_address(columns.next()?)?, parse_address(columns.next()?)?);
        let is_wanted = is_same(own, local) && is_same(other, remote) && columns.next()? == ESTABLISHED;
        // The columns between are: the queues, the timer and the retransmissions.
        if is_wanted { columns.nth(3)?.parse().ok() } else { None }
    })
}

fn is_same(one: SocketAddr, other: SocketAddr) -> bool {
    one.port() == other.port() && one.ip().to_canonical() == other.ip().to_canonical()
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
        let (peer, server) = (client.local_addr().unwrap(), listener.local_addr().unwrap());
        let own = rustix::process::geteuid().as_raw();
        assert!(!is_of_other_local_user(peer, server, own));
        assert!(is_of_other_local_user(peer, server, own + 1));
        assert!(is_of_other_local_user(SocketAddr::new(peer.ip(), 1), server, own), "it is in no table");
        assert!(!is_of_other_local_user("192.0.2.1:80".parse().unwrap(), server, own), "another machine");
    }

    #[test]
    fn only_established_connection_to_server_counts() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
                     0: 0100007F:2230 0100007F:1F90 06 00000000:00000000 03:00000000 00000000     0        0 0 3\n   \
                     1: 0100007F:2230 0100007F:1F91 01 00000000:00000000 00:00000000 00000000     7        0 1 1\n   \
                     2: 0100007F:2230 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  1000        0 1 1\n";
        let server = "127.0.0.1:8080".parse().unwrap();
        assert_eq!(find_user(table, "127.0.0.1:8752".parse().unwrap(), server), Some(1_000));
        assert_eq!(find_user(table, "[::ffff:127.0.0.1]:8752".parse().unwrap(), server), Some(1_000));
        assert_eq!(find_user(table, "127.0.0.1:8753".parse().unwrap(), server), None);
        assert_eq!(
            parse_address("B80D01200000000067452301EFCDAB89:0050"),
            "[2001:db8::123:4567:89ab:cdef]:80".parse().ok()
        );
    }
}
