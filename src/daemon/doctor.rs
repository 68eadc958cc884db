//! Looks at everything that lies in the data directory, and sets right what it may: for the time when no daemon runs, or
//! none can. Beside a running daemon it only looks.
//!
//! Nothing is deleted but what vic itself left half done; what is damaged is renamed.

mod roots;

use std::collections::HashSet;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::catalog::{
    self, AuditLog, Catalog, CorpusBook, EvidenceCache, GraphStore, Jobs, RequeueScope, TranscriptLog, VectorCache,
};
use crate::config::{Config, EmbedBackend};
use crate::data_dir::{directory, keys, lock};
use crate::embed::models::ModelStore;
use crate::error::{Error, ErrorCode, IoContext, Result};
use crate::index::{Space, is_building, serving_table};
use crate::model::{Check, DoctorReport, FileId, Health};
use crate::store::{Inspection, LanceStore, Store};

/// Begins of the names of what a start that was killed may leave.
const HALF_DONE: [&str; 2] = [".vic-probe", ".tmp"];

/// A daemon marks a file well within this time after it has stored it.
const BETWEEN_LOOKS: Duration = Duration::from_secs(2);

/// Looks at everything; with `fix` also mends.
///
/// # Errors
/// `fix` is asked for while a daemon runs; the directory is none of vic's, or of a newer one.
pub async fn doctor(config: &Config, fix: bool) -> Result<DoctorReport> {
    directory::check(config)?;
    let mut doctor = Doctor { config, fix, is_alone: false, checks: Vec::new() };
    if !config.data_dir.exists() {
        doctor.say("data directory", Ok("not there yet; the first `vic index` makes it".into()));
    } else {
        let mut lock = match lock::take(config) {
            Ok(lock) => Some(lock),
            Err(error) if error.code == ErrorCode::Locked && !fix => None,
            Err(error) if error.code == ErrorCode::Locked => {
                return Err(error.hint("`vic doctor --fix` works alone: `vic daemon stop` ends that daemon"));
            }
            Err(error) => return Err(error),
        };
        match lock.as_mut().map(|it| it.hold_index(&config.db_path)) {
            Some(Err(error)) if fix => return Err(error),
            Some(Err(error)) => doctor.say("index", Err(error)),
            Some(Ok(())) | None => doctor.is_alone = lock.is_some(),
        }
        doctor.look().await;
    }
    Ok(DoctorReport { data_dir: config.data_dir.display().to_string(), checks: doctor.checks })
}

/// Files of which the store has not what the catalog says, and files of which it has something and should not.
#[derive(Debug, Default, PartialEq)]
struct Astray {
    lost: Vec<FileId>,
    orphans: Vec<FileId>,
}

impl Astray {
    fn of(catalog: &Catalog, found: &Inspection) -> Result<Astray> {
        let lost = catalog.lost_ids(&found.rows, &found.damaged)?;
        Ok(Astray { lost, orphans: catalog.orphan_ids(&found.rows)? })
    }

    /// Those that are astray in a later look, too.
    fn still(mut self, later: &Astray) -> Astray {
        let [lost, orphans] = [&later.lost, &later.orphans].map(|it| it.iter().collect::<HashSet<_>>());
        self.lost.retain(|it| lost.contains(it));
        self.orphans.retain(|it| orphans.contains(it));
        self
    }
}

/// Whether the daemon that holds the directory is somebody else's matter: its own process takes care of it.
struct Doctor<'a> {
    config: &'a Config,
    fix: bool,
    /// Whether no daemon runs.
    is_alone: bool,
    checks: Vec<Check>,
}

impl Doctor<'_> {
    async fn look(&mut self) {
        let running = if self.is_alone { "no daemon runs" } else { "a daemon runs: this only looks" };
        self.say("daemon", Ok(running.into()));
        self.say("format", Ok(format!("format {}, vic {}", directory::FORMAT, env!("CARGO_PKG_VERSION"))));
        let outcome = self.space();
        self.say("disk", outcome);
        self.permissions();
        self.databases();
        let outcome = self.keys();
        self.say("keys", outcome);
        self.models();
        self.index().await;
        self.leftovers();
    }

    fn space(&self) -> Result<String> {
        let places: Vec<PathBuf> =
            [&self.config.data_dir, &self.config.db_path].into_iter().filter(|it| it.exists()).cloned().collect();
        Space::new(places, self.config.disk_reserve_bytes).check()?;
        Ok("there is room to index".into())
    }

    /// What vic writes is for its owner alone.
    fn permissions(&mut self) {
        let owner = rustix::process::geteuid().as_raw();
        let entries = walkdir::WalkDir::new(&self.config.data_dir).max_depth(2).into_iter();
        let (mut open, mut foreign, mut unreadable) = (Vec::new(), Vec::new(), Vec::new());
        for entry in entries {
            match entry.map(|it| (it.depth(), it.path().to_path_buf(), it.metadata())) {
                Ok((_, path, Ok(metadata))) if metadata.uid() != owner => foreign.push(path),
                // Whoever may not enter the uppermost folder gets into none below it.
                Ok((depth, path, Ok(metadata))) if metadata.is_file() || (metadata.is_dir() && depth == 0) => {
                    if metadata.mode() & 0o077 != 0 {
                        open.push((path, metadata.mode() & 0o700));
                    }
                }
                Ok((_, _, Ok(_))) => (),
                Ok((_, path, Err(_))) => unreadable.push(path),
                Err(error) => unreadable.extend(error.path().map(Path::to_path_buf)),
            }
        }
        // Models are for everybody who may enter the directory.
        open.retain(|it| !self.config.model_dirs.iter().any(|dir| it.0.starts_with(dir)));
        if let Some(first) = unreadable.first().or(foreign.first()) {
            let error = Error::new(ErrorCode::PermissionDenied, format!("`{}` is not ours to use", first.display()));
            let cure = format!("make it yours: `sudo chown -R $USER {}`", self.config.data_dir.display());
            return self.say("permissions", Err(error.hint(cure)));
        }
        let Some((first, _)) = open.first() else { return self.say("permissions", Ok("for the owner alone".into())) };
        let message = format!("others may use `{}` and {} more", first.display(), open.len() - 1);
        let problem = Error::new(ErrorCode::PermissionDenied, message).hint("vic doctor --fix");
        self.mend("permissions", problem, || {
            let close = |(path, mode): &(PathBuf, u32)| {
                std::fs::set_permissions(path, std::fs::Permissions::from_mode(*mode)).at("protect", path)
            };
            open.iter().try_for_each(close)?;
            Ok(format!("{} are for the owner alone now", open.len()))
        });
    }

    /// Every database is whole. A damaged one is put aside by whoever opens it.
    fn databases(&mut self) {
        let config = self.config;
        type Open = fn(&Path) -> Result<()>;
        let databases: [(&str, PathBuf, Open); 8] = [
            ("catalog", config.catalog_path(), |it| Catalog::open_or_rescue(it).map(drop)),
            ("jobs", config.job_db_path.clone(), |it| Jobs::open(it).map(drop)),
            ("audit log", config.audit_path(), |it| AuditLog::open(it).map(drop)),
            ("vectors", config.vector_cache_path(), |it| VectorCache::open(it, u64::MAX).map(drop)),
            ("evidence", config.evidence_path(), |it| EvidenceCache::open(it, u64::MAX).map(drop)),
            ("views and results", config.corpus_path(), |it| CorpusBook::open(it).map(drop)),
            ("graph", config.graph_path(), |it| GraphStore::open(it).map(drop)),
            ("log of agents", config.transcripts_path(), |it| TranscriptLog::open(it).map(drop)),
        ];
        for (name, path, open) in databases {
            match catalog::check_database(&path) {
                Ok(()) => self.say(name, Ok(if path.exists() { "whole" } else { "not there yet" }.into())),
                Err(problem) if problem.code == ErrorCode::DataLoss => {
                    self.mend(name, problem, || {
                        open(&path)?;
                        // Opening sees damage to the begin of a file alone.
                        if catalog::check_database(&path).is_err_and(|it| it.code == ErrorCode::DataLoss) {
                            catalog::put_database_aside(&path)?;
                            open(&path)?;
                        }
                        Ok(format!("begun anew; the damaged one is kept beside `{}`", path.display()))
                    });
                }
                Err(problem) => self.say(name, Err(problem)),
            }
        }
    }

    /// The keys can be understood: else none of them opens anything. Only who made them can mend that.
    fn keys(&self) -> Result<String> {
        if self.config.key_path().exists() {
            keys::read_own(&self.config.key_path())?;
        }
        Ok(match keys::list(self.config)?.len() {
            0 => "none but the owner's".into(),
            more => format!("the owner's and {more} more"),
        })
    }

    /// The files of the models in use have the right checksums.
    fn models(&mut self) {
        let models = ModelStore::new(self.config.model_dirs.clone());
        let mut names = vec!["pdfium", "ppocr"];
        if self.config.embed.backend == EmbedBackend::Onnx {
            names.extend([self.config.embed.device.library(), &self.config.embed.model]);
        }
        for name in names {
            let outcome = models.verify(name).map(|()| "its checksums are right".to_string());
            self.say(&format!("model {name}"), outcome.map_err(|it| it.hint(format!("vic models pull {name}"))));
        }
    }

    /// The store is whole, agrees with the catalog, and the catalog with the roots.
    async fn index(&mut self) {
        let path = self.config.catalog_path();
        let is_there = path.metadata().is_ok_and(|it| it.len() > 0);
        let opened = match (is_there, self.fix) {
            (false, _) => Ok(None),
            (true, true) => Catalog::open(&path).map(Some),
            (true, false) => Catalog::open_to_look(&path).map(Some),
        };
        let is_empty = match &opened {
            Ok(Some(catalog)) => catalog.roots().is_ok_and(|it| it.is_empty()),
            Ok(None) => true,
            Err(_) => false,
        };
        let listed = catalog::listed_roots(&path);
        if is_empty && listed > 0 {
            let message =
                format!("the catalog `{}` is gone or empty, and {listed} roots had been indexed", path.display());
            let cure = "start the daemon: it takes them in again and reads their files";
            return self.say("index", Err(Error::new(ErrorCode::DataLoss, message).hint(cure)));
        }
        let catalog = match opened {
            Ok(Some(catalog)) => catalog,
            Ok(None) => return self.say("index", Ok("not there yet".into())),
            Err(error) => return self.say("index", Err(error)),
        };
        self.roots(&catalog);
        match serving_table(&catalog) {
            Ok(Some((fingerprint, dimension))) => self.store(&catalog, &fingerprint, dimension).await,
            Ok(None) => self.say("index", Ok("not there yet".into())),
            Err(error) => self.say("index", Err(error)),
        }
    }

    async fn store(&mut self, catalog: &Catalog, fingerprint: &str, dimension: usize) {
        let dir = &self.config.db_path;
        let inspected = match LanceStore::inspect(dir, fingerprint, dimension).await {
            Err(problem) if problem.code == ErrorCode::DataLoss && self.fix => {
                // Opening mends: it goes back to what is whole, or begins anew.
                match LanceStore::open(dir, fingerprint, dimension).await {
                    Ok(_) => {
                        let kept = "set right; what could not be read is kept beside it";
                        self.push("index", Health::Fixed, format!("{}: {kept}", problem.message), None);
                        LanceStore::inspect(dir, fingerprint, dimension).await
                    }
                    Err(error) => Err(error),
                }
            }
            Err(problem) if problem.code == ErrorCode::DataLoss => Err(problem.hint("vic doctor --fix")),
            other => other,
        };
        match inspected {
            Ok(found) => {
                let found = found.unwrap_or_default();
                let (chunks, versions) = (found.rows.values().sum::<u64>(), found.versions);
                let unsynced = match found.unsynced {
                    0 => String::new(),
                    some => format!(", {some} of them of a commit that did not end"),
                };
                self.say("index", Ok(format!("{chunks} chunks can be read, {versions} versions{unsynced}")));
                self.agreement(catalog, fingerprint, dimension, &found).await;
            }
            Err(error) => self.say("index", Err(error)),
        }
    }

    /// The store has what the catalog says. A daemon that starts sees to this, too.
    async fn agreement(&mut self, catalog: &Catalog, fingerprint: &str, dimension: usize, found: &Inspection) {
        match is_building(catalog) {
            Ok(false) => (),
            // Each would be held against what is true of the other, and to mend that would undo the work so far.
            Ok(true) => {
                let finding =
                    "not compared: another model's index is being built, and this one answers until it is whole";
                return self.say("index and catalog", Ok(finding.into()));
            }
            Err(error) => return self.say("index and catalog", Err(error)),
        }
        let Astray { lost, orphans } = match self.astray(catalog, fingerprint, dimension, found).await {
            Ok(none) if none == Astray::default() => {
                return self.say("index and catalog", Ok(format!("agree on {} files", found.rows.len())));
            }
            Ok(astray) => astray,
            Err(error) => return self.say("index and catalog", Err(error)),
        };
        let message = format!(
            "{} files have not the chunks or the vectors that they should have, {} have some and should not",
            lost.len(),
            orphans.len()
        );
        if !self.fix {
            let problem = Error::new(ErrorCode::DataLoss, message).hint("vic doctor --fix");
            return self.say("index and catalog", Err(problem));
        }
        let mend = async {
            catalog.requeue(&RequeueScope::Ids(lost))?;
            let store = LanceStore::open(&self.config.db_path, fingerprint, dimension).await?;
            if store.has_lost() {
                catalog.requeue(&RequeueScope::All)?;
                store.accept_loss().await?;
            }
            store.delete(&orphans).await
        };
        match mend.await {
            Ok(()) => {
                let finding = format!("{message}: the former are read again with the next start");
                self.push("index and catalog", Health::Fixed, finding, None);
            }
            Err(error) => self.say("index and catalog", Err(error)),
        }
    }

    /// What does not agree. Beside a daemon, which may store a file between a look at the one and a look at the other, that is
    /// what does not twice.
    async fn astray(
        &self,
        catalog: &Catalog,
        fingerprint: &str,
        dimension: usize,
        found: &Inspection,
    ) -> Result<Astray> {
        let astray = Astray::of(catalog, found)?;
        if self.is_alone || astray == Astray::default() {
            return Ok(astray);
        }
        tokio::time::sleep(BETWEEN_LOOKS).await;
        let found = LanceStore::inspect(&self.config.db_path, fingerprint, dimension).await?.unwrap_or_default();
        Ok(astray.still(&Astray::of(catalog, &found)?))
    }

    fn roots(&mut self, catalog: &Catalog) {
        match roots::look(catalog) {
            Ok(findings) => findings.into_iter().for_each(|it| self.say("roots", it)),
            Err(error) => self.say("roots", Err(error)),
        }
    }

    /// What vic left half done may go; what it put aside is the user's to delete.
    fn leftovers(&mut self) {
        let entries = walkdir::WalkDir::new(&self.config.data_dir).max_depth(4).into_iter().flatten();
        let (mut half_done, mut kept) = (Vec::new(), Vec::new());
        for entry in entries {
            let name = entry.file_name().to_string_lossy().into_owned();
            let is_top = entry.depth() == 1;
            if name.contains(".unsynced") || (is_top && HALF_DONE.iter().any(|it| name.starts_with(it))) {
                half_done.push(entry.into_path());
            } else if name.contains(".damaged") || name.contains(".corrupt") {
                kept.push(entry.into_path());
            }
        }
        if let Some(first) = kept.first() {
            let finding = format!("{} and {} more were damaged once and are kept", first.display(), kept.len() - 1);
            self.say("put aside", Ok(finding));
        }
        if half_done.is_empty() || !self.is_alone {
            return self.say("leftovers", Ok("none".into()));
        }
        let left = half_done.len();
        if !self.fix {
            return self.say(
                "leftovers",
                Ok(format!("{left} files of work that did not end; `vic doctor --fix` removes them")),
            );
        }
        let removed = half_done.iter().try_for_each(|it| std::fs::remove_file(it).at("remove", it));
        match removed {
            Ok(()) => {
                self.push("leftovers", Health::Fixed, format!("removed {left} files of work that did not end"), None);
            }
            Err(error) => self.say("leftovers", Err(error)),
        }
    }

    fn say(&mut self, name: &str, outcome: Result<String>) {
        match outcome {
            Ok(finding) => self.push(name, Health::Ok, finding, None),
            Err(error) => self.push(name, Health::Problem, error.message, error.hint),
        }
    }

    /// A problem, or what became of it.
    fn mend(&mut self, name: &str, problem: Error, mend: impl FnOnce() -> Result<String>) {
        if !self.fix {
            return self.say(name, Err(problem));
        }
        match mend() {
            Ok(done) => self.push(name, Health::Fixed, format!("{}: {done}", problem.message), None),
            Err(error) => self.say(name, Err(error)),
        }
    }

    fn push(&mut self, name: &str, health: Health, finding: String, cure: Option<String>) {
        self.checks.push(Check { name: name.into(), health, finding, cure });
    }
}

#[cfg(test)]
mod tests;
