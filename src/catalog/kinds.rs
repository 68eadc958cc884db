//! The broad kind of a file by its extension: what is shown until its content was read.

use crate::model::FileKind;

const KINDS: &[(FileKind, &[&str])] = &[
    (FileKind::Text, &["txt", "text", "log", "srt", "vtt", "ini", "cfg", "conf", "properties", "diff", "patch"]),
    (FileKind::Markup, &["md", "markdown", "mdx", "rst", "org", "adoc", "asciidoc", "tex", "dj", "textile"]),
    (FileKind::Web, &["html", "htm", "xhtml", "xml", "nxml", "svg", "rss", "atom", "mhtml"]),
    (
        FileKind::Code,
        &[
            "rs", "py", "pyi", "js", "mjs", "cjs", "jsx", "ts", "tsx", "go", "java", "c", "h", "cc", "cpp", "cxx",
            "hpp", "hh", "cs", "rb", "php", "swift", "kt", "kts", "scala", "sh", "bash", "zsh", "fish", "ps1", "sql",
            "lua", "pl", "r", "jl", "hs", "ml", "ex", "exs", "erl", "clj", "dart", "vue", "svelte", "css", "scss",
            "less", "proto", "zig", "nim", "m", "mm", "asm", "s", "cmake", "gradle", "tf",
        ],
    ),
    (
        FileKind::Data,
        &["csv", "tsv", "psv", "json", "jsonl", "ndjson", "yaml", "yml", "toml", "parquet", "sqlite", "db"],
    ),
    (FileKind::Pdf, &["pdf"]),
    (FileKind::Document, &["docx", "docm", "dotx", "doc", "odt", "ott", "rtf", "epub", "fb2", "pages", "wpd", "hwp"]),
    (FileKind::Spreadsheet, &["xlsx", "xlsm", "xlsb", "xls", "ods", "numbers"]),
    (FileKind::Slides, &["pptx", "pptm", "ppsx", "ppt", "odp", "key"]),
    (FileKind::Mail, &["eml", "mbox", "msg", "emlx"]),
    (FileKind::Notebook, &["ipynb"]),
    (
        FileKind::Image,
        &[
            "png", "jpg", "jpeg", "gif", "webp", "bmp", "tif", "tiff", "heic", "heif", "avif", "ico", "psd", "raw",
            "dng",
        ],
    ),
    (FileKind::Archive, &["zip", "tar", "gz", "tgz", "bz2", "xz", "zst", "7z", "rar", "jar", "cab", "iso"]),
    (
        FileKind::Media,
        &["mp3", "wav", "flac", "ogg", "opus", "m4a", "aac", "mp4", "mkv", "mov", "avi", "webm", "wmv", "m4v", "mpg"],
    ),
];

/// Returns the kind that goes with a lowercase extension.
pub(super) fn by_extension(extension: &str) -> FileKind {
    KINDS.iter().find(|(_, extensions)| extensions.contains(&extension)).map_or(FileKind::Other, |(kind, _)| *kind)
}

/// Returns the lowercase extensions of a kind, without the dot.
pub fn extensions(kind: FileKind) -> &'static [&'static str] {
    KINDS.iter().find(|(it, _)| *it == kind).map_or(&[], |(_, extensions)| *extensions)
}

/// Says whether a lowercase extension goes with a kind.
pub fn is_known_extension(extension: &str) -> bool {
    by_extension(extension) != FileKind::Other
}

/// Returns the name under which the catalog keeps a kind.
pub(super) fn name(kind: FileKind) -> &'static str {
    match kind {
        FileKind::Text => "text",
        FileKind::Markup => "markup",
        FileKind::Web => "web",
        FileKind::Code => "code",
        FileKind::Data => "data",
        FileKind::Pdf => "pdf",
        FileKind::Document => "document",
        FileKind::Spreadsheet => "spreadsheet",
        FileKind::Slides => "slides",
        FileKind::Mail => "mail",
        FileKind::Notebook => "notebook",
        FileKind::Image => "image",
        FileKind::Archive => "archive",
        FileKind::Media => "media",
        FileKind::Other => "other",
    }
}

/// Returns the kind of that [`name`]; an unknown one is [`FileKind::Other`].
pub(super) fn by_name(text: &str) -> FileKind {
    KINDS.iter().map(|(kind, _)| *kind).find(|it| name(*it) == text).unwrap_or(FileKind::Other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_extension_has_two_kinds_and_every_kind_survives_its_name() {
        let mut all: Vec<&str> = KINDS.iter().flat_map(|(_, extensions)| extensions.iter().copied()).collect();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
        for (kind, _) in KINDS {
            assert_eq!(by_name(name(*kind)), *kind);
        }
        assert_eq!((by_extension("pdf"), by_extension("")), (FileKind::Pdf, FileKind::Other));
    }
}
