//! Copies and near-copies among the best files: the best one stands for them, the others follow after everything else, so
//! that a folder of versions does not fill the answer, and nothing is lost where there is room.

use std::collections::{HashMap, HashSet};

use crate::ask::fuse::Fused;
use crate::ask::phrase;
use crate::model::{ChunkId, FileId, FileRecord, StoredChunk};

/// Words in a row that are compared as one.
const SHINGLE: usize = 4;
/// Share of common shingles from which on two passages say the same.
const SAME: f64 = 0.85;

/// Moves files whose shown passage says the same as that of a better file behind the others, and names them in the better
/// one's [`Fused::copies`]. Does nothing when every file has a place anyway.
pub(super) fn demote_copies(
    files: &mut Vec<Fused>,
    records: &HashMap<FileId, FileRecord>,
    chunks: &HashMap<(FileId, ChunkId), StoredChunk>,
    limit: usize,
) {
    if files.len() <= limit {
        return;
    }
    let mut kept: Vec<(Fused, HashSet<u64>)> = Vec::with_capacity(files.len());
    let mut copies = Vec::new();
    for file in files.drain(..) {
        let text = chunks.get(&(file.file_id, file.chunk_id.clone())).map_or("", |it| it.chunk.body());
        let shingles = shingles(text);
        match kept.iter_mut().find(|(it, theirs)| it.chunk_id == file.chunk_id || is_same(theirs, &shingles)) {
            Some((better, _)) => {
                better.copies.extend(records.get(&file.file_id).map(|it| it.found.path.display().to_string()));
                copies.push(file);
            }
            None => kept.push((file, shingles)),
        }
    }
    files.extend(kept.into_iter().map(|(file, _)| file).chain(copies));
}

fn shingles(text: &str) -> HashSet<u64> {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let plain = phrase::plain(text);
    let words: Vec<&str> = phrase::split(&plain).collect();
    let hash = |run: &[&str]| {
        let mut hasher = DefaultHasher::new();
        run.hash(&mut hasher);
        hasher.finish()
    };
    words.windows(SHINGLE).map(hash).collect()
}

fn is_same(a: &HashSet<u64>, b: &HashSet<u64>) -> bool {
    let common = a.intersection(b).count();
    common > 0 && common as f64 >= SAME * (a.len() + b.len() - common) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(a: &str, b: &str) -> bool {
        is_same(&shingles(a), &shingles(b))
    }

    #[test]
    fn versions_are_the_same_and_other_texts_are_not() {
        let text = "The lease of the boat shed on the quay runs for five years from the first of May, and the rent is paid \
                    in advance at the beginning of every quarter to the harbour office in Cinder Bay, in cash or by transfer.";
        assert!(check(text, &format!("{text} Signed.")));
        assert!(!check(text, "The lease of the boat shed was given up in spring after the flood."));
        assert!(!check("", ""));
    }
}
