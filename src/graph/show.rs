//! From what is stored to what is shown: whoever changes the one or makes the other holds the lock, so that nothing is
//! missed and no older snapshot is shown over a newer one.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, MutexGuard, PoisonError};

use crate::catalog::{GraphStore, Replaced};
use crate::error::Result;
use crate::graph::build::Builder;
use crate::graph::{IMPORT, Shared, Snapshot};
use crate::index::blocking;
use crate::model::{GraphPart, GraphSource};

/// Edges that wait to be shown at most, beside an eighth of those that are: what waits is held as it was read.
const MOST_WAITING: usize = 50_000;

/// In the graph's table of settings: the last purge of the index that was followed.
const PURGE: &str = "purge";

/// What was stored since the snapshot was made, by the number of the source.
#[derive(Default)]
pub(super) struct Waiting {
    sources: BTreeMap<i64, Said>,
    entities: HashMap<String, u32>,
    edges: usize,
}

/// What a source says now.
enum Said {
    /// Nothing any more.
    Nothing,
    /// This.
    This(GraphSource, GraphPart),
    /// What is stored: read again when it is needed, because all parts of a large import at once take more than their
    /// snapshot.
    Stored,
}

impl Waiting {
    /// Notes what was stored; `parts` are what the sources say, or none where they are to be read again.
    fn note(&mut self, replaced: Replaced, parts: Vec<(GraphSource, GraphPart)>) {
        self.edges += parts.iter().map(|(_, part)| part.edges.len()).sum::<usize>();
        self.entities.extend(replaced.entities);
        self.sources.extend(replaced.dropped.into_iter().map(|number| (number, Said::Nothing)));
        let said = parts.into_iter().map(|(source, part)| Said::This(source, part));
        self.sources.extend(replaced.stored.into_iter().zip(said.chain(std::iter::repeat_with(|| Said::Stored))));
    }

    /// The snapshot after this one.
    fn woven_into(self, snapshot: Arc<Snapshot>, store: &GraphStore) -> Result<Snapshot> {
        let mut builder = Builder::on(snapshot);
        let id = |key: &str| self.entities.get(key).copied();
        for (number, said) in self.sources {
            let said = match said {
                Said::Nothing => None,
                Said::This(source, part) => Some((source, part)),
                Said::Stored => store.source(number)?,
            };
            match said {
                Some((source, part)) => builder.add(number, &source, part, id)?,
                None => builder.leave_out(number),
            }
        }
        Ok(builder.build())
    }
}

/// What came of an import.
pub(super) struct Taken {
    /// Whether there was one of that name.
    pub(super) replaced: bool,
    pub(super) nodes: usize,
    pub(super) edges: usize,
}

/// The right to change what is stored and what is shown.
pub(super) struct Turn<'a> {
    shared: &'a Shared,
    /// None when the snapshot has to be made from all that is stored.
    waiting: MutexGuard<'a, Option<Waiting>>,
}

impl Shared {
    /// The snapshot that answers now.
    pub(super) fn current(&self) -> Arc<Snapshot> {
        self.snapshot.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Makes the first snapshot, once.
    pub(super) async fn load(self: &Arc<Shared>) -> Result<()> {
        self.loaded.get_or_try_init(|| self.publish()).await.map(|_| ())
    }

    /// Shows what is stored.
    pub(super) async fn publish(self: &Arc<Shared>) -> Result<()> {
        self.in_turn(|mut turn| turn.show()).await
    }

    /// Does something that nobody else may do meanwhile. It is done to its end, even when nobody waits for it any more.
    pub(super) async fn in_turn<T: Send + 'static>(
        self: &Arc<Shared>,
        work: impl FnOnce(Turn<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let shared = self.clone();
        blocking(move || {
            let waiting = shared.waiting.lock().unwrap_or_else(|poisoned| {
                // Whoever panicked may have stored something.
                shared.waiting.clear_poison();
                let mut waiting = poisoned.into_inner();
                *waiting = None;
                waiting
            });
            work(Turn { shared: &shared, waiting })
        })
        .await
    }
}

impl Turn<'_> {
    /// Changes what is stored, to be shown later.
    pub(super) fn store(&mut self, dropped: &[String], parts: Vec<(GraphSource, GraphPart)>) -> Result<()> {
        let replaced = self.shared.store.replace(dropped, &parts)?;
        let Some(waiting) = self.waiting.as_mut() else { return Ok(()) };
        waiting.note(replaced, parts);
        match waiting.edges > MOST_WAITING + self.shared.current().edges() / 8 {
            true => self.show(),
            false => Ok(()),
        }
    }

    /// Replaces what was stored of an import by the parts that `fill` hands over, and shows it.
    pub(super) fn import(
        &mut self,
        name: &str,
        fill: impl FnOnce(&mut dyn FnMut(GraphPart) -> Result<()>) -> Result<()>,
    ) -> Result<Taken> {
        let dropped = self.parts_of(name)?;
        let (mut nodes, mut edges) = (0, 0);
        let replaced = self.shared.store.replace_with(&dropped, |put| {
            let mut number = 0;
            fill(&mut |part| {
                (nodes, edges) = (nodes + part.nodes.len(), edges + part.edges.len());
                put(&part_of(name, number), &part)?;
                number += 1;
                Ok(())
            })
        })?;
        if let Some(waiting) = self.waiting.as_mut() {
            waiting.note(replaced, Vec::new());
        }
        self.show()?;
        Ok(Taken { replaced: !dropped.is_empty(), nodes, edges })
    }

    /// Drops what was stored of an import, and shows it. Returns whether there was anything.
    pub(super) fn forget(&mut self, name: &str) -> Result<bool> {
        let dropped = self.parts_of(name)?;
        self.store(&dropped, Vec::new())?;
        self.show()?;
        Ok(!dropped.is_empty())
    }

    /// Adds to what is stored of an import, and shows it.
    pub(super) fn add(&mut self, name: &str, part: GraphPart) -> Result<()> {
        let number = self.parts_of(name)?.len();
        self.store(&[], vec![(part_of(name, number), part)])?;
        self.show()
    }

    /// The snapshot that answers now.
    pub(super) fn current(&self) -> Arc<Snapshot> {
        self.shared.current()
    }

    /// Names of the stored parts of an import.
    fn parts_of(&self, name: &str) -> Result<Vec<String>> {
        let prefix = format!("{IMPORT}{name}#");
        let names = self.shared.store.sources()?.into_iter().map(|it| it.name);
        Ok(names.filter(|it| it.starts_with(&prefix)).collect())
    }

    /// Shows what is stored.
    pub(super) fn show(&mut self) -> Result<()> {
        // What goes wrong from here on leaves nothing waiting, and the next one is made from all that is stored.
        let woven = match self.waiting.take() {
            Some(waiting) if waiting.sources.is_empty() => {
                *self.waiting = Some(waiting);
                return Ok(());
            }
            Some(waiting) => waiting.woven_into(self.current(), &self.shared.store).ok().filter(|it| !it.is_worn()),
            None => None,
        };
        let snapshot = match woven {
            Some(snapshot) => snapshot,
            None => self.built()?,
        };
        *self.shared.snapshot.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(snapshot);
        *self.waiting = Some(Waiting::default());
        Ok(())
    }

    /// Forgets the names that nothing states any more, once for each purge of the index; then they are not on the disk
    /// either.
    pub(super) fn follow_purge(&mut self, purge: &str) -> Result<()> {
        if self.shared.store.meta_get(PURGE)?.as_deref() == Some(purge) {
            return Ok(());
        }
        self.show()?;
        let stated: HashSet<u32> = self.current().ids.iter().copied().collect();
        let store = &self.shared.store;
        store.forget(&stated)?;
        store.flush()?;
        store.meta_set(PURGE, purge)
    }

    /// A snapshot of all that is stored.
    fn built(&self) -> Result<Snapshot> {
        let store = &self.shared.store;
        let entities = store.numbers()?;
        let mut builder = Builder::default();
        store.each(|number, source, part| builder.add(number, &source, part, |key| entities.get(key).copied()))?;
        let snapshot = builder.build();
        // Some that nobody states any more are cheaper than a look for them each time.
        if entities.len() > snapshot.nodes() + snapshot.nodes() / 4 + 1_000 {
            let stated: HashSet<u32> = snapshot.ids.iter().copied().collect();
            store.forget(&stated)?;
        }
        Ok(snapshot)
    }
}

/// The source of a part of an import.
fn part_of(name: &str, number: usize) -> GraphSource {
    GraphSource { name: format!("{IMPORT}{name}#{number}"), ..GraphSource::default() }
}
