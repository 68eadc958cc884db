//! Slots shared by several callers. A caller other than the owner gets at most a share: a caller that sends a thousand
//! requests is refused, and the others are served as before.
//!
//! For the owner only the total counts: the machine is his, and he runs many programs.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::error::{Error, ErrorCode, Result};
use crate::model::Holder;

/// Slots shared by several callers, with a limit per caller.
#[derive(Debug)]
pub struct Shares {
    all: usize,
    each: usize,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    /// Slots in use per caller, without the owner.
    by: HashMap<Holder, usize>,
}

/// A slot; dropping it frees it.
#[derive(Debug)]
pub struct Share {
    shares: Arc<Shares>,
    holder: Holder,
}

impl Shares {
    /// Makes `all` slots; one holder gets at most half of them.
    pub fn halves(all: usize) -> Arc<Shares> {
        Shares::new(all, all / 2)
    }

    /// Limits each holder to `each` slots and leaves the total unlimited; something else bounds it.
    pub fn of_each(each: usize) -> Arc<Shares> {
        Shares::new(usize::MAX, each)
    }

    fn new(all: usize, each: usize) -> Arc<Shares> {
        Arc::new(Shares { all, each: each.max(1), taken: Mutex::default() })
    }

    /// Takes a slot. `what` describes the slots in use in error messages, e.g. `tools are at work`.
    ///
    /// # Errors
    /// `ResourceExhausted` at once if all slots are in use, or the holder has its share.
    pub fn take(self: &Arc<Shares>, holder: &Holder, what: &str) -> Result<Share> {
        let mut taken = self.taken();
        if taken.all >= self.all {
            return Err(busy(format!("busy: {} {what}", self.all)));
        }
        if *holder != Holder::Owner {
            let own = taken.by.get(holder).copied().unwrap_or_default();
            if own >= self.each {
                return Err(busy(format!("busy: {own} {what} for this key; the rest is for other keys")));
            }
            taken.by.insert(holder.clone(), own + 1);
        }
        taken.all += 1;
        Ok(Share { shares: self.clone(), holder: holder.clone() })
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn busy(text: String) -> Error {
    Error::new(ErrorCode::ResourceExhausted, text).hint("try again when one of them has ended")
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut taken = self.shares.taken();
        taken.all -= 1;
        // Holders without slots are removed: keys come and go.
        if let Some(own) = taken.by.get_mut(&self.holder) {
            *own -= 1;
        }
        taken.by.retain(|_, own| *own > 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHAT: &str = "tools are at work";

    fn key(name: &str) -> Holder {
        Holder::Key(name.into())
    }

    /// As many slots as `holder` gets.
    fn all_of(shares: &Arc<Shares>, holder: &Holder) -> Vec<Share> {
        std::iter::from_fn(|| shares.take(holder, WHAT).ok()).collect()
    }

    #[test]
    fn greedy_holder_gets_share_and_others_theirs() {
        let shares = Shares::halves(4);
        let ada = all_of(&shares, &key("ada"));
        let refused = shares.take(&key("ada"), WHAT).unwrap_err();
        assert_eq!((ada.len(), refused.code), (2, ErrorCode::ResourceExhausted));
        assert!(refused.message.contains("2 tools are at work for this key") && refused.hint.is_some(), "{refused}");
        let bo = all_of(&shares, &key("bo"));
        assert_eq!((bo.len(), all_of(&shares, &Holder::Owner).len()), (2, 0), "all are taken");
        drop(bo);
        let owner = all_of(&shares, &Holder::Owner);
        assert_eq!(owner.len(), 2);
        assert!(shares.take(&key("bo"), WHAT).unwrap_err().message.contains("busy: 4 tools"));
        drop((ada, owner));
        assert_eq!(all_of(&shares, &Holder::Owner).len(), 4, "the owner may have all of them");
        assert!(shares.taken().by.is_empty() && shares.taken().all == 0);
    }

    #[test]
    fn freed_slot_can_be_taken_again() {
        let shares = Shares::of_each(1);
        let first = shares.take(&key("ada"), WHAT).unwrap();
        assert!(shares.take(&key("ada"), WHAT).is_err());
        assert_eq!((0..100).filter_map(|_| shares.take(&Holder::Owner, WHAT).ok()).count(), 100);
        drop(first);
        shares.take(&key("ada"), WHAT).unwrap();
    }
}
