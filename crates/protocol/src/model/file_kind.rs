//! The broad kind of a file, decided by its extension until its content is read.

use crate::model::FileKind;

/// Extensions of source code in lower case, one language family per line.
#[rustfmt::skip]
pub const CODE_EXTENSIONS: &[&str] = &[
    "rs", "c", "h", "cc", "cpp", "cxx", "hpp", "hh", "hxx", "inl", "cu", "m", "mm", "swift", "go", "zig", "nim", "d",
    "java", "kt", "kts", "scala", "groovy", "gradle", "cs", "fs", "vb", "dart",
    "py", "pyi", "pyw", "rb", "php", "pl", "pm", "lua", "tcl", "r", "jl",
    "js", "jsx", "mjs", "cjs", "ts", "tsx", "mts", "cts", "vue", "svelte", "css", "scss", "sass", "less",
    "hs", "ml", "mli", "elm", "clj", "cljs", "el", "lisp", "scm", "ex", "exs", "erl",
    "f", "f90", "f95", "for", "pas", "asm", "s", "v", "sv", "vhd", "vhdl", "glsl", "wgsl", "hlsl", "sol", "ps",
    "sh", "bash", "zsh", "fish", "ps1", "bat", "cmd", "awk", "sed", "vim", "sql", "proto", "graphql", "thrift",
    "cmake", "mk", "make", "dockerfile", "tf", "hcl", "nix", "bzl", "diff", "patch",
];

/// Kinds and their extensions, in lower case. Readers and the catalog use no other table of extensions.
const KIND_EXTENSIONS: &[(FileKind, &[&str])] = &[
    (
        FileKind::Text,
        &[
            "txt",
            "text",
            "log",
            "srt",
            "vtt",
            "ini",
            "cfg",
            "conf",
            "properties",
            "out",
            "err",
            "asc",
            "nfo",
            "diz",
            "me",
            "1st",
            "dif",
            "env",
            "desktop",
            "service",
            "editorconfig",
        ],
    ),
    (
        FileKind::Markup,
        &[
            "md",
            "markdown",
            "mdx",
            "rst",
            "org",
            "adoc",
            "asciidoc",
            "tex",
            "dj",
            "textile",
            "mdown",
            "mkd",
            "qmd",
            "rmd",
            "rest",
            "ltx",
            "latex",
            "wiki",
            "mediawiki",
            "creole",
        ],
    ),
    (
        FileKind::Web,
        &[
            "html", "htm", "xhtml", "xml", "nxml", "rss", "atom", "xht", "shtml", "xsl", "xslt", "xsd", "opml", "dbk",
            "docbook", "tei", "kml", "gpx", "plist", "jats", "dita",
        ],
    ),
    (FileKind::Code, CODE_EXTENSIONS),
    (
        FileKind::Data,
        &[
            "csv",
            "tsv",
            "psv",
            "json",
            "jsonl",
            "ndjson",
            "yaml",
            "yml",
            "toml",
            "parquet",
            "sqlite",
            "db",
            "bib",
            "ris",
            "tab",
            "geojson",
            "json5",
            "jsonc",
            "webmanifest",
            "har",
            "ics",
            "ical",
            "vcs",
            "vcf",
            "vcard",
        ],
    ),
    (FileKind::Pdf, &["pdf", "ai"]),
    (
        FileKind::Document,
        &[
            "docx", "docm", "dotx", "doc", "odt", "ott", "rtf", "epub", "fb2", "pages", "wpd", "hwp", "dotm", "odg",
            "dot", "wps", "one", "chm", "mobi", "azw", "azw3", "djvu", "vsdx", "vsd", "xps", "pub",
        ],
    ),
    (FileKind::Spreadsheet, &["xlsx", "xlsm", "xlsb", "xls", "ods", "numbers", "xltx", "xlam", "ots", "xlt"]),
    (FileKind::Slides, &["pptx", "pptm", "ppsx", "ppt", "odp", "key", "ppsm", "potx", "otp", "pps", "pot"]),
    (FileKind::Mail, &["mhtml", "eml", "mbox", "msg", "emlx", "mht", "mbx"]),
    (FileKind::Notebook, &["ipynb"]),
    (
        FileKind::Image,
        &[
            "svg", "png", "jpg", "jpeg", "gif", "webp", "bmp", "tif", "tiff", "heic", "heif", "avif", "ico", "psd",
            "raw", "dng", "jpe", "jfif", "apng", "dib", "xcf", "cr2", "nef", "jxl",
        ],
    ),
    (
        FileKind::Archive,
        &[
            "zip", "tar", "gz", "tgz", "bz2", "xz", "zst", "7z", "rar", "jar", "cab", "iso", "war", "cbz", "kmz",
            "svgz", "lz4", "dmg", "deb", "rpm",
        ],
    ),
    (
        FileKind::Media,
        &[
            "mp3", "wav", "flac", "ogg", "opus", "m4a", "aac", "mp4", "mkv", "mov", "avi", "webm", "wmv", "m4v", "mpg",
            "wma", "aiff", "mid", "flv", "mpeg", "3gp",
        ],
    ),
];

impl FileKind {
    /// Returns the kind for an extension in lower case.
    pub fn from_extension(extension: &str) -> FileKind {
        KIND_EXTENSIONS
            .iter()
            .find(|(_, extensions)| extensions.contains(&extension))
            .map_or(FileKind::Other, |(kind, _)| *kind)
    }

    /// Returns the extensions of this kind; none for [`FileKind::Other`].
    pub fn extensions(self) -> &'static [&'static str] {
        KIND_EXTENSIONS.iter().find(|(kind, _)| *kind == self).map_or(&[], |(_, extensions)| extensions)
    }

    /// Returns the name used in the catalog and in JSON.
    pub fn name(self) -> &'static str {
        match self {
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

    /// Returns the kind with this name; [`FileKind::Other`] for an unknown name.
    pub fn from_name(name: &str) -> FileKind {
        KIND_EXTENSIONS.iter().map(|(kind, _)| *kind).find(|it| it.name() == name).unwrap_or(FileKind::Other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extensions_are_unique_and_kind_names_round_trip() {
        let mut all: Vec<&str> =
            KIND_EXTENSIONS.iter().flat_map(|(_, extensions)| extensions.iter().copied()).collect();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
        for (kind, _) in KIND_EXTENSIONS {
            assert_eq!(FileKind::from_name(kind.name()), *kind);
        }
        assert_eq!((FileKind::from_extension("pdf"), FileKind::from_extension("")), (FileKind::Pdf, FileKind::Other));
    }
}
