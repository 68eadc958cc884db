//! Rate limits for clients by IP address: a sliding window, and a token bucket. Many people may share one address, so the
//! sliding window counts the requests of each key at an address separately.
//!
//! The sliding window limits expensive requests. It stores the time of each admitted request for 60 seconds, so that no 60
//! seconds admit more than the limit. Rejected requests do not count, so that a client that waits as long as the response
//! tells is admitted. The limit and [`MAX_CLIENTS`] bound its memory.
//!
//! The [`TokenBucket`] limits public requests, which are cheap; its rate is higher than any monitor needs.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::model::Principal;

/// Length of the sliding window.
const WINDOW: Duration = Duration::from_secs(60);

/// Maximum number of clients whose requests are remembered; beyond it, the client that was idle longest is forgotten.
const MAX_CLIENTS: usize = 1_024;

/// Limits the requests with each key from each IP address by a sliding window of 60 seconds.
pub(crate) struct SlidingWindow {
    limit: u32,
    clients: Mutex<HashMap<Client, VecDeque<Instant>>>,
}

/// A client: an IP address, and the holder of a key that it uses.
type Client = (IpAddr, Principal);

impl SlidingWindow {
    /// Admits at most `limit` requests of each key at each address in any 60 seconds; 0 means unlimited.
    pub(crate) fn new(limit: u32) -> SlidingWindow {
        SlidingWindow { limit, clients: Mutex::default() }
    }

    pub(crate) fn limit(&self) -> u32 {
        self.limit
    }

    /// Admits and counts a request, or returns how long the client must wait.
    pub(crate) fn admit(&self, peer: IpAddr, holder: &Principal, now: Instant) -> Result<(), Duration> {
        if self.limit == 0 {
            return Ok(());
        }
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        let client = (rate_limited_address(peer), holder.clone());
        if !clients.contains_key(&client) && clients.len() >= MAX_CLIENTS {
            evict_idle_client(&mut clients, now);
        }
        let moments = clients.entry(client).or_default();
        drop_expired(moments, now);
        match moments.front() {
            Some(first) if moments.len() >= self.limit as usize => {
                Err((*first + WINDOW).saturating_duration_since(now))
            }
            Some(_) | None => {
                moments.push_back(now);
                Ok(())
            }
        }
    }
}

/// Limits the rate of requests of each address by a token bucket.
pub(crate) struct TokenBucket {
    /// Interval between two requests at the full rate.
    interval: Duration,
    /// How much earlier than at the full rate a request may come; this allows bursts after idle time.
    burst: Duration,
    rate: u32,
    /// For each address: when its next request is due if all its admitted requests are spread out at the full rate.
    clients: Mutex<HashMap<IpAddr, Instant>>,
}

impl TokenBucket {
    /// Admits `rate` requests per second, and bursts of `burst` requests.
    pub(crate) fn new(rate: u32, burst: u32) -> TokenBucket {
        let interval = Duration::from_secs(1) / rate.max(1);
        TokenBucket { interval, burst: interval * burst.saturating_sub(1), rate, clients: Mutex::default() }
    }

    /// Returns the admitted number of requests per second.
    pub(crate) fn rate(&self) -> u32 {
        self.rate
    }

    /// Admits and counts a request, or returns how long the client must wait.
    pub(crate) fn admit(&self, peer: IpAddr, now: Instant) -> Result<(), Duration> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        let client = rate_limited_address(peer);
        let due = clients.get(&client).map_or(now, |it| now.max(*it));
        let wait = (due - now).saturating_sub(self.burst);
        if !wait.is_zero() {
            return Err(wait);
        }
        if !clients.contains_key(&client) && clients.len() >= MAX_CLIENTS {
            // Forgets clients whose bucket is full, because a new client has a full bucket too.
            clients.retain(|_, due| *due > now);
            let idlest = clients.iter().min_by_key(|(_, due)| **due).map(|(client, _)| *client);
            idlest.filter(|_| clients.len() >= MAX_CLIENTS).map(|it| clients.remove(&it));
        }
        clients.insert(client, due + self.interval);
        Ok(())
    }
}

/// Returns the address that requests are counted for: for IPv6 its /64 network, because a client usually controls all of
/// it.
fn rate_limited_address(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(address) if !address.is_loopback() => {
            IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)))
        }
        address => address,
    }
}

/// Removes the times of requests that are older than the sliding window.
fn drop_expired(moments: &mut VecDeque<Instant>, now: Instant) {
    while moments.front().is_some_and(|first| now.saturating_duration_since(*first) >= WINDOW) {
        moments.pop_front();
    }
}

fn evict_idle_client(clients: &mut HashMap<Client, VecDeque<Instant>>, now: Instant) {
    clients.retain(|_, moments| {
        drop_expired(moments, now);
        !moments.is_empty()
    });
    if clients.len() >= MAX_CLIENTS {
        let silent =
            clients.iter().min_by_key(|(_, moments)| moments.back().copied()).map(|(client, _)| client.clone());
        silent.map(|client| clients.remove(&client));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
    const OWNER: Principal = Principal::Owner;

    /// Returns which of the requests sent at these seconds are admitted.
    fn check(limit: u32, seconds: &[u64]) -> Vec<bool> {
        let (window, begin) = (SlidingWindow::new(limit), Instant::now());
        seconds.iter().map(|it| window.admit(HERE, &OWNER, begin + Duration::from_secs(*it)).is_ok()).collect()
    }

    #[test]
    fn window_slides() {
        assert_eq!(check(2, &[0, 30, 59, 60, 61, 89, 90]), [true, true, false, true, false, false, true]);
    }

    #[test]
    fn window_has_no_boundary_burst() {
        let all: Vec<u64> = (0..3).map(|_| 59).chain((0..3).map(|_| 61)).collect();
        assert_eq!(check(3, &all), [true, true, true, false, false, false]);
    }

    #[test]
    fn zero_limit_is_unlimited() {
        assert_eq!(check(0, &[0; 1_000]), [true; 1_000]);
    }

    #[test]
    fn request_after_reported_wait_is_admitted() {
        let (window, begin) = (SlidingWindow::new(1), Instant::now());
        window.admit(HERE, &OWNER, begin).unwrap();
        let now = begin + Duration::from_millis(1_500);
        let wait = window.admit(HERE, &OWNER, now).unwrap_err();
        assert_eq!(wait, Duration::from_millis(58_500));
        assert!(window.admit(HERE, &OWNER, now + wait).is_ok());
    }

    // Case D7
    #[test]
    fn window_is_per_address_and_per_ipv6_network() {
        let (window, now) = (SlidingWindow::new(1), Instant::now());
        for (peer, admitted) in [
            ("127.0.0.1", true),
            ("::ffff:127.0.0.1", false),
            ("127.0.0.2", true),
            ("2001:db8::1", true),
            ("2001:db8::2", false),
            ("2001:db8:0:1::1", true),
        ] {
            assert_eq!(window.admit(peer.parse().unwrap(), &OWNER, now).is_ok(), admitted, "{peer}");
        }
    }

    #[test]
    fn bucket_admits_burst_then_rate() {
        let (bucket, begin) = (TokenBucket::new(50, 100), Instant::now());
        let admitted = |seconds: f64| {
            let now = begin + Duration::from_secs_f64(seconds);
            (0..500).filter(|_| bucket.admit(HERE, now).is_ok()).count()
        };
        assert_eq!([0.0, 0.01, 1.01, 60.0].map(admitted), [100, 0, 50, 100]);
        let now = begin + Duration::from_secs(60);
        let wait = bucket.admit(HERE, now).unwrap_err();
        assert!(wait <= Duration::from_millis(20), "{wait:?}");
        assert!(bucket.admit(HERE, now + wait).is_ok());
        assert!(bucket.admit("192.0.2.1".parse().unwrap(), now).is_ok(), "another address has its own bucket");
    }

    #[test]
    fn steady_rate_is_never_rejected() {
        let (bucket, begin) = (TokenBucket::new(50, 100), Instant::now());
        assert!((0..100_000).all(|it| bucket.admit(HERE, begin + Duration::from_millis(20 * it)).is_ok()));
    }

    #[test]
    fn client_tables_are_bounded() {
        let bucket = TokenBucket::new(50, 100);
        for number in 0..3 * MAX_CLIENTS as u32 {
            bucket.admit(IpAddr::V4(number.into()), Instant::now()).unwrap();
        }
        assert!(bucket.clients.lock().unwrap().len() <= MAX_CLIENTS);
        let (window, now) = (SlidingWindow::new(5), Instant::now());
        for number in 0..3 * MAX_CLIENTS as u32 {
            window.admit(IpAddr::V4(number.into()), &OWNER, now).unwrap();
        }
        assert_eq!(window.clients.lock().unwrap().len(), MAX_CLIENTS);
    }
}
