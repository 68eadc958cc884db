//! Conversions of index jobs and the daemon's status between model and wire types.

use crate::error::{Error, Result};
use crate::model;
use crate::proto::convert::{WireEnum, decode_path, encode_path, into_all, missing_field_error, try_into_all};
use crate::proto::wire;

impl From<model::IndexRequest> for wire::IndexRequest {
    fn from(it: model::IndexRequest) -> wire::IndexRequest {
        wire::IndexRequest {
            paths: it.paths,
            full: it.full,
            metadata_only: it.metadata_only,
            max_files: it.max_files,
            ocr: it.ocr.encode(),
            accept_losses: it.accept_losses,
        }
    }
}

impl TryFrom<wire::IndexRequest> for model::IndexRequest {
    type Error = Error;

    fn try_from(it: wire::IndexRequest) -> Result<model::IndexRequest> {
        Ok(model::IndexRequest {
            paths: it.paths,
            full: it.full,
            metadata_only: it.metadata_only,
            max_files: it.max_files,
            ocr: WireEnum::decode(it.ocr)?.unwrap_or_default(),
            accept_losses: it.accept_losses,
        })
    }
}

impl From<model::Pause> for wire::Pause {
    fn from(it: model::Pause) -> wire::Pause {
        wire::Pause { reason: it.reason.encode(), until_ms: it.until_ms }
    }
}

impl TryFrom<wire::Pause> for model::Pause {
    type Error = Error;

    fn try_from(it: wire::Pause) -> Result<model::Pause> {
        Ok(model::Pause { reason: WireEnum::require(it.reason)?, until_ms: it.until_ms })
    }
}

impl From<model::PauseState> for wire::PauseState {
    fn from(it: model::PauseState) -> wire::PauseState {
        wire::PauseState { paused: it.paused.map(Into::into) }
    }
}

impl TryFrom<wire::PauseState> for model::PauseState {
    type Error = Error;

    fn try_from(it: wire::PauseState) -> Result<model::PauseState> {
        Ok(model::PauseState { paused: it.paused.map(TryInto::try_into).transpose()? })
    }
}

impl From<model::JobSnapshot> for wire::JobSnapshot {
    fn from(it: model::JobSnapshot) -> wire::JobSnapshot {
        wire::JobSnapshot {
            job_id: it.job_id,
            state: it.state.encode(),
            phase: it.phase.encode(),
            request: Some(it.request.into()),
            created_ms: it.created_ms,
            started_ms: it.started_ms,
            finished_ms: it.finished_ms,
            files_found: it.files_found,
            files_total: it.files_total,
            files_done: it.files_done,
            files_failed: it.files_failed,
            files_removed: it.files_removed,
            chunks_written: it.chunks_written,
            chunks_embedded: it.chunks_embedded,
            chunks_awaiting: it.chunks_awaiting,
            tokens_embedded: it.tokens_embedded,
            tokens_per_second: it.tokens_per_second,
            eta_seconds: it.eta_seconds,
            last_error: it.last_error,
            error: it.error,
            error_exit_code: it.error_exit_code,
        }
    }
}

impl TryFrom<wire::JobSnapshot> for model::JobSnapshot {
    type Error = Error;

    fn try_from(it: wire::JobSnapshot) -> Result<model::JobSnapshot> {
        Ok(model::JobSnapshot {
            job_id: it.job_id,
            state: WireEnum::require(it.state)?,
            phase: WireEnum::require(it.phase)?,
            request: it.request.ok_or_else(|| missing_field_error("request"))?.try_into()?,
            created_ms: it.created_ms,
            started_ms: it.started_ms,
            finished_ms: it.finished_ms,
            files_found: it.files_found,
            files_total: it.files_total,
            files_done: it.files_done,
            files_failed: it.files_failed,
            files_removed: it.files_removed,
            chunks_written: it.chunks_written,
            chunks_embedded: it.chunks_embedded,
            chunks_awaiting: it.chunks_awaiting,
            tokens_embedded: it.tokens_embedded,
            tokens_per_second: it.tokens_per_second,
            eta_seconds: it.eta_seconds,
            last_error: it.last_error,
            error: it.error,
            error_exit_code: it.error_exit_code,
        })
    }
}

impl From<model::Root> for wire::Root {
    fn from(it: model::Root) -> wire::Root {
        let (path, path_bytes) = encode_path(&it.path);
        wire::Root { id: it.id, path, path_bytes, available: it.available, problem: it.problem }
    }
}

impl From<wire::Root> for model::Root {
    fn from(it: wire::Root) -> model::Root {
        let path = decode_path(it.path, it.path_bytes);
        model::Root { id: it.id, path, available: it.available, problem: it.problem }
    }
}

impl From<model::Status> for wire::Status {
    fn from(it: model::Status) -> wire::Status {
        wire::Status {
            version: it.version,
            pid: it.pid,
            uptime_seconds: it.uptime_seconds,
            rss_mib: it.rss_mib,
            peak_rss_mib: it.peak_rss_mib,
            data_dir: it.data_dir,
            listen: it.listen,
            privacy_mode: it.privacy_mode.encode(),
            embed_model: it.embed_model,
            dimension: it.dimension,
            index_ready: it.index_ready,
            chunks: it.chunks,
            store_bytes: it.store_bytes,
            roots: into_all(it.roots),
            coverage: Some(it.coverage.into()),
            running_jobs: into_all(it.running_jobs),
            degraded: it.degraded,
            auth_enabled: it.auth_enabled,
            upkeep: Some(it.upkeep.into()),
            paused: it.paused.map(Into::into),
            watch: Some(it.watch.into()),
            memory_caps: into_all(it.memory_caps),
            languages: it.languages.into_iter().collect(),
            advice: it.advice,
        }
    }
}

impl TryFrom<wire::Status> for model::Status {
    type Error = Error;

    fn try_from(it: wire::Status) -> Result<model::Status> {
        Ok(model::Status {
            version: it.version,
            pid: it.pid,
            uptime_seconds: it.uptime_seconds,
            rss_mib: it.rss_mib,
            peak_rss_mib: it.peak_rss_mib,
            data_dir: it.data_dir,
            listen: it.listen,
            privacy_mode: WireEnum::require(it.privacy_mode)?,
            embed_model: it.embed_model,
            dimension: it.dimension,
            index_ready: it.index_ready,
            chunks: it.chunks,
            store_bytes: it.store_bytes,
            roots: into_all(it.roots),
            coverage: it.coverage.ok_or_else(|| missing_field_error("coverage"))?.into(),
            running_jobs: try_into_all(it.running_jobs)?,
            degraded: it.degraded,
            auth_enabled: it.auth_enabled,
            upkeep: it.upkeep.map(Into::into).unwrap_or_default(),
            paused: it.paused.map(TryInto::try_into).transpose()?,
            // Use the default if the field is missing, because older daemons do not send it.
            watch: it.watch.map(Into::into).unwrap_or_default(),
            memory_caps: into_all(it.memory_caps),
            languages: it.languages.into_iter().collect(),
            advice: it.advice,
        })
    }
}
