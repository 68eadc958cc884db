//! `vic doctor`: checks everything in the data directory, and repairs it if `fix` is set. Repairs need the data lock;
//! while a daemon runs, `doctor` only reads.
//!
//! Deletes only unfinished files of vic itself; damaged files are renamed and kept.

mod roots;

use std::collections::HashSet;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::catalog::{
    self, AuditLog, Catalog, CorpusStore, EvidenceCache, GraphStore, JobLog, RequeueScope, SearchLog, TranscriptLog,
    VectorCache,
};
use crate::config::{Config, EmbedBackend};
use crate::data_dir::{directory, keys, lock};
use crate::embed::models::ModelStore;
use crate::error::{Error, ErrorCode, IoContext, Result};
use crate::index::{DiskSpace, is_building, serving_table};
use crate::model::{Check, DoctorReport, FileId, Health};
use crate::store::{self, Backend, Inspection};

/// Prefixes of the names of temporary files that remain if the daemon is killed while starting.
const UNFINISHED_PREFIXES: [&str; 2] = [".vic-probe", ".tmp"];

/// Delay before the second comparison while a daemon runs. Within this time the daemon marks a stored file as indexed in the
/// catalog.
const RECHECK_DELAY: Duration = Duration::from_secs(2);

/// Checks the data directory and everything in it, and repairs problems if `fix` is set.
///
/// # Errors
/// `fix` is set while a daemon runs; the directory does not belong to vic, or has a newer format.
pub async fn doctor(config: &Config, fix: bool) -> Result<DoctorReport> {
    directory::check_directory(config)?;
    let mut doctor = Doctor { config, fix, has_lock: false, checks: Vec::new() };
    if !config.data_dir.exists() {
        doctor.record_outcome("data directory", Ok("missing; the first `vic index` creates it".into()));
    } else {
        let mut lock = match lock::acquire(config) {
            Ok(lock) => Some(lock),
            Err(error) if error.code == ErrorCode::Locked && !fix => None,
            Err(error) if error.code == ErrorCode::Locked => {
                return Err(error.hint("`vic doctor --fix` needs exclusive access: run `vic daemon stop` first"));
            }
            Err(error) => return Err(error),
        };
        match lock.as_mut().map(|it| it.lock_index_folder(&config.db_path)) {
            Some(Err(error)) if fix => return Err(error),
            Some(Err(error)) => doctor.record_outcome("index", Err(error)),
            Some(Ok(())) | None => doctor.has_lock = lock.is_some(),
        }
        doctor.run_checks().await;
    }
    Ok(DoctorReport { data_dir: config.data_dir.display().to_string(), checks: doctor.checks })
}

/// Differences between catalog and store: `lost` files have chunks in the catalog that the store lacks; `orphans` have
/// chunks in the store but should have none.
#[derive(Debug, Default, PartialEq)]
struct Disagreement {
    lost: Vec<FileId>,
    orphans: Vec<FileId>,
}

impl Disagreement {
    fn compare(catalog: &Catalog, found: &Inspection) -> Result<Disagreement> {
        let lost = catalog.files_with_wrong_chunks(&found.rows, &found.damaged)?;
        Ok(Disagreement { lost, orphans: catalog.orphaned_files(&found.rows)? })
    }

    /// Keeps only the files that `later`, a second comparison, reports too.
    fn confirmed_by(mut self, later: &Disagreement) -> Disagreement {
        let [lost, orphans] = [&later.lost, &later.orphans].map(|it| it.iter().collect::<HashSet<_>>());
        self.lost.retain(|it| lost.contains(it));
        self.orphans.retain(|it| orphans.contains(it));
        self
    }
}

/// Runs the checks of a data directory and collects their results.
struct Doctor<'a> {
    config: &'a Config,
    fix: bool,
    /// Whether this process holds the data lock, i.e. no daemon runs.
    has_lock: bool,
    checks: Vec<Check>,
}

impl Doctor<'_> {
    async fn run_checks(&mut self) {
        let running = if self.has_lock { "no daemon runs" } else { "a daemon runs: read-only check" };
        self.record_outcome("daemon", Ok(running.into()));
        self.record_outcome("format", Ok(format!("format {}, vic {}", directory::FORMAT, env!("CARGO_PKG_VERSION"))));
        let outcome = self.check_disk_space();
        self.record_outcome("disk", outcome);
        self.check_permissions();
        self.check_databases();
        let outcome = self.check_keys();
        self.record_outcome("keys", outcome);
        self.check_models();
        self.check_index().await;
        self.check_leftovers();
    }

    fn check_disk_space(&self) -> Result<String> {
        let places: Vec<PathBuf> =
            [&self.config.data_dir, &self.config.db_path].into_iter().filter(|it| it.exists()).cloned().collect();
        DiskSpace::new(places, self.config.disk_reserve_bytes).check()?;
        Ok("enough free space to index".into())
    }

    /// Checks that vic's files are accessible only to their owner.
    fn check_permissions(&mut self) {
        let owner = rustix::process::geteuid().as_raw();
        let entries = walkdir::WalkDir::new(&self.config.data_dir).max_depth(2).into_iter();
        let (mut open, mut foreign, mut unreadable) = (Vec::new(), Vec::new(), Vec::new());
        for entry in entries {
            match entry.map(|it| (it.depth(), it.path().to_path_buf(), it.metadata())) {
                Ok((_, path, Ok(metadata))) if metadata.uid() != owner => foreign.push(path),
                // Subfolders are not checked, because other users cannot reach them without access to the topmost folder.
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
        // Ignores model files, because all users who may enter the model directory may use the models.
        open.retain(|it| !self.config.model_dirs.iter().any(|dir| it.0.starts_with(dir)));
        if let Some(first) = unreadable.first().or(foreign.first()) {
            let error = Error::new(
                ErrorCode::PermissionDenied,
                format!("`{}` belongs to another user or cannot be read", first.display()),
            );
            let cure = format!("take ownership: `sudo chown -R $USER {}`", self.config.data_dir.display());
            return self.record_outcome("permissions", Err(error.hint(cure)));
        }
        let Some((first, _)) = open.first() else {
            return self.record_outcome("permissions", Ok("owner access only".into()));
        };
        let message = format!("other users may access `{}` and {} more files", first.display(), open.len() - 1);
        let problem = Error::new(ErrorCode::PermissionDenied, message).hint("vic doctor --fix");
        self.record_repair("permissions", problem, || restrict_to_owner(&open));
    }

    /// Checks the integrity of each database. With `fix`, a damaged one is moved aside and recreated.
    fn check_databases(&mut self) {
        let config = self.config;
        type Open = fn(&Path) -> Result<()>;
        let databases: [(&str, PathBuf, Open); 9] = [
            ("catalog", config.catalog_path(), |it| Catalog::open_or_recover(it).map(drop)),
            ("jobs", config.job_db_path.clone(), |it| JobLog::open(it).map(drop)),
            ("audit log", config.audit_path(), |it| AuditLog::open(it).map(drop)),
            ("list of searches", config.searches_path(), |it| SearchLog::open(it).map(drop)),
            ("vectors", config.vector_cache_path(), |it| VectorCache::open(it, u64::MAX).map(drop)),
            ("evidence", config.evidence_path(), |it| EvidenceCache::open(it, u64::MAX).map(drop)),
            ("views and results", config.corpus_path(), |it| CorpusStore::open(it).map(drop)),
            ("graph", config.graph_path(), |it| GraphStore::open(it).map(drop)),
            ("log of agents", config.transcripts_path(), |it| TranscriptLog::open(it).map(drop)),
        ];
        for (name, path, open) in databases {
            match catalog::check_database(&path) {
                Ok(()) => self.record_outcome(name, Ok(if path.exists() { "intact" } else { "not created" }.into())),
                Err(problem) if problem.code == ErrorCode::DataLoss => {
                    self.record_repair(name, problem, || {
                        open(&path)?;
                        // Checks the whole file, because opening the database detects only damage at its beginning.
                        if catalog::check_database(&path).is_err_and(|it| it.code == ErrorCode::DataLoss) {
                            catalog::quarantine_database(&path)?;
                            open(&path)?;
                        }
                        Ok(format!("recreated; the damaged one is kept beside `{}`", path.display()))
                    });
                }
                Err(problem) => self.record_outcome(name, Err(problem)),
            }
        }
    }

    /// Checks that the key table can be parsed; if it cannot, no key grants access. `fix` does not repair the table: the
    /// user who wrote it must do that.
    fn check_keys(&self) -> Result<String> {
        if self.config.key_path().exists() {
            keys::read_owner_key(&self.config.key_path())?;
        }
        Ok(match keys::list(self.config)?.len() {
            0 => "only the owner's key".into(),
            more => format!("the owner's key and {more} more"),
        })
    }

    /// Verifies the checksums of the models that the configuration uses.
    fn check_models(&mut self) {
        let models = ModelStore::new(self.config.model_dirs.clone());
        let mut names = vec!["pdfium", "ppocr"];
        if self.config.embed.backend == EmbedBackend::Onnx {
            names.extend([self.config.embed.device.runtime_library(), &self.config.embed.model]);
        }
        for name in names {
            let outcome = models.verify(name).map(|()| "checksums match".to_string());
            self.record_outcome(
                &format!("model {name}"),
                outcome.map_err(|it| it.hint(format!("vic models pull {name}"))),
            );
        }
    }

    /// Checks the store itself, compares the store with the catalog, and the catalog with the files of the roots.
    async fn check_index(&mut self) {
        let path = self.config.catalog_path();
        let is_there = path.metadata().is_ok_and(|it| it.len() > 0);
        let opened = match (is_there, self.fix) {
            (false, _) => Ok(None),
            (true, true) => Catalog::open(&path).map(Some),
            (true, false) => Catalog::open_read_only(&path).map(Some),
        };
        let is_empty = match &opened {
            Ok(Some(catalog)) => catalog.roots().is_ok_and(|it| it.is_empty()),
            Ok(None) => true,
            Err(_) => false,
        };
        let listed = catalog::listed_root_count(&path);
        if is_empty && listed > 0 {
            let message =
                format!("the catalog `{}` is gone or empty, and {listed} roots had been indexed", path.display());
            let cure = "start the daemon: it adds these roots again and reads their files";
            return self.record_outcome("index", Err(Error::new(ErrorCode::DataLoss, message).hint(cure)));
        }
        let catalog = match opened {
            Ok(Some(catalog)) => catalog,
            Ok(None) => return self.record_outcome("index", Ok("not created".into())),
            Err(error) => return self.record_outcome("index", Err(error)),
        };
        self.check_roots(&catalog);
        match serving_table(&catalog) {
            Ok(Some((fingerprint, dimension))) => self.check_store(&catalog, &fingerprint, dimension).await,
            Ok(None) => self.record_outcome("index", Ok("not created".into())),
            Err(error) => self.record_outcome("index", Err(error)),
        }
    }

    async fn check_store(&mut self, catalog: &Catalog, fingerprint: &str, dimension: usize) {
        let backend = match store::inspect_backend(self.config, !self.has_lock).await {
            Ok(backend) => backend,
            Err(error) => return self.record_outcome("index", Err(error)),
        };
        let inspected = match backend.inspect(fingerprint, dimension).await {
            Err(problem) if problem.code == ErrorCode::DataLoss && self.fix => {
                // Opening the store repairs it: the store reverts to an intact version or creates a new table.
                match backend.open(fingerprint, dimension).await {
                    Ok(_) => {
                        let kept = "repaired; the unreadable part is kept beside it";
                        self.record("index", Health::Fixed, format!("{}: {kept}", problem.message), None);
                        backend.inspect(fingerprint, dimension).await
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
                    some => format!(", {some} of them from an unfinished commit"),
                };
                self.record_outcome("index", Ok(format!("{chunks} chunks can be read, {versions} versions{unsynced}")));
                self.check_agreement(catalog, &*backend, (fingerprint, dimension), &found).await;
            }
            Err(error) => self.record_outcome("index", Err(error)),
        }
    }

    /// Compares the chunks in the store with those that the catalog lists, as a starting daemon does.
    async fn check_agreement(
        &mut self,
        catalog: &Catalog,
        backend: &dyn Backend,
        (fingerprint, dimension): (&str, usize),
        found: &Inspection,
    ) {
        match is_building(catalog) {
            Ok(false) => (),
            // While a new index is built, the catalog describes the new index. A repair of the serving index would undo the
            // work so far.
            Ok(true) => {
                let finding =
                    "not compared: another model's index is being built; this one serves until that is complete";
                return self.record_outcome("index and catalog", Ok(finding.into()));
            }
            Err(error) => return self.record_outcome("index and catalog", Err(error)),
        }
        let Disagreement { lost, orphans } =
            match self.disagreement(catalog, backend, (fingerprint, dimension), found).await {
                Ok(none) if none == Disagreement::default() => {
                    return self
                        .record_outcome("index and catalog", Ok(format!("agree on {} files", found.rows.len())));
                }
                Ok(astray) => astray,
                Err(error) => return self.record_outcome("index and catalog", Err(error)),
            };
        let message = format!(
            "{} files lack chunks or vectors that the catalog lists, {} have chunks and should have none",
            lost.len(),
            orphans.len()
        );
        if !self.fix {
            let problem = Error::new(ErrorCode::DataLoss, message).hint("vic doctor --fix");
            return self.record_outcome("index and catalog", Err(problem));
        }
        let mend = async {
            catalog.requeue(&RequeueScope::Ids(lost))?;
            let store = backend.open(fingerprint, dimension).await?;
            if store.recovery().has_lost_commits {
                catalog.requeue(&RequeueScope::All)?;
                store.accept_loss().await?;
            }
            store.delete(&orphans).await
        };
        match mend.await {
            Ok(()) => {
                let finding = format!("{message}; files with missing data are re-read at the next start");
                self.record("index and catalog", Health::Fixed, finding, None);
            }
            Err(error) => self.record_outcome("index and catalog", Err(error)),
        }
    }

    /// Returns the differences between store and catalog. A running daemon may store a file after `doctor` has read the
    /// catalog and before it reads the store, so while a daemon runs only differences that are found twice count.
    async fn disagreement(
        &self,
        catalog: &Catalog,
        backend: &dyn Backend,
        (fingerprint, dimension): (&str, usize),
        found: &Inspection,
    ) -> Result<Disagreement> {
        let astray = Disagreement::compare(catalog, found)?;
        if self.has_lock || astray == Disagreement::default() {
            return Ok(astray);
        }
        tokio::time::sleep(RECHECK_DELAY).await;
        let found = backend.inspect(fingerprint, dimension).await?.unwrap_or_default();
        Ok(astray.confirmed_by(&Disagreement::compare(catalog, &found)?))
    }

    fn check_roots(&mut self, catalog: &Catalog) {
        match roots::check_roots(catalog) {
            Ok(findings) => findings.into_iter().for_each(|it| self.record_outcome("roots", it)),
            Err(error) => self.record_outcome("roots", Err(error)),
        }
    }

    /// With `fix`, removes unfinished files of vic. Damaged files that were moved aside are only reported, for the user
    /// to decide.
    fn check_leftovers(&mut self) {
        let entries = walkdir::WalkDir::new(&self.config.data_dir).max_depth(4).into_iter().flatten();
        let (mut half_done, mut kept) = (Vec::new(), Vec::new());
        for entry in entries {
            let name = entry.file_name().to_string_lossy().into_owned();
            let is_top = entry.depth() == 1;
            if name.contains(".unsynced") || (is_top && UNFINISHED_PREFIXES.iter().any(|it| name.starts_with(it))) {
                half_done.push(entry.into_path());
            } else if name.contains(".damaged") || name.contains(".corrupt") {
                kept.push(entry.into_path());
            }
        }
        if let Some(first) = kept.first() {
            let finding = format!("{} and {} more files were damaged and are kept", first.display(), kept.len() - 1);
            self.record_outcome("put aside", Ok(finding));
        }
        if half_done.is_empty() || !self.has_lock {
            return self.record_outcome("leftovers", Ok("none".into()));
        }
        let left = half_done.len();
        if !self.fix {
            return self.record_outcome(
                "leftovers",
                Ok(format!("{left} unfinished files of interrupted work; `vic doctor --fix` removes them")),
            );
        }
        let removed = half_done.iter().try_for_each(|it| std::fs::remove_file(it).io_context("remove", it));
        match removed {
            Ok(()) => {
                self.record("leftovers", Health::Fixed, format!("removed {left} files of interrupted work"), None);
            }
            Err(error) => self.record_outcome("leftovers", Err(error)),
        }
    }

    fn record_outcome(&mut self, name: &str, outcome: Result<String>) {
        match outcome {
            Ok(finding) => self.record(name, Health::Ok, finding, None),
            Err(error) => self.record(name, Health::Problem, error.message, error.hint),
        }
    }

    /// Records the problem, or with `fix` the result of repairing it with `mend`.
    fn record_repair(&mut self, name: &str, problem: Error, mend: impl FnOnce() -> Result<String>) {
        if !self.fix {
            return self.record_outcome(name, Err(problem));
        }
        match mend() {
            Ok(done) => self.record(name, Health::Fixed, format!("{}: {done}", problem.message), None),
            Err(error) => self.record_outcome(name, Err(error)),
        }
    }

    fn record(&mut self, name: &str, health: Health, finding: String, cure: Option<String>) {
        self.checks.push(Check { name: name.into(), health, finding, cure });
    }
}

/// Sets the given mode of each file, which denies access to other users.
fn restrict_to_owner(open: &[(PathBuf, u32)]) -> Result<String> {
    for (path, mode) in open {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(*mode)).io_context("protect", path)?;
    }
    Ok(format!("{} files are now accessible only to the owner", open.len()))
}

#[cfg(test)]
mod tests;
