//! What an answer rests on: each citation has to name something that a tool gave, and where that stands in a file, the file
//! is read again.

use std::collections::HashSet;

use async_trait::async_trait;
use serde::Serialize;

use crate::agent::evidence::{Evidence, Offered};
use crate::model::{Anchor, Scope};

/// A citation that stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Cited {
    /// As the answer names it.
    pub citation: String,
    /// The file, where there is one.
    pub path: Option<String>,
    /// Where in it, in words.
    pub place: String,
    /// `file`: read again and there; `result`: a tool gave it, and it is in no file.
    pub checked: &'static str,
}

/// Reads files again.
#[async_trait]
pub trait Witness: Send + Sync {
    /// Says whether a passage still stands at its place in a file that the caller may know of.
    async fn stands(&self, path: &str, anchor: &Anchor, passage: &str, scope: &Scope) -> bool;
}

/// Which citations stand, each once, and how many do not.
pub(super) async fn check(
    citations: &[String],
    offered: &Offered,
    witness: &dyn Witness,
    scope: &Scope,
) -> (Vec<Cited>, usize) {
    let mut standing: Vec<Cited> = Vec::new();
    let mut fallen = 0;
    let mut looked_at = HashSet::new();
    for citation in citations {
        let citation = citation.trim();
        // What fell was read in its file too, and does not stand the second time.
        if !looked_at.insert(citation) {
            continue;
        }
        match offered.get(citation) {
            Some(evidence) if stands(evidence, witness, scope).await => standing.push(cited(citation, evidence)),
            _ => fallen += 1,
        }
    }
    (standing, fallen)
}

async fn stands(evidence: &Evidence, witness: &dyn Witness, scope: &Scope) -> bool {
    match &evidence.path {
        None => true,
        Some(path) => witness.stands(path, &evidence.anchor, &evidence.text, scope).await,
    }
}

fn cited(citation: &str, evidence: &Evidence) -> Cited {
    Cited {
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

    /// Finds nothing, and counts how often it was asked.
    #[derive(Default)]
    struct Counting(AtomicUsize);

    #[async_trait]
    impl Witness for Counting {
        async fn stands(&self, _path: &str, _anchor: &Anchor, _passage: &str, _scope: &Scope) -> bool {
            self.0.fetch_add(1, Ordering::Relaxed);
            false
        }
    }

    #[tokio::test]
    async fn a_file_is_read_once_however_often_an_answer_cites_it() {
        let result = json!({ "citation": "a.md, line 1", "text": "x", "absolute_path": "/w/a.md" });
        let offered = Offered::of(&[TranscriptStep { tool: "t".into(), args: json!({}), result }]);
        let (citations, witness) = (vec!["a.md, line 1".to_string(); 100], Counting::default());
        let (standing, fallen) = check(&citations, &offered, &witness, &Scope::All).await;
        assert_eq!((standing.len(), fallen, witness.0.into_inner()), (0, 1, 1));
    }
}
