//! Verifies the citations of a model's answer. Each citation must name something in the result of a tool; a cited passage of
//! a file is compared with the file as it is now.

use std::collections::HashSet;

use async_trait::async_trait;
use serde::Serialize;

use crate::agent::citable::{Citable, CitableIndex};
use crate::model::{Anchor, Scope};

/// A citation of a model's answer that vic has verified.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct VerifiedCitation {
    /// The cited id, as the answer gives it.
    pub citation: String,
    /// The file that holds the cited passage; `None` for a result that belongs to no file.
    pub path: Option<String>,
    /// The location in the file, in words.
    pub place: String,
    /// `file` if the passage was found again in its file; `result` if a tool returned it and it belongs to no file.
    pub checked: &'static str,
}

/// Verifies that cited passages still exist in their files.
#[async_trait]
pub trait PassageVerifier: Send + Sync {
    /// Returns whether a passage is still at its location in a file of the caller's scope.
    async fn verify_passage(&self, path: &str, anchor: &Anchor, passage: &str, scope: &Scope) -> bool;
}

/// Returns the valid citations, each once, and the number of invalid ones.
pub(super) async fn verify_citations(
    citations: &[String],
    offered: &CitableIndex,
    witness: &dyn PassageVerifier,
    scope: &Scope,
) -> (Vec<VerifiedCitation>, usize) {
    let mut standing: Vec<VerifiedCitation> = Vec::new();
    let mut fallen = 0;
    let mut looked_at = HashSet::new();
    for citation in citations {
        let citation = citation.trim();
        // Skips a repeated citation, because it would have the same result.
        if !looked_at.insert(citation) {
            continue;
        }
        match offered.get(citation) {
            Some(evidence) if is_valid(evidence, witness, scope).await => {
                standing.push(verified_citation(citation, evidence));
            }
            _ => fallen += 1,
        }
    }
    (standing, fallen)
}

async fn is_valid(evidence: &Citable, witness: &dyn PassageVerifier, scope: &Scope) -> bool {
    match &evidence.path {
        None => true,
        Some(path) => witness.verify_passage(path, &evidence.anchor, &evidence.text, scope).await,
    }
}

fn verified_citation(citation: &str, evidence: &Citable) -> VerifiedCitation {
    VerifiedCitation {
        citation: citation.into(),
        path: evidence.path.clone(),
        place: evidence.anchor.place(),
        checked: if evidence.path.is_some() { "file" } else { "result" },
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use serde_json::json;

    use super::*;
    use crate::llm::plugin::TranscriptStep;

    /// A verifier that rejects every passage, and counts the calls.
    #[derive(Default)]
    struct Counting(AtomicUsize);

    #[async_trait]
    impl PassageVerifier for Counting {
        async fn verify_passage(&self, _path: &str, _anchor: &Anchor, _passage: &str, _scope: &Scope) -> bool {
            self.0.fetch_add(1, Ordering::Relaxed);
            false
        }
    }

    #[tokio::test]
    async fn repeated_citation_is_verified_once() {
        let result = json!({ "citation": "a.md, line 1", "text": "x", "absolute_path": "/w/a.md" });
        let offered = CitableIndex::from_transcript(&[TranscriptStep { tool: "t".into(), args: json!({}), result }]);
        let (citations, witness) = (vec!["a.md, line 1".to_string(); 100], Counting::default());
        let (standing, fallen) = verify_citations(&citations, &offered, &witness, &Scope::All).await;
        assert_eq!((standing.len(), fallen, witness.0.into_inner()), (0, 1, 1));
    }
}
