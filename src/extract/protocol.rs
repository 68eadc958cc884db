//! What pool and worker say to each other: frames of a length and JSON.
//!
//! JSON, because the hand-over types leave out absent fields, which formats that do not describe themselves cannot read
//! back. Files do not travel in frames but as descriptors, see `descriptor`.

use std::path::PathBuf;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::extract::Tools;
use crate::model::{Document, ExtractFailure, ExtractLimits};

/// The first frame a worker gets.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Setup {
    /// Bounds on every job.
    pub(crate) limits: ExtractLimits,
    /// Libraries that readers can use.
    pub(crate) tools: Tools,
    /// Whether questions wait for it, or nobody.
    pub(crate) for_questions: bool,
}

/// What a worker says first: when it is ready, and before it has seen any file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Hello {
    /// Why it is not in a jail, with the cure; none when it is.
    pub(crate) open: Option<String>,
}

/// One file to read. Its descriptor comes along with the first byte of the frame.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Job {
    /// File name, for its extension.
    pub(crate) name: String,
    /// What to do with it.
    pub(crate) task: Task,
}

/// What a worker can do with a file.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Task {
    /// Read its text.
    Extract,
    /// Run a skill over it.
    Skill(SkillJob),
    /// Try one way out of the jail, and say what came of it: how it is proven to hold.
    Escape {
        /// Name of the way.
        name: String,
        /// Path of a file of the user's.
        path: PathBuf,
    },
}

/// What a skill is asked to do with one file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkillJob {
    /// Name of the skill, one of those the worker was started with.
    pub skill: String,
    /// Pages to look at (1-based); None lets the skill choose within its time.
    pub pages: Option<Vec<u32>>,
    /// Seconds until the worker is killed. A skill stops by itself before that, with what it has, see
    /// [`SkillJob::soft_seconds`].
    pub seconds: u32,
    /// Seconds after which no second page is begun, where whoever asks wants to rest in between; none is as long as there is
    /// time.
    pub rest_after: Option<u32>,
    /// What the result is for.
    pub purpose: Purpose,
    /// Libraries and models that are there now.
    pub tools: Tools,
}

impl SkillJob {
    /// Seconds after which a skill begins no further page: what one page takes at most still fits below the limit.
    pub fn soft_seconds(&self) -> f32 {
        self.seconds as f32 * 0.7
    }
}

/// What the result of a skill is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Purpose {
    /// A question: whatever the file shows, with its structure.
    #[default]
    Question,
    /// The document's own text: plain text of what has none, save pictures that are no paper (photos, icons).
    UnreadText,
    /// The document's own text: plain text of every page and picture.
    EveryText,
}

/// What came of a job.
pub(crate) type Reply = Result<Document, ExtractFailure>;

/// Bytes of the length before each frame: a little-endian `u32`.
pub(crate) const PREFIX: usize = 4;

/// Longest frame to a worker: settings and one name.
pub(crate) const MOST_REQUEST_BYTES: usize = 64 << 10;

/// Returns the longest reply that a pool accepts: the text, escaped, and the anchors around it.
pub(crate) fn most_reply_bytes(limits: &ExtractLimits) -> usize {
    let text = usize::try_from(limits.text_bytes).unwrap_or(usize::MAX);
    text.saturating_mul(6).saturating_add(128 << 20).min(u32::MAX as usize)
}

/// Makes a frame.
pub(crate) fn encode(message: &impl Serialize) -> std::io::Result<Vec<u8>> {
    let mut frame = vec![0; PREFIX];
    serde_json::to_writer(&mut frame, message)?;
    let length = u32::try_from(frame.len() - PREFIX).map_err(|_| std::io::Error::other("frame too long"))?;
    frame[..PREFIX].copy_from_slice(&length.to_le_bytes());
    Ok(frame)
}

/// Returns the length that a prefix states, if a frame may be that long.
pub(crate) fn length(prefix: [u8; PREFIX], most: usize) -> std::io::Result<usize> {
    let length = u32::from_le_bytes(prefix) as usize;
    if length > most {
        return Err(std::io::Error::other(format!("frame of {length} bytes is longer than {most}")));
    }
    Ok(length)
}

/// Reads the content of a frame.
pub(crate) fn decode<T: DeserializeOwned>(content: &[u8]) -> std::io::Result<T> {
    Ok(serde_json::from_slice(content)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Anchor, Block, BlockKind, Reason};

    #[test]
    fn more_blocks_than_any_reader_makes_are_no_reply() {
        let most = 2 * crate::model::MOST_BLOCKS;
        let reply = |count: usize| {
            let blocks = vec![r#"{"kind":"Paragraph","text":"","anchor":{}}"#; count].join(",");
            let frame = format!(
                r#"{{"Ok":{{"title":null,"media_type":"","blocks":[{blocks}],"problems":[],"truncated":false,"pages":null,"pages_without_text":[]}}}}"#
            );
            decode::<Reply>(frame.as_bytes()).map(|it| it.unwrap().blocks.len())
        };
        assert_eq!(reply(most).unwrap(), most);
        assert!(reply(most + 1).unwrap_err().to_string().contains("at most"));
    }

    #[test]
    fn a_reply_survives_the_way() {
        let block = Block {
            kind: BlockKind::Heading(2),
            text: "x\n\u{1}é".to_string(),
            anchor: Anchor { page: Some(3), verbatim: true, ..Anchor::default() },
            rows: vec![3, 5],
        };
        let document = Document { blocks: vec![block], pages_without_text: vec![7], ..Document::default() };
        let failed = ExtractFailure { reason: Reason::TooDeep, detail: "why".to_string() };
        for reply in [Reply::Ok(document), Reply::Err(failed)] {
            let frame = encode(&reply).unwrap();
            assert_eq!(length(frame[..PREFIX].try_into().unwrap(), 1_000).unwrap(), frame.len() - PREFIX);
            assert_eq!(decode::<Reply>(&frame[PREFIX..]).unwrap(), reply);
        }
    }

    #[test]
    fn a_frame_that_claims_too_much_is_refused() {
        assert!(length(u32::MAX.to_le_bytes(), 1_000).is_err());
    }
}
