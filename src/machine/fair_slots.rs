//! Limits how many requests run at once, in all and for each caller, so that a caller who sends a thousand requests is
//! refused and the other callers are served as before.
//!
//! The owner of the daemon has no individual limit, only the total, because the owner runs many programs on the machine.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::error::{Error, ErrorCode, Result};
use crate::model::Principal;

/// A number of slots for requests, with a limit per caller.
#[derive(Debug)]
pub struct FairSlots {
    total: usize,
    per_holder: usize,
    usage: Mutex<Usage>,
}

#[derive(Debug, Default)]
struct Usage {
    total: usize,
    /// Slots in use per caller; the owner is not counted here.
    by_holder: HashMap<Principal, usize>,
}

/// A slot in use; it is free again when this guard is dropped.
#[derive(Debug)]
pub struct Slot {
    shares: Arc<FairSlots>,
    holder: Principal,
}

impl FairSlots {
    /// Makes `all` slots; one caller other than the owner gets at most half of them.
    pub fn with_half_each(all: usize) -> Arc<FairSlots> {
        FairSlots::new(all, all / 2)
    }

    /// Limits each caller other than the owner to `each` slots. Does not limit the total: the code that takes the slots
    /// has a limit of its own.
    pub fn per_holder(each: usize) -> Arc<FairSlots> {
        FairSlots::new(usize::MAX, each)
    }

    fn new(all: usize, each: usize) -> Arc<FairSlots> {
        Arc::new(FairSlots { total: all, per_holder: each.max(1), usage: Mutex::default() })
    }

    /// Takes a slot. `what` follows the number of slots in use in error messages, e.g. `tools are running`.
    ///
    /// # Errors
    /// `ResourceExhausted` at once if all slots are in use, or `holder` has reached the limit per caller.
    pub fn acquire(self: &Arc<FairSlots>, holder: &Principal, what: &str) -> Result<Slot> {
        let mut taken = self.usage();
        if taken.total >= self.total {
            return Err(busy_error(format!("busy: {} {what}", self.total)));
        }
        if *holder != Principal::Owner {
            let own = taken.by_holder.get(holder).copied().unwrap_or_default();
            if own >= self.per_holder {
                return Err(busy_error(format!("busy: {own} {what} for this key, the maximum for one key")));
            }
            taken.by_holder.insert(holder.clone(), own + 1);
        }
        taken.total += 1;
        Ok(Slot { shares: self.clone(), holder: holder.clone() })
    }

    fn usage(&self) -> MutexGuard<'_, Usage> {
        self.usage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn busy_error(text: String) -> Error {
    Error::new(ErrorCode::ResourceExhausted, text).hint("try again when one of them has ended")
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut taken = self.shares.usage();
        taken.total -= 1;
        // Removes callers without slots from the map, because keys come and go.
        if let Some(own) = taken.by_holder.get_mut(&self.holder) {
            *own -= 1;
        }
        taken.by_holder.retain(|_, own| *own > 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHAT: &str = "tools are at work";

    fn key(name: &str) -> Principal {
        Principal::Key(name.into())
    }

    /// Takes slots for `holder` until one is refused.
    fn take_all(shares: &Arc<FairSlots>, holder: &Principal) -> Vec<Slot> {
        std::iter::from_fn(|| shares.acquire(holder, WHAT).ok()).collect()
    }

    #[test]
    fn greedy_holder_gets_share_and_others_theirs() {
        let shares = FairSlots::with_half_each(4);
        let ada = take_all(&shares, &key("ada"));
        let refused = shares.acquire(&key("ada"), WHAT).unwrap_err();
        assert_eq!((ada.len(), refused.code), (2, ErrorCode::ResourceExhausted));
        assert!(refused.message.contains("2 tools are at work for this key") && refused.hint.is_some(), "{refused}");
        let bo = take_all(&shares, &key("bo"));
        assert_eq!((bo.len(), take_all(&shares, &Principal::Owner).len()), (2, 0), "all are taken");
        drop(bo);
        let owner = take_all(&shares, &Principal::Owner);
        assert_eq!(owner.len(), 2);
        assert!(shares.acquire(&key("bo"), WHAT).unwrap_err().message.contains("busy: 4 tools"));
        drop((ada, owner));
        assert_eq!(take_all(&shares, &Principal::Owner).len(), 4, "the owner may have all of them");
        assert!(shares.usage().by_holder.is_empty() && shares.usage().total == 0);
    }

    #[test]
    fn freed_slot_can_be_taken_again() {
        let shares = FairSlots::per_holder(1);
        let first = shares.acquire(&key("ada"), WHAT).unwrap();
        assert!(shares.acquire(&key("ada"), WHAT).is_err());
        assert_eq!((0..100).filter_map(|_| shares.acquire(&Principal::Owner, WHAT).ok()).count(), 100);
        drop(first);
        shares.acquire(&key("ada"), WHAT).unwrap();
    }
}
