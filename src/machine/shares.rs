//! Places that several people have in common, of which nobody but the owner takes more than a share: whoever sends a
//! thousand requests is refused, and everybody else is served as before.
//!
//! The owner is bound by the number of all places alone. The machine is his, and his programs are many.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::error::{Error, ErrorCode, Result};
use crate::model::Holder;

/// See the module.
#[derive(Debug)]
pub struct Shares {
    all: usize,
    each: usize,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    /// Of those who have any, but for the owner.
    by: HashMap<Holder, usize>,
}

/// A place; it is free again when this is dropped.
#[derive(Debug)]
pub struct Share {
    shares: Arc<Shares>,
    holder: Holder,
}

impl Shares {
    /// So many places, of which one holder has at most half.
    pub fn halves(all: usize) -> Arc<Shares> {
        Shares::new(all, all / 2)
    }

    /// As many places as are wanted, of which one holder has at most so many: something else counts them all.
    pub fn of_each(each: usize) -> Arc<Shares> {
        Shares::new(usize::MAX, each)
    }

    fn new(all: usize, each: usize) -> Arc<Shares> {
        Arc::new(Shares { all, each: each.max(1), taken: Mutex::default() })
    }

    /// Takes a place. `what` are those who have them, e.g. `tools are at work`.
    ///
    /// # Errors
    /// `ResourceExhausted` at once where all are taken, or as many as the holder may have.
    pub fn take(self: &Arc<Shares>, holder: &Holder, what: &str) -> Result<Share> {
        let mut taken = self.taken();
        if taken.all >= self.all {
            return Err(busy(format!("busy: {} {what}", self.all)));
        }
        if *holder != Holder::Owner {
            let own = taken.by.get(holder).copied().unwrap_or_default();
            if own >= self.each {
                return Err(busy(format!("busy: {own} {what} for this key, and the others are for other keys")));
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
        // Who has none is forgotten: keys come and go.
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

    /// As many places as somebody gets.
    fn all_of(shares: &Arc<Shares>, holder: &Holder) -> Vec<Share> {
        std::iter::from_fn(|| shares.take(holder, WHAT).ok()).collect()
    }

    #[test]
    fn whoever_takes_all_that_there_is_gets_a_share_and_others_theirs() {
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
    fn a_place_that_comes_free_goes_to_whoever_asks_next() {
        let shares = Shares::of_each(1);
        let first = shares.take(&key("ada"), WHAT).unwrap();
        assert!(shares.take(&key("ada"), WHAT).is_err());
        assert_eq!((0..100).filter_map(|_| shares.take(&Holder::Owner, WHAT).ok()).count(), 100);
        drop(first);
        shares.take(&key("ada"), WHAT).unwrap();
    }
}
