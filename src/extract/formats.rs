//! The supported formats, with their media types and file extensions.
//!
//! This module looks only at file names, which is cheap enough for a million files; `detect` checks the content.

use crate::model::{CODE_EXTENSIONS, FileKind};

/// The format of a file, which selects its reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Format {
    Text,
    Markdown,
    Markup,
    Html,
    Xml,
    Code,
    Csv,
    Structured,
    Notebook,
    Subtitle,
    Eml,
    Mbox,
    Msg,
    Image,
    Pdf,
    Docx,
    Pptx,
    /// Spreadsheets of Excel 2007 and later (xlsx, xlsb) and of OpenDocument (ods).
    Spreadsheet,
    Odf,
    Epub,
    Fb2,
    Rtf,
    /// Binary Word, Excel and PowerPoint files (before 2007).
    Legacy,
    Archive,
    /// Audio, video, fonts, programs, databases: vic has no reader for them.
    Unsupported,
}

/// The media type and extensions of one format.
pub(crate) struct FormatEntry {
    pub(crate) format: Format,
    pub(crate) media_type: &'static str,
    /// Extensions in lowercase. The first one defines the [`FileKind`] of all files of this entry.
    pub(crate) extensions: &'static [&'static str],
}

const fn entry(format: Format, media_type: &'static str, extensions: &'static [&'static str]) -> FormatEntry {
    FormatEntry { format, media_type, extensions }
}

/// All formats. A lookup by media type returns the first entry that has it.
pub(crate) static FORMATS: &[FormatEntry] = &[
    entry(Format::Text, "text/plain", &["txt", "text", "log", "out", "err", "asc", "nfo", "diz", "me", "1st", "dif"]),
    entry(Format::Markdown, "text/markdown", &["md", "markdown", "mdown", "mkd", "mdx", "qmd", "rmd", "dj"]),
    entry(Format::Markup, "text/x-rst", &["rst", "rest"]),
    entry(Format::Markup, "text/org", &["org"]),
    entry(Format::Markup, "text/asciidoc", &["adoc", "asciidoc"]),
    entry(Format::Markup, "text/x-tex", &["tex", "ltx", "latex"]),
    entry(Format::Text, "text/x-wiki", &["wiki", "mediawiki", "textile", "creole"]),
    entry(Format::Text, "text/x-bibtex", &["bib", "ris"]),
    entry(Format::Html, "text/html", &["html", "htm", "xhtml", "xht", "shtml"]),
    entry(
        Format::Xml,
        "application/xml",
        &[
            "xml", "nxml", "xsl", "xslt", "xsd", "rss", "atom", "opml", "dbk", "docbook", "tei", "kml", "gpx", "plist",
            "jats", "dita",
        ],
    ),
    entry(Format::Xml, "image/svg+xml", &["svg"]),
    entry(Format::Csv, "text/csv", &["csv", "psv"]),
    entry(Format::Csv, "text/tab-separated-values", &["tsv", "tab"]),
    entry(Format::Structured, "application/json", &["json", "geojson", "json5", "jsonc", "webmanifest", "har"]),
    entry(Format::Structured, "application/jsonl", &["jsonl", "ndjson"]),
    entry(Format::Structured, "application/yaml", &["yaml", "yml"]),
    entry(Format::Structured, "application/toml", &["toml"]),
    entry(Format::Text, "text/calendar", &["ics", "ical", "vcs"]),
    entry(Format::Text, "text/vcard", &["vcf", "vcard"]),
    entry(
        Format::Structured,
        "text/x-ini",
        &["ini", "cfg", "conf", "properties", "env", "desktop", "service", "editorconfig"],
    ),
    entry(Format::Notebook, "application/x-ipynb+json", &["ipynb"]),
    entry(Format::Subtitle, "application/x-subrip", &["srt"]),
    entry(Format::Subtitle, "text/vtt", &["vtt"]),
    entry(Format::Eml, "message/rfc822", &["eml", "emlx", "mht", "mhtml"]),
    entry(Format::Mbox, "application/mbox", &["mbox", "mbx"]),
    entry(Format::Msg, "application/vnd.ms-outlook", &["msg"]),
    entry(Format::Image, "image/jpeg", &["jpg", "jpeg", "jpe", "jfif"]),
    entry(Format::Image, "image/png", &["png", "apng"]),
    entry(Format::Image, "image/gif", &["gif"]),
    entry(Format::Image, "image/webp", &["webp"]),
    entry(Format::Image, "image/tiff", &["tif", "tiff"]),
    entry(Format::Image, "image/bmp", &["bmp", "dib"]),
    entry(Format::Image, "image/heif", &["heic", "heif", "avif"]),
    entry(Format::Unsupported, "image/x-other", &["ico", "psd", "xcf", "raw", "cr2", "nef", "jxl"]),
    entry(Format::Pdf, "application/pdf", &["pdf", "ai"]),
    entry(
        Format::Docx,
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
        &["docx", "docm", "dotx", "dotm"],
    ),
    entry(
        Format::Pptx,
        "application/vnd.openxmlformats-officedocument.presentationml.presentation",
        &["pptx", "pptm", "ppsx", "ppsm", "potx"],
    ),
    entry(
        Format::Spreadsheet,
        "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
        &["xlsx", "xlsm", "xltx", "xlam"],
    ),
    entry(Format::Spreadsheet, "application/vnd.ms-excel.sheet.binary.macroenabled.12", &["xlsb"]),
    entry(Format::Spreadsheet, "application/vnd.oasis.opendocument.spreadsheet", &["ods", "ots"]),
    entry(Format::Odf, "application/vnd.oasis.opendocument.text", &["odt", "ott"]),
    entry(Format::Odf, "application/vnd.oasis.opendocument.presentation", &["odp", "otp"]),
    entry(Format::Odf, "application/vnd.oasis.opendocument.graphics", &["odg"]),
    entry(Format::Epub, "application/epub+zip", &["epub"]),
    entry(Format::Fb2, "application/x-fictionbook+xml", &["fb2"]),
    entry(Format::Rtf, "application/rtf", &["rtf"]),
    entry(Format::Legacy, "application/msword", &["doc", "dot", "wps"]),
    entry(Format::Legacy, "application/vnd.ms-excel", &["xls", "xlt"]),
    entry(Format::Legacy, "application/vnd.ms-powerpoint", &["ppt", "pps", "pot"]),
    entry(Format::Archive, "application/zip", &["zip", "jar", "war", "cbz", "kmz"]),
    entry(Format::Archive, "application/x-tar", &["tar"]),
    entry(Format::Archive, "application/gzip", &["gz", "tgz", "svgz"]),
    entry(
        Format::Unsupported,
        "application/x-other-archive",
        &["7z", "rar", "bz2", "xz", "zst", "lz4", "cab", "iso", "dmg", "deb", "rpm"],
    ),
    entry(
        Format::Unsupported,
        "application/x-other-document",
        &["pages", "one", "chm", "mobi", "azw", "azw3", "djvu", "vsdx", "vsd", "xps", "pub"],
    ),
    entry(Format::Unsupported, "application/vnd.apple.numbers", &["numbers"]),
    entry(Format::Unsupported, "application/vnd.apple.keynote", &["key"]),
    entry(
        Format::Unsupported,
        "audio/x-other",
        &["mp3", "m4a", "wav", "flac", "ogg", "opus", "aac", "wma", "aiff", "mid"],
    ),
    entry(
        Format::Unsupported,
        "video/x-other",
        &["mp4", "mkv", "mov", "avi", "webm", "wmv", "flv", "mpg", "mpeg", "m4v", "3gp"],
    ),
    entry(
        Format::Unsupported,
        "application/octet-stream",
        &[
            "bin",
            "exe",
            "dll",
            "so",
            "dylib",
            "o",
            "a",
            "class",
            "pyc",
            "wasm",
            "db",
            "sqlite",
            "sqlite3",
            "mdb",
            "accdb",
            "pst",
            "ost",
            "ttf",
            "otf",
            "woff",
            "woff2",
            "eot",
            "img",
            "vmdk",
            "qcow2",
            "npy",
            "npz",
            "parquet",
            "arrow",
            "pkl",
            "pt",
            "onnx",
            "safetensors",
            "gguf",
        ],
    ),
    entry(Format::Code, "text/x-source", CODE_EXTENSIONS),
];

/// File names of code files that have no extension, or one that does not tell the type.
const CODE_NAMES: [&str; 6] = ["makefile", "dockerfile", "cmakelists.txt", "jenkinsfile", "rakefile", "gemfile"];

/// Returns the lowercase extension without the dot; empty if there is none.
pub(crate) fn extension(name: &str) -> String {
    let file = name.rsplit(['/', '\\']).next().unwrap_or(name);
    // A name such as `.bashrc`, with nothing before the dot, has no extension.
    match file.rsplit_once('.') {
        Some((stem, extension)) if !stem.is_empty() => extension.to_ascii_lowercase(),
        _ => String::new(),
    }
}

/// Returns the format entry for a file name; `None` if the extension is unknown.
pub(crate) fn by_name(name: &str) -> Option<&'static FormatEntry> {
    let file = name.rsplit(['/', '\\']).next().unwrap_or(name).to_ascii_lowercase();
    if CODE_NAMES.contains(&file.as_str()) {
        return FORMATS.iter().find(|it| it.format == Format::Code);
    }
    let extension = extension(&file);
    FORMATS.iter().find(|it| it.extensions.contains(&extension.as_str()))
}

/// Returns the first format entry with this media type; `None` if it is unknown.
pub(crate) fn by_media_type(media_type: &str) -> Option<&'static FormatEntry> {
    FORMATS.iter().find(|it| it.media_type == media_type)
}

/// Returns the broad kind of a file (text, code, image, ...), judged by its name.
pub fn kind_of_name(name: &str) -> FileKind {
    match by_name(name) {
        Some(entry) if entry.format == Format::Code => FileKind::Code,
        _ => FileKind::from_extension(&extension(name)),
    }
}

/// Returns the broad kind of a file for its media type, as stored in [`crate::model::Document::media_type`].
pub fn kind_of_media_type(media_type: &str) -> FileKind {
    let by_family = || match media_type.split('/').next().unwrap_or_default() {
        "text" => FileKind::Text,
        "image" => FileKind::Image,
        "audio" | "video" => FileKind::Media,
        _ => FileKind::Other,
    };
    by_media_type(media_type).map_or_else(by_family, |it| FileKind::from_extension(it.extensions[0]))
}

/// Returns whether vic may be able to read a file, judged by its name: false only for types known to have no reader.
pub fn is_readable_name(name: &str) -> bool {
    by_name(name).is_none_or(|it| it.format != Format::Unsupported)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extensions_belong_to_one_format() {
        let mut all: Vec<&str> = FORMATS.iter().flat_map(|it| it.extensions.iter().copied()).collect();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
    }

    #[test]
    fn extensions_of_format_share_one_kind() {
        for entry in FORMATS.iter().filter(|it| it.format != Format::Unsupported) {
            let kind = FileKind::from_extension(entry.extensions[0]);
            for extension in entry.extensions {
                assert_eq!(FileKind::from_extension(extension), kind, "{extension}");
            }
            assert_eq!(kind_of_media_type(entry.media_type), kind, "{}", entry.media_type);
        }
    }

    #[test]
    fn kind_of_name_uses_extension() {
        assert_eq!(kind_of_name("a/b/Plan.DOCX"), FileKind::Document);
        assert_eq!(kind_of_name("Makefile"), FileKind::Code);
        assert_eq!(kind_of_name(".bashrc"), FileKind::Other);
        assert!(is_readable_name(".bashrc"));
        assert!(!is_readable_name("song.mp3"));
    }

    #[test]
    fn kind_of_media_type_is_known() {
        assert_eq!(kind_of_media_type("application/pdf"), FileKind::Pdf);
        assert_eq!(kind_of_media_type("image/x-strange"), FileKind::Image);
    }
}
