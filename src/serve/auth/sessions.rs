//! Sessions of the web page. A one-time code of `vic ui`, or an API key, becomes a session, which a cookie identifies.
//!
//! Sessions live in the memory of the daemon: they end with it. Only hashes of the secrets are kept.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use axum::http::{HeaderMap, header};
use subtle::ConstantTimeEq;
use tokio_util::sync::CancellationToken;

use crate::data_dir::keys::{Grant, random_secret};
use crate::error::{Error, ErrorCode, Result};

/// How long a code of `vic ui` is valid: a browser starts within seconds.
const CODE_LIFETIME: Duration = Duration::from_secs(60);

/// Maximum number of unused codes; the oldest is dropped.
const MAX_CODES: usize = 16;

/// A session ends if no request uses it for this long.
const IDLE_LIMIT: Duration = Duration::from_secs(12 * 3_600);

/// A session ends after this time even if it is used.
const LIFETIME: Duration = Duration::from_secs(7 * 24 * 3_600);

/// Maximum number of sessions of one holder; the one that was not used for the longest time ends.
const MAX_SESSIONS: usize = 16;

/// How often unused sessions are looked for.
const IDLE_INTERVAL: Duration = Duration::from_secs(60);

/// Header that carries the token of a session. The page keeps the token in its storage, which belongs to scheme, host and port:
/// browsers send the cookie to every port of the host, so that the cookie alone opens nothing.
pub(crate) const CSRF_HEADER: &str = "x-vic-csrf";

/// BLAKE3 hash of a secret.
type Hash = [u8; 32];

/// Variables of the user's desktop, with which programs open files. `vic ui` sends them, because the daemon may have been
/// started without a desktop.
pub(crate) type DesktopVariables = BTreeMap<String, String>;

/// A session as a request sees it.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    /// What its holder may access and do.
    pub(crate) grant: Grant,
    /// Token that every request must send too.
    pub(crate) csrf: String,
    /// The desktop of a session that `vic ui` opened on this machine; `None` for a session by key.
    pub(crate) desktop: Option<DesktopVariables>,
    /// Cancelled when the session ends.
    pub(crate) end: CancellationToken,
}

struct StoredSession {
    session: Session,
    opened: SystemTime,
    last_used: SystemTime,
}

struct Code {
    hash: Hash,
    made: SystemTime,
    desktop: DesktopVariables,
}

/// All sessions and unused codes.
#[derive(Default)]
pub(crate) struct Sessions {
    codes: Mutex<Vec<Code>>,
    sessions: Mutex<HashMap<Hash, StoredSession>>,
}

impl Sessions {
    /// Makes a code that opens one session of the owner within [`CODE_LIFETIME`].
    pub(crate) fn make_code(&self, desktop: DesktopVariables) -> Result<String> {
        let code = random_secret()?;
        let mut codes = lock(&self.codes);
        codes.retain(|it| !is_older(it.made, CODE_LIFETIME));
        if codes.len() >= MAX_CODES {
            codes.remove(0);
        }
        codes.push(Code { hash: hash(&code), made: SystemTime::now(), desktop });
        Ok(code)
    }

    /// Opens a session with a code, which is used up. Returns the session and the secret of its cookie.
    ///
    /// # Errors
    /// `PermissionDenied` if the code is unknown, used or too old.
    pub(crate) fn open_with_code(&self, code: &str) -> Result<(Session, String)> {
        let wanted = hash(code);
        let mut codes = lock(&self.codes);
        codes.retain(|it| !is_older(it.made, CODE_LIFETIME));
        let at = codes.iter().position(|it| bool::from(it.hash.ct_eq(&wanted)));
        let Some(at) = at else {
            return Err(Error::new(ErrorCode::PermissionDenied, "the code is not valid: it was used, or is too old")
                .hint("run `vic ui` again"));
        };
        let Code { desktop, .. } = codes.remove(at);
        drop(codes);
        self.open(Grant::owner(), Some(desktop))
    }

    /// Opens a session for the holder of a key. Returns the session and the secret of its cookie.
    pub(crate) fn open(&self, grant: Grant, desktop: Option<DesktopVariables>) -> Result<(Session, String)> {
        let secret = random_secret()?;
        let session = Session { grant, csrf: random_secret()?, desktop, end: CancellationToken::new() };
        let mut sessions = lock(&self.sessions);
        end_idle(&mut sessions);
        let own = || sessions.iter().filter(|it| it.1.session.grant.holder == session.grant.holder);
        if own().count() >= MAX_SESSIONS
            && let Some(oldest) = own().min_by_key(|it| it.1.last_used).map(|it| *it.0)
        {
            end_session(&mut sessions, &oldest);
        }
        let now = SystemTime::now();
        sessions.insert(hash(&secret), StoredSession { session: session.clone(), opened: now, last_used: now });
        Ok((session, secret))
    }

    /// Returns the session that the cookie of a request identifies. Notes that it was used if a person caused the request
    /// (`is_use`), and not a clock.
    pub(crate) fn find(&self, headers: &HeaderMap, port: u16, is_use: bool) -> Option<Session> {
        let mut sessions = lock(&self.sessions);
        end_idle(&mut sessions);
        // A server on another port of this host can set a cookie of the same name: the one with the token of the page counts.
        let token = headers.get(CSRF_HEADER).map(|it| it.as_bytes()).unwrap_or_default();
        let name = cookie_name(port);
        let known: Vec<Hash> = cookies(headers, &name).map(hash).filter(|it| sessions.contains_key(it)).collect();
        let has_token = |it: &&Hash| bool::from(sessions[*it].session.csrf.as_bytes().ct_eq(token));
        let key = known.iter().find(has_token).or(known.first())?;
        let stored = sessions.get_mut(key)?;
        if is_use {
            stored.last_used = SystemTime::now();
        }
        Some(stored.session.clone())
    }

    /// Ends the session of a request.
    pub(crate) fn end(&self, headers: &HeaderMap, port: u16) {
        for secret in cookies(headers, &cookie_name(port)) {
            end_session(&mut lock(&self.sessions), &hash(secret));
        }
    }

    /// Ends unused sessions, and their streams, once a minute. Never returns.
    pub(crate) async fn end_idle_loop(&self) {
        loop {
            tokio::time::sleep(IDLE_INTERVAL).await;
            end_idle(&mut lock(&self.sessions));
        }
    }

    /// Ends every session, and makes all codes invalid. Returns the number of sessions.
    pub(crate) fn end_all(&self) -> usize {
        lock(&self.codes).clear();
        let mut sessions = lock(&self.sessions);
        sessions.values().for_each(|it| it.session.end.cancel());
        let ended = sessions.len();
        sessions.clear();
        ended
    }
}

/// Returns the name of the cookie. Browsers send the cookies of a host to all of its ports, so that the name has the port.
pub(crate) fn cookie_name(port: u16) -> String {
    format!("vic-session-{port}")
}

/// Returns the values of all cookies of a name.
fn cookies<'a>(headers: &'a HeaderMap, name: &str) -> impl Iterator<Item = &'a str> {
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|it| it.to_str().ok());
    let pairs = cookies.flat_map(|it| it.split(';')).filter_map(|it| it.trim().split_once('='));
    pairs.filter(move |(key, _)| *key == name).map(|it| it.1)
}

/// Returns whether a time is at least so long ago. The time of the clock counts, because a monotonic one stands still while the
/// machine sleeps.
fn is_older(time: SystemTime, age: Duration) -> bool {
    time.elapsed().is_ok_and(|it| it >= age)
}

fn end_idle(sessions: &mut HashMap<Hash, StoredSession>) {
    let is_over = |it: &StoredSession| is_older(it.last_used, IDLE_LIMIT) || is_older(it.opened, LIFETIME);
    let idle: Vec<Hash> = sessions.iter().filter(|it| is_over(it.1)).map(|it| *it.0).collect();
    idle.iter().for_each(|it| end_session(sessions, it));
}

fn end_session(sessions: &mut HashMap<Hash, StoredSession>, key: &Hash) {
    if let Some(ended) = sessions.remove(key) {
        ended.session.end.cancel();
    }
}

fn hash(secret: &str) -> Hash {
    *blake3::hash(secret.as_bytes()).as_bytes()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Principal;

    fn headers(cookie: &str) -> HeaderMap {
        HeaderMap::from_iter([(header::COOKIE, cookie.parse().unwrap())])
    }

    #[test]
    fn code_opens_one_session() {
        let sessions = Sessions::default();
        let code = sessions.make_code(DesktopVariables::new()).unwrap();
        let (session, secret) = sessions.open_with_code(&code).unwrap();
        assert_eq!((session.grant, session.desktop.is_some()), (Grant::owner(), true));
        assert!(sessions.open_with_code(&code).unwrap_err().message.contains("was used"));
        assert!(sessions.open_with_code("").is_err());
        let found = sessions.find(&headers(&format!("a=b; vic-session-8765={secret}")), 8765, true).unwrap();
        assert_eq!(found.csrf, session.csrf);
    }

    #[test]
    fn cookie_of_other_port_or_value_finds_no_session() {
        let sessions = Sessions::default();
        let (_, secret) = sessions.open(Grant::owner(), None).unwrap();
        for cookie in [
            format!("vic-session-8766={secret}"),
            format!("session={secret}"),
            "vic-session-8765=".into(),
            format!("vic-session-8765={secret}x"),
        ] {
            assert!(sessions.find(&headers(&cookie), 8765, true).is_none(), "{cookie}");
        }
        assert!(sessions.find(&HeaderMap::new(), 8765, true).is_none());
    }

    #[test]
    fn foreign_cookie_of_same_name_hides_no_session() {
        let sessions = Sessions::default();
        let (session, secret) = sessions.open(Grant::owner(), None).unwrap();
        let (_, other) = sessions.open(Grant::owner(), None).unwrap();
        for foreign in ["wrong", &other] {
            let mut headers = headers(&format!("vic-session-1={foreign}; vic-session-1={secret}"));
            headers.insert(CSRF_HEADER, session.csrf.parse().unwrap());
            assert_eq!(sessions.find(&headers, 1, true).unwrap().csrf, session.csrf, "{foreign}");
        }
    }

    #[test]
    fn time_counts_while_the_machine_sleeps() {
        let sessions = Sessions::default();
        let (session, secret) = sessions.open(Grant::owner(), None).unwrap();
        lock(&sessions.sessions).values_mut().for_each(|it| it.last_used -= IDLE_LIMIT);
        assert!(sessions.find(&headers(&format!("vic-session-1={secret}")), 1, true).is_none());
        assert!(session.end.is_cancelled());
    }

    #[test]
    fn ended_session_is_cancelled_and_unknown() {
        let sessions = Sessions::default();
        let (first, secret) = sessions.open(Grant::owner(), None).unwrap();
        let (second, _) = sessions.open(Grant::owner(), None).unwrap();
        let cookie = headers(&format!("vic-session-1={secret}"));
        sessions.end(&cookie, 1);
        assert!(first.end.is_cancelled() && !second.end.is_cancelled());
        assert!(sessions.find(&cookie, 1, true).is_none());
        assert_eq!(sessions.end_all(), 1);
        assert!(second.end.is_cancelled());
    }

    #[test]
    fn numbers_of_codes_and_sessions_are_bounded() {
        let sessions = Sessions::default();
        let first = sessions.make_code(DesktopVariables::new()).unwrap();
        (0..MAX_CODES).for_each(|_| drop(sessions.make_code(DesktopVariables::new()).unwrap()));
        assert!(sessions.open_with_code(&first).is_err());
        let other = Grant { holder: Principal::Key("ada".into()), ..Grant::owner() };
        let (of_other, _) = sessions.open(other, None).unwrap();
        let (oldest, _) = sessions.open(Grant::owner(), None).unwrap();
        (0..MAX_SESSIONS).for_each(|_| drop(sessions.open(Grant::owner(), None).unwrap()));
        assert!(oldest.end.is_cancelled() && !of_other.end.is_cancelled());
        assert_eq!(lock(&sessions.sessions).len(), MAX_SESSIONS + 1);
    }
}
