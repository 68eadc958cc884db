//! The protocol between the worker pool and its workers: each message is a frame, which consists of a length and JSON.
//!
//! The format is JSON, because the shared types omit absent fields, which only self-describing formats can read back. File
//! content is not sent in frames: the open descriptor is passed over the socket, see `fd_passing`.

use std::path::PathBuf;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::extract::Tools;
use crate::model::{Document, ExtractFailure, ExtractLimits};

/// The first frame that a worker receives: its settings.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Setup {
    /// Limits on time, memory and output of every job.
    pub(crate) limits: ExtractLimits,
    /// Libraries and models that the worker loads before it is jailed.
    pub(crate) tools: Tools,
    /// Whether the worker runs skills (e.g. OCR) instead of extraction.
    pub(crate) for_questions: bool,
}

/// The first frame that a worker sends, when it is ready for its first file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Hello {
    /// Why the worker is not jailed, with the remedy; `None` if it is jailed.
    pub(crate) open: Option<String>,
}

/// A request to process one file. The file's descriptor arrives with the first byte of the frame.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Job {
    /// File name, for its extension.
    pub(crate) name: String,
    /// What to do with the file.
    pub(crate) task: Task,
}

/// What a worker should do with the file of a job.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Task {
    /// Extract the text of the file.
    Extract,
    /// Run a skill on the file.
    Skill(SkillJob),
    /// Try one way to escape the jail and return the result, to prove that the jail works.
    Escape {
        /// Name of the attempt, e.g. `open a file`.
        name: String,
        /// Path of a user's file that the worker must not be able to open.
        path: PathBuf,
    },
}

/// Parameters of a skill run on one file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkillJob {
    /// Name of a skill that the worker was started with.
    pub skill: String,
    /// Pages to process (1-based); `None` lets the skill choose the pages that fit its time limit.
    pub pages: Option<Vec<u32>>,
    /// Seconds until the worker is killed. A skill stops before that and returns its partial result, see
    /// [`SkillJob::soft_seconds`].
    pub seconds: u32,
    /// Seconds after which no further page is started, except the first, so that the caller can pause between jobs; `None`
    /// starts pages until the time limit.
    pub rest_after: Option<u32>,
    /// What the result of the skill is used for.
    pub purpose: Purpose,
    /// Width in pixels of the picture of a page; `None` for other skills.
    pub width: Option<u32>,
    /// The archive member or attachment whose page is drawn, as in [`crate::model::Anchor::member`]; `None` for the file.
    pub member: Option<String>,
    /// Libraries and models that are available when the job is sent.
    pub tools: Tools,
}

impl SkillJob {
    /// Returns the seconds after which a skill starts no further page, so that it can finish the current page before the
    /// time limit.
    pub fn soft_seconds(&self) -> f32 {
        self.seconds as f32 * 0.7
    }
}

/// What the result of a skill is used for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Purpose {
    /// Answer a question: all content of the file, with its structure.
    #[default]
    Question,
    /// Complete the indexed text: plain text of the pages without text, and of images that show documents (no photos or
    /// icons).
    UnreadText,
    /// Complete the indexed text: plain text of every page and image.
    EveryText,
}

/// The reply of a worker to a job: the document, or why it failed.
pub(crate) type Reply = Result<Document, ExtractFailure>;

/// Size in bytes of the length that precedes each frame, a little-endian `u32`.
pub(crate) const PREFIX_BYTES: usize = 4;

/// Maximum size in bytes of a frame to a worker: the setup, or a job with a file name.
pub(crate) const MAX_REQUEST_BYTES: usize = 64 << 10;

/// Returns the maximum size in bytes of a reply that a pool accepts: 6 bytes per byte of text, because JSON may escape each
/// byte, plus 128 MiB for the anchors.
pub(crate) fn max_reply_bytes(limits: &ExtractLimits) -> usize {
    let text = usize::try_from(limits.text_bytes).unwrap_or(usize::MAX);
    text.saturating_mul(6).saturating_add(128 << 20).min(u32::MAX as usize)
}

/// Encodes a message as a frame: its length, then its JSON.
pub(crate) fn encode_frame(message: &impl Serialize) -> std::io::Result<Vec<u8>> {
    let mut frame = vec![0; PREFIX_BYTES];
    serde_json::to_writer(&mut frame, message)?;
    let length = u32::try_from(frame.len() - PREFIX_BYTES)
        .map_err(|_| std::io::Error::other("a message is too long: its length in a frame has only 32 bits"))?;
    frame[..PREFIX_BYTES].copy_from_slice(&length.to_le_bytes());
    Ok(frame)
}

/// Returns the length of a frame from its prefix. Fails if the length exceeds `most`.
pub(crate) fn parse_length(prefix: [u8; PREFIX_BYTES], most: usize) -> std::io::Result<usize> {
    let length = u32::from_le_bytes(prefix) as usize;
    if length > most {
        return Err(std::io::Error::other(format!("a frame of {length} bytes exceeds the limit of {most} bytes")));
    }
    Ok(length)
}

/// Decodes the JSON content of a frame.
pub(crate) fn decode_frame<T: DeserializeOwned>(content: &[u8]) -> std::io::Result<T> {
    Ok(serde_json::from_slice(content)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Anchor, Block, BlockKind, Reason};

    #[test]
    fn decode_rejects_too_many_blocks() {
        let most = 2 * crate::model::MAX_BLOCKS;
        let reply = |count: usize| {
            let blocks = vec![r#"{"kind":"Paragraph","text":"","anchor":{}}"#; count].join(",");
            let frame = format!(
                r#"{{"Ok":{{"title":null,"media_type":"","blocks":[{blocks}],"problems":[],"truncated":false,"pages":null,"pages_without_text":[]}}}}"#
            );
            decode_frame::<Reply>(frame.as_bytes()).map(|it| it.unwrap().blocks.len())
        };
        assert_eq!(reply(most).unwrap(), most);
        assert!(reply(most + 1).unwrap_err().to_string().contains("at most"));
    }

    #[test]
    fn reply_round_trips() {
        let block = Block {
            kind: BlockKind::Heading(2),
            text: "x\n\u{1}é".to_string(),
            anchor: Anchor { page: Some(3), verbatim: true, ..Anchor::default() },
            rows: vec![3, 5],
        };
        let document = Document { blocks: vec![block], pages_without_text: vec![7], ..Document::default() };
        let failed = ExtractFailure { reason: Reason::TooDeep, detail: "why".to_string() };
        for reply in [Reply::Ok(document), Reply::Err(failed)] {
            let frame = encode_frame(&reply).unwrap();
            assert_eq!(
                parse_length(frame[..PREFIX_BYTES].try_into().unwrap(), 1_000).unwrap(),
                frame.len() - PREFIX_BYTES
            );
            assert_eq!(decode_frame::<Reply>(&frame[PREFIX_BYTES..]).unwrap(), reply);
        }
    }

    // Case C9
    #[test]
    fn length_over_limit_is_rejected() {
        assert!(parse_length(u32::MAX.to_le_bytes(), 1_000).is_err());
    }
}
