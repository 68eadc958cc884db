//! Changes that are stored but not yet part of the published snapshot, and the next snapshot made from them.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::catalog::{GraphStore, Replacement};
use crate::error::Result;
use crate::graph::snapshot::Snapshot;
use crate::graph::snapshot::builder::Builder;
use crate::model::{GraphPart, GraphSource};

/// Changes stored since the last snapshot was made, by source number.
#[derive(Default)]
pub(super) struct PendingChanges {
    sources: BTreeMap<i64, SourceState>,
    entities: HashMap<String, u32>,
    pub(super) edges: usize,
}

/// The current state of a source that has changed since the last snapshot.
enum SourceState {
    /// The source was deleted.
    Deleted,
    /// The source has this content, kept in memory.
    Content(GraphSource, GraphPart),
    /// The content of the source is in the store and is read when the snapshot is made. Used for imports, because all parts
    /// of a large import at once take more memory than their snapshot.
    Stored,
}

impl PendingChanges {
    /// Records a change that has been stored. `parts` has the new content of the changed sources; if it is empty, the
    /// content is read from the store later.
    pub(super) fn record(&mut self, replaced: Replacement, parts: Vec<(GraphSource, GraphPart)>) {
        self.edges += parts.iter().map(|(_, part)| part.edges.len()).sum::<usize>();
        self.entities.extend(replaced.entities);
        self.sources.extend(replaced.dropped.into_iter().map(|number| (number, SourceState::Deleted)));
        let said = parts.into_iter().map(|(source, part)| SourceState::Content(source, part));
        self.sources
            .extend(replaced.stored.into_iter().zip(said.chain(std::iter::repeat_with(|| SourceState::Stored))));
    }

    /// Returns whether no source has changed.
    pub(super) fn is_empty(&self) -> bool {
        self.sources.is_empty()
    }

    /// Builds the next snapshot from `snapshot` and these changes.
    pub(super) fn apply_to(self, snapshot: Arc<Snapshot>, store: &GraphStore) -> Result<Snapshot> {
        let mut builder = Builder::extending(snapshot);
        let id = |key: &str| self.entities.get(key).copied();
        for (number, said) in self.sources {
            let said = match said {
                SourceState::Deleted => None,
                SourceState::Content(source, part) => Some((source, part)),
                SourceState::Stored => store.source(number)?,
            };
            match said {
                Some((source, part)) => builder.add_source(number, &source, part, id)?,
                None => builder.drop_source(number),
            }
        }
        Ok(builder.build())
    }
}
