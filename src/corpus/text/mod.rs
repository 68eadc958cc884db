//! Text tools of the corpus API: words, dates, similar names, code blocks. Pure functions.

pub(in crate::corpus) mod code_blocks;
pub(in crate::corpus) mod dates;
pub(in crate::corpus) mod fuzzy_names;
pub(in crate::corpus) mod normalize_code;
pub(in crate::corpus) mod words;
