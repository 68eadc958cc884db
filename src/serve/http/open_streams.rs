//! Limits the open status streams of each holder.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::{Error, ErrorCode, Result};
use crate::model::Principal;

/// Maximum number of streams that one holder has open: each asks for the whole status up to once a second.
const MAX_STREAMS: usize = 16;

/// Number of open streams by holder.
#[derive(Default)]
pub(crate) struct OpenStreams(Mutex<HashMap<Principal, usize>>);

/// An open stream; closed on drop.
pub(super) struct OpenStream {
    counts: Arc<OpenStreams>,
    holder: Principal,
}

impl OpenStreams {
    /// Counts one more stream.
    ///
    /// # Errors
    /// `ResourceExhausted` if the holder has [`MAX_STREAMS`].
    pub(super) fn open(self: &Arc<OpenStreams>, holder: Principal) -> Result<OpenStream> {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(holder.clone()).or_default();
        if *count >= MAX_STREAMS {
            let text = format!("{MAX_STREAMS} streams of the status are open already");
            return Err(Error::new(ErrorCode::ResourceExhausted, text).hint("close a page"));
        }
        *count += 1;
        Ok(OpenStream { counts: self.clone(), holder })
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        let mut counts = self.counts.0.lock().unwrap_or_else(PoisonError::into_inner);
        match counts.get_mut(&self.holder) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(counts.remove(&self.holder)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_streams_of_a_holder_are_limited() {
        let counts = Arc::new(OpenStreams::default());
        let mut open: Vec<OpenStream> = (0..MAX_STREAMS).map(|_| counts.open(Principal::Owner).unwrap()).collect();
        assert!(counts.open(Principal::Owner).is_err());
        let other = counts.open(Principal::Key("ada".into())).unwrap();
        open.pop();
        open.push(counts.open(Principal::Owner).unwrap());
        drop((open, other));
        assert!(counts.0.lock().unwrap().is_empty());
    }
}
