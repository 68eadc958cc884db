//! When the daemon starts, reports all settings that conflict with the privacy mode at once, instead of one by one at the
//! first blocked request; warns of environment variables that vic ignores.

use tracing::warn;

use crate::config::{Config, EmbedBackend, LlmBackend, VectorBackend};
use crate::egress::{self, Purpose};
use crate::error::{Error, ErrorCode, Result};

/// Returns an error if servers are configured whose use the privacy mode forbids; warns of environment variables that
/// have no effect.
///
/// # Errors
/// `PermissionDenied`, with all conflicting settings.
pub(super) fn check_settings(config: &Config) -> Result<()> {
    let mut conflicts: Vec<(&str, Error)> = Vec::new();
    let forbidden = |purpose: &Purpose| !purpose.may_leave(config.privacy_mode);
    for (variable, url, purpose) in configured_servers(config).into_iter().filter(|(.., it)| forbidden(it)) {
        match egress::check_allowed(url, config.privacy_mode, purpose) {
            Err(error) if error.code == ErrorCode::PermissionDenied => conflicts.push((variable, error)),
            // Other errors are not conflicts: a server that cannot be reached now may be available later.
            Ok(()) | Err(_) => (),
        }
    }
    if !config.foreign.is_empty() {
        let names = config.foreign.join("`, `");
        warn!("the environment sets `{names}`: vic's requests ignore them; vic cannot check what LD_PRELOAD loads");
    }
    let Some((_, first)) = conflicts.first() else { return Ok(()) };
    let sentences: Vec<String> = conflicts.iter().map(|(variable, it)| format!("{variable}: {}", it.message)).collect();
    let error = Error::new(first.code, sentences.join("; "));
    Err(match &first.hint {
        Some(hint) => error.hint(hint.clone()),
        None => error,
    })
}

/// Returns the configured servers, with the variable that sets each. The vision server is not checked: few questions use
/// it, and it has a default address. If its use is forbidden, its requests are refused.
fn configured_servers(config: &Config) -> Vec<(&'static str, &str, Purpose)> {
    const OLLAMA: &str = "VIC_OLLAMA_BASE_URL";
    const OPENAI: &str = "VIC_OPENAI_BASE_URL";
    let embedding = match config.embed.backend {
        EmbedBackend::Onnx => None,
        EmbedBackend::Ollama => Some((OLLAMA, config.embed.ollama_url.as_str(), Purpose::Embedding)),
        EmbedBackend::OpenAi => Some((OPENAI, config.embed.openai_url.as_str(), Purpose::Embedding)),
    };
    let reasoning = match config.llm.backend {
        LlmBackend::Stub => None,
        LlmBackend::Ollama => Some((OLLAMA, config.embed.ollama_url.as_str(), Purpose::Reasoning)),
        LlmBackend::OpenAi => Some((OPENAI, config.embed.openai_url.as_str(), Purpose::Reasoning)),
    };
    let vectors = &config.vectors;
    let is_server = vectors.backend == VectorBackend::Milvus && vectors.milvus_uri.contains("://");
    let index = is_server.then_some(("VIC_MILVUS_URI", vectors.milvus_uri.as_str(), Purpose::Index));
    embedding.into_iter().chain(reasoning).chain(index).collect()
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;

    const ELSEWHERE: [(&str, &str); 5] = [
        ("VIC_EMBED_BACKEND", "ollama"),
        ("VIC_OLLAMA_BASE_URL", "http://192.0.2.1:11434"),
        ("VIC_LIBRARIAN_BACKEND", "openai"),
        ("VIC_OPENAI_BASE_URL", "https://192.0.2.2"),
        ("VIC_OPENAI_MODEL", "any"),
    ];

    fn check(variables: &[(&str, &str)]) -> Result<()> {
        let lookup = |wanted: &str| {
            let found = variables.iter().rfind(|(name, _)| *name == wanted);
            found.map(|(_, value)| OsString::from(value)).or_else(|| (wanted == "VIC_DATA_DIR").then(|| "/d".into()))
        };
        super::check_settings(&Config::from_lookup(&lookup)?)
    }

    // Case E3
    #[test]
    fn local_only_reports_all_conflicts_at_once() {
        let error = check(&ELSEWHERE).unwrap_err();
        assert_eq!(error.code, ErrorCode::PermissionDenied);
        for named in ["VIC_OLLAMA_BASE_URL", "192.0.2.1", "VIC_OPENAI_BASE_URL", "192.0.2.2", "local_only"] {
            assert!(error.message.contains(named), "{error}");
        }
        let laxer = check(&[&ELSEWHERE[..], &[("VIC_PRIVACY_MODE", "cloud_reasoning_ok")]].concat()).unwrap_err();
        assert!(laxer.message.contains("192.0.2.1") && !laxer.message.contains("192.0.2.2"), "{laxer}");
        check(&[&ELSEWHERE[..], &[("VIC_PRIVACY_MODE", "cloud_embedding_ok")]].concat()).unwrap();
    }

    #[test]
    fn local_servers_and_unused_addresses_do_not_conflict() {
        check(&[("VIC_EMBED_BACKEND", "ollama"), ("VIC_LIBRARIAN_BACKEND", "openai"), ("VIC_OPENAI_MODEL", "any")])
            .unwrap();
        check(&ELSEWHERE[1..2]).unwrap();
    }

    // Case E2
    #[test]
    fn proxy_variables_are_listed_but_do_not_prevent_start() {
        let set = [
            ("VIC_DATA_DIR", "/d"),
            ("HTTPS_PROXY", "http://192.0.2.3"),
            ("SENTRY_DSN", "https://x@192.0.2.4/1"),
            ("LANG", "C"),
        ];
        let lookup = |wanted: &str| set.iter().find(|it| it.0 == wanted).map(|it| OsString::from(it.1));
        let config = Config::from_lookup(&lookup).unwrap();
        assert_eq!(config.foreign, ["HTTPS_PROXY", "SENTRY_DSN"]);
        super::check_settings(&config).unwrap();
    }
}
