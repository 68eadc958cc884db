//! Tests of the cache of skill results, with a scripted worker.

use tempfile::TempDir;

use super::*;
use crate::extract::scripted_worker;
use crate::llm::Mock;

/// A folder with an image, the catalog record of the image, and an evidence cache.
struct Fixture {
    folder: TempDir,
    record: FileRecord,
    evidence: Arc<EvidenceCache>,
}

impl Fixture {
    fn new() -> Fixture {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        std::fs::write(root.join("a.png"), "a picture").unwrap();
        let hash = files::hash(&File::open(root.join("a.png")).unwrap()).unwrap();
        let record = crate::model::samples::indexed_file(&root, "a.png", FileKind::Image, hash);
        let evidence = Arc::new(EvidenceCache::open(&root.join("evidence.sqlite"), 1 << 20).unwrap());
        Fixture { folder, record, evidence }
    }

    /// Returns skills with a model that answers like `mock`, and a worker that runs the shell script `does` before it
    /// replies.
    fn skills(&self, mock: &Arc<Mock>, does: &str) -> Skills {
        let shown = vision::Picture { page: None, bytes: vec![7] }.pack();
        let packed = Document { blocks: vec![shown], ..Document::default() };
        let pool = Arc::new(scripted_worker::scripted_pool(self.folder.path(), does, &Ok(packed)));
        let models = ModelStore::new(vec![self.folder.path().join("nowhere")]);
        Skills::new(pool, self.evidence.clone(), models).with_vision(mock.client(), 100)
    }

    async fn run_vision(&self, skills: &Skills) -> Findings {
        let files = std::slice::from_ref(&self.record);
        skills.run_all(files, &[VISION.to_string()], PrivacyMode::LocalOnly, Duration::from_secs(20)).await
    }
}

#[tokio::test]
async fn secret_only_picture_is_sent_to_model_once() {
    let (room, token) = (Fixture::new(), "ghp_16C7e42F292c6912E7710c838347Ae178B4a");
    let mock = Mock::new(vec![Ok(token.into())]);
    let skills = room.skills(&mock, "");
    for cached in [false, true] {
        let Findings { found, warnings } = room.run_vision(&skills).await;
        assert!(found[0].1.document.blocks.is_empty() && found[0].1.cached == cached, "{found:?}");
        assert_eq!(warnings, ["the vision model's text for `a.png` was dropped: it holds keys and nothing else"]);
    }
    assert_eq!(mock.asked().len(), 1);
}

// Case C14
#[tokio::test]
async fn result_of_file_changed_meanwhile_is_not_cached() {
    let room = Fixture::new();
    let mock = Mock::new(vec![Ok("a pier".into())]);
    let skills = room.skills(&mock, &format!("echo more >> {}", room.record.absolute().display()));
    let Findings { found, warnings } = room.run_vision(&skills).await;
    assert!(found.is_empty() && warnings[0].contains("written to while"), "{warnings:?}");
    assert!(mock.asked().is_empty() && room.evidence.get_all(room.record.hash.unwrap()).is_empty());
}
