//! The pause of indexing, requested by the user or caused by battery power.
//!
//! Only reading files and embedding wait for the end of a pause. Walks and watcher events continue: they are cheap, and
//! they remove deleted files from the results.

use std::time::Duration;

use tokio::sync::watch;

use crate::catalog::Catalog;
use crate::error::Result;
use crate::index::clock::now_ms;
use crate::model::{Pause, PauseReason};

/// Catalog key of the end of the pause, saved so that a pause survives a restart: Unix milliseconds or [`WITHOUT_END`].
const PAUSE_KEY: &str = "paused_until_ms";

/// Value of [`PAUSE_KEY`] for a pause that lasts until the user ends it.
const WITHOUT_END: &str = "never";

/// Maximum sleep before a waiting task checks the clock again: a timer does not advance while the machine sleeps.
const CLOCK_CHECK: Duration = Duration::from_secs(30);

/// Makes tasks that read or embed files wait while indexing is paused.
pub(crate) struct PauseGate {
    reasons: watch::Sender<PauseReasons>,
}

/// The active reasons for a pause.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct PauseReasons {
    /// Pause that the user requested: `None` without one; the inner value is its end in Unix milliseconds, or `None`
    /// without an end.
    requested: Option<Option<i64>>,
    battery: bool,
}

impl PauseReasons {
    fn pause(self, now_ms: i64) -> Option<Pause> {
        match self.requested {
            Some(until_ms) if until_ms.is_none_or(|it| it > now_ms) => {
                Some(Pause { reason: PauseReason::Asked, until_ms })
            }
            _ if self.battery => Some(Pause { reason: PauseReason::Battery, until_ms: None }),
            _ => None,
        }
    }
}

impl PauseGate {
    /// Creates the gate at which tasks wait, and restores a pause that was requested before a restart.
    pub(crate) fn open(catalog: &Catalog) -> Result<PauseGate> {
        let asked = catalog.meta_get(PAUSE_KEY)?.and_then(|text| match text.as_str() {
            WITHOUT_END => Some(None),
            text => text.parse().ok().map(Some),
        });
        Ok(PauseGate { reasons: watch::Sender::new(PauseReasons { requested: asked, battery: false }) })
    }

    /// Creates a gate at which no task ever waits, for queries and tests.
    pub(crate) fn always_open() -> PauseGate {
        PauseGate { reasons: watch::Sender::default() }
    }

    /// Returns the pause that is in effect, if any.
    pub(crate) fn pause(&self) -> Option<Pause> {
        self.reasons.borrow().pause(now_ms())
    }

    /// Waits until no pause is active.
    pub(crate) async fn wait_until_open(&self) {
        let mut wishes = self.reasons.subscribe();
        loop {
            let Some(pause) = wishes.borrow_and_update().pause(now_ms()) else { return };
            let left = pause.until_ms.map(|until| Duration::from_millis((until - now_ms()).max(1).cast_unsigned()));
            let end = async {
                match left {
                    Some(left) => tokio::time::sleep(left.min(CLOCK_CHECK)).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                // Ignores the result: `changed` fails only if the sender is dropped, and `self` owns the sender.
                _ = wishes.changed() => (),
                () = end => (),
            }
        }
    }

    /// Sets whether the machine runs on battery.
    pub(crate) fn set_battery(&self, battery: bool) {
        self.reasons.send_if_modified(|wishes| {
            let is_new = wishes.battery != battery;
            wishes.battery = battery;
            is_new
        });
    }

    /// Sets or ends the pause that the user requests, and saves it in the catalog. The inner value is the end in Unix
    /// milliseconds, `None` for a pause without an end; the outer `None` ends the pause.
    pub(super) fn set_requested(&self, catalog: &Catalog, asked: Option<Option<i64>>) -> Result<()> {
        let text = match asked {
            Some(Some(until_ms)) => until_ms.to_string(),
            Some(None) => WITHOUT_END.to_string(),
            None => String::new(),
        };
        catalog.meta_set(PAUSE_KEY, &text)?;
        self.reasons.send_modify(|wishes| wishes.requested = asked);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn catalog() -> (tempfile::TempDir, Catalog) {
        let dir = tempfile::tempdir().unwrap();
        let catalog = Catalog::open(&dir.path().join("catalog.sqlite")).unwrap();
        (dir, catalog)
    }

    async fn is_open(gate: &PauseGate) -> bool {
        tokio::time::timeout(Duration::from_millis(20), gate.wait_until_open()).await.is_ok()
    }

    #[tokio::test]
    async fn pause_survives_restart_until_resumed() {
        let (_dir, catalog) = catalog();
        let gate = PauseGate::open(&catalog).unwrap();
        assert!(is_open(&gate).await && gate.pause().is_none());
        gate.set_requested(&catalog, Some(None)).unwrap();
        assert!(!is_open(&gate).await);
        let again = PauseGate::open(&catalog).unwrap();
        assert_eq!(again.pause(), Some(Pause { reason: PauseReason::Asked, until_ms: None }));
        again.set_requested(&catalog, None).unwrap();
        assert!(is_open(&again).await);
        assert_eq!(PauseGate::open(&catalog).unwrap().pause(), None);
    }

    #[tokio::test]
    async fn pause_with_end_expires() {
        let (_dir, catalog) = catalog();
        let gate = PauseGate::open(&catalog).unwrap();
        let until = now_ms() + 150;
        gate.set_requested(&catalog, Some(Some(until))).unwrap();
        assert_eq!(gate.pause(), Some(Pause { reason: PauseReason::Asked, until_ms: Some(until) }));
        gate.wait_until_open().await;
        assert!(now_ms() >= until);
        assert_eq!(PauseGate::open(&catalog).unwrap().pause(), None, "an expired pause does not come back");
    }

    #[tokio::test]
    async fn battery_pauses_regardless_of_request() {
        let (_dir, catalog) = catalog();
        let gate = std::sync::Arc::new(PauseGate::open(&catalog).unwrap());
        gate.set_battery(true);
        assert_eq!(gate.pause().map(|it| it.reason), Some(PauseReason::Battery));
        gate.set_requested(&catalog, None).unwrap();
        assert!(!is_open(&gate).await);
        let waiting = tokio::spawn({
            let gate = gate.clone();
            async move { gate.wait_until_open().await }
        });
        gate.set_battery(false);
        waiting.await.unwrap();
    }
}
