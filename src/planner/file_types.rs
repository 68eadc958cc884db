//! The words for file types that users type in questions, and the extensions that each word means.

use crate::model::FileKind;
use crate::planner::typed_words::is_in_list;

/// A noun for a file type, found in a question.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct FileTypeNoun {
    /// The extensions that the noun means, in lower case, with the dot.
    pub(super) extensions: Vec<String>,
    /// Number of words of the noun.
    pub(super) length: usize,
    /// Whether the noun always means files: `the spreadsheet` does, `the image` or `the notes` may not.
    pub(super) is_unambiguous: bool,
    pub(super) is_plural: bool,
}

/// The extensions that a noun for files means.
enum ExtensionSet {
    /// Source code in any language.
    Code,
    Only(&'static [&'static str]),
    /// Images and PDFs, the formats of scanners.
    Scans,
}

/// Each noun in the singular, whether it always means files, and its extensions. The plural adds `s`.
const NOUNS: &[(&str, bool, ExtensionSet)] = &[
    ("pdf", true, ExtensionSet::Only(&["pdf"])),
    ("spreadsheet", true, ExtensionSet::Only(SHEETS)),
    ("worksheet", false, ExtensionSet::Only(SHEETS)),
    ("excel sheet", true, ExtensionSet::Only(EXCEL)),
    ("excel file", true, ExtensionSet::Only(EXCEL)),
    ("excel spreadsheet", true, ExtensionSet::Only(EXCEL)),
    ("excel workbook", true, ExtensionSet::Only(EXCEL)),
    ("presentation", false, ExtensionSet::Only(SLIDES)),
    ("slide", false, ExtensionSet::Only(SLIDES)),
    ("slide deck", true, ExtensionSet::Only(SLIDES)),
    ("slideshow", true, ExtensionSet::Only(SLIDES)),
    ("powerpoint", true, ExtensionSet::Only(POWERPOINT)),
    ("powerpoint file", true, ExtensionSet::Only(POWERPOINT)),
    ("powerpoint presentation", true, ExtensionSet::Only(POWERPOINT)),
    ("email", true, ExtensionSet::Only(MAIL)),
    ("e-mail", true, ExtensionSet::Only(MAIL)),
    ("mail", false, ExtensionSet::Only(MAIL)),
    ("email message", true, ExtensionSet::Only(MAIL)),
    ("note", false, ExtensionSet::Only(NOTES)),
    ("word document", true, ExtensionSet::Only(WORD)),
    ("word file", true, ExtensionSet::Only(WORD)),
    ("word doc", true, ExtensionSet::Only(WORD)),
    ("photo", true, ExtensionSet::Only(IMAGES)),
    ("photograph", true, ExtensionSet::Only(IMAGES)),
    ("picture", false, ExtensionSet::Only(IMAGES)),
    ("image", false, ExtensionSet::Only(IMAGES)),
    ("image file", true, ExtensionSet::Only(IMAGES)),
    ("screenshot", true, ExtensionSet::Only(IMAGES)),
    ("scan", false, ExtensionSet::Scans),
    ("scanned document", true, ExtensionSet::Scans),
    ("scanned file", true, ExtensionSet::Scans),
    ("scanned page", true, ExtensionSet::Scans),
    ("scanned original", true, ExtensionSet::Scans),
    ("archive", false, ExtensionSet::Only(ARCHIVES)),
    ("zip", false, ExtensionSet::Only(&["zip"])),
    ("zip archive", true, ExtensionSet::Only(&["zip"])),
    ("tarball", true, ExtensionSet::Only(&["tar", "gz", "tgz", "bz2", "xz", "zst"])),
    ("jupyter notebook", true, ExtensionSet::Only(&["ipynb"])),
    ("ebook", true, ExtensionSet::Only(&["epub", "fb2"])),
    ("e-book", true, ExtensionSet::Only(&["epub", "fb2"])),
    ("markdown file", true, ExtensionSet::Only(&["md", "markdown", "mdx"])),
    ("text file", true, ExtensionSet::Only(&["txt", "text"])),
    ("web page", false, ExtensionSet::Only(&["html", "htm", "xhtml", "mhtml"])),
    ("source file", true, ExtensionSet::Code),
    ("code file", true, ExtensionSet::Code),
    ("video", false, ExtensionSet::Only(&["mp4", "mkv", "mov", "avi", "webm", "wmv", "m4v", "mpg"])),
    ("audio file", true, ExtensionSet::Only(&["mp3", "wav", "flac", "ogg", "opus", "m4a", "aac"])),
    ("subtitle", false, ExtensionSet::Only(&["srt", "vtt"])),
];

// These lists follow the everyday meaning of the words, not the parser of the file: vic parses `.mhtml` as mail, but users
// do not call it mail.
const SHEETS: &[&str] = &["xlsx", "xlsm", "xlsb", "xls", "ods", "numbers", "csv", "tsv"];
const SLIDES: &[&str] = &["pptx", "pptm", "ppsx", "ppt", "odp", "key"];
const MAIL: &[&str] = &["eml", "mbox", "msg", "emlx"];
const IMAGES: &[&str] =
    &["png", "jpg", "jpeg", "gif", "webp", "bmp", "tif", "tiff", "heic", "heif", "avif", "ico", "psd", "raw", "dng"];
const ARCHIVES: &[&str] = &["zip", "tar", "gz", "tgz", "bz2", "xz", "zst", "7z", "rar", "jar", "cab", "iso"];
const EXCEL: &[&str] = &["xlsx", "xlsm", "xlsb", "xls"];
const POWERPOINT: &[&str] = &["pptx", "pptm", "ppsx", "ppt"];
const WORD: &[&str] = &["docx", "docm", "dotx", "doc"];
const NOTES: &[&str] = &["txt", "text", "md", "markdown", "mdx", "rst", "org", "adoc", "asciidoc"];

/// Extensions of each programming language, by common name.
const LANGUAGES: &[(&str, &[&str])] = &[
    ("bash", &["sh", "bash"]),
    ("c", &["c", "h"]),
    ("c#", &["cs"]),
    ("c++", &["cc", "cpp", "cxx", "hpp", "hh", "h"]),
    ("clojure", &["clj"]),
    ("cpp", &["cc", "cpp", "cxx", "hpp", "hh", "h"]),
    ("csharp", &["cs"]),
    ("css", &["css", "scss", "less"]),
    ("dart", &["dart"]),
    ("elixir", &["ex", "exs"]),
    ("erlang", &["erl"]),
    ("go", &["go"]),
    ("golang", &["go"]),
    ("haskell", &["hs"]),
    ("html", &["html", "htm", "xhtml"]),
    ("java", &["java"]),
    ("javascript", &["js", "mjs", "cjs", "jsx"]),
    ("js", &["js", "mjs", "cjs", "jsx"]),
    ("julia", &["jl"]),
    ("kotlin", &["kt", "kts"]),
    ("lua", &["lua"]),
    ("ocaml", &["ml"]),
    ("perl", &["pl"]),
    ("php", &["php"]),
    ("powershell", &["ps1"]),
    ("protobuf", &["proto"]),
    ("python", &["py", "pyi"]),
    ("r", &["r"]),
    ("ruby", &["rb"]),
    ("rust", &["rs"]),
    ("scala", &["scala"]),
    ("shell", &["sh", "bash", "zsh", "fish"]),
    ("sql", &["sql"]),
    ("swift", &["swift"]),
    ("ts", &["ts", "tsx"]),
    ("typescript", &["ts", "tsx"]),
    ("zig", &["zig"]),
];

/// Names of languages that are also common words or letters. Only the operator `lang:` accepts them, not plain text.
const AMBIGUOUS_LANGUAGES: &[&str] = &["c", "r", "go", "js", "ts"];

/// Extensions that are also English words, and so need a dot: `key files` does not mean `.key` slides.
const AMBIGUOUS_EXTENSIONS: &str = "ex fish go key less nim numbers org pages raw swift";

/// Nouns for source files, and whether they are plural.
const CODE_NOUNS: &[(&str, bool)] = &[
    ("code", true),
    ("source", false),
    ("sources", true),
    ("source code", true),
    ("script", false),
    ("scripts", true),
    ("file", false),
    ("files", true),
    ("program", false),
    ("programs", true),
    ("module", false),
    ("modules", true),
];

/// Returns the extensions of a programming language, without the dot.
pub(super) fn language_extensions(name: &str) -> Option<&'static [&'static str]> {
    LANGUAGES.iter().find(|(known, _)| *known == name).map(|(_, extensions)| *extensions)
}

/// Returns all names that [`language_extensions`] accepts.
pub(super) fn language_names() -> impl Iterator<Item = &'static str> {
    LANGUAGES.iter().map(|(name, _)| *name)
}

/// Whether a word is an extension of known files or a programming language: the type of files in `fichiers csv`.
pub(super) fn is_type_name(word: &str) -> bool {
    let is_extension =
        word.len() > 1 && !is_in_list(AMBIGUOUS_EXTENSIONS, word) && FileKind::from_extension(word) != FileKind::Other;
    let is_language = language_extensions(word).is_some() && !AMBIGUOUS_LANGUAGES.contains(&word);
    is_extension || is_language || matches!(word, "pdf" | "pdfs")
}

/// Parses the longest noun for a file type at the start of `words`.
pub(super) fn parse_noun(words: &[&str]) -> Option<FileTypeNoun> {
    parse_code_noun(words).or_else(|| parse_listed_noun(words)).or_else(|| parse_extension_noun(words))
}

/// Whether all these extensions, with or without the dot, are of mail files; false for an empty list.
pub(super) fn is_mail(extensions: &[String]) -> bool {
    let is_mail = |it: &str| FileKind::from_extension(it.trim_start_matches('.')) == FileKind::Mail;
    !extensions.is_empty() && extensions.iter().all(|it| is_mail(it))
}

/// Returns the extensions of mail files, with the dot.
pub(super) fn mail_extensions() -> Vec<String> {
    with_dots(MAIL)
}

/// Returns the extensions of image files, with the dot.
pub(super) fn image_extensions() -> Vec<String> {
    with_dots(IMAGES)
}

/// Returns the extensions that scanned documents may have, with the dot: PDF and images.
pub(super) fn scan_extensions() -> Vec<String> {
    ExtensionSet::Scans.extensions()
}

impl ExtensionSet {
    fn extensions(&self) -> Vec<String> {
        match self {
            ExtensionSet::Code => code_extensions(),
            ExtensionSet::Only(extensions) => with_dots(extensions),
            ExtensionSet::Scans => [with_dots(&["pdf"]), image_extensions()].concat(),
        }
    }
}

/// Returns the extensions of all programming languages, each once. HTML is left out, because it is not source code.
fn code_extensions() -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for extension in
        LANGUAGES.iter().filter(|(name, _)| *name != "html").flat_map(|(_, extensions)| with_dots(extensions))
    {
        if !all.contains(&extension) {
            all.push(extension);
        }
    }
    all
}

fn parse_listed_noun(words: &[&str]) -> Option<FileTypeNoun> {
    let mut best: Option<FileTypeNoun> = None;
    for (name, clear, of) in NOUNS {
        let length = name.split(' ').count();
        if words.len() < length || best.as_ref().is_some_and(|it| it.length >= length) {
            continue;
        }
        let typed = words[..length].join(" ");
        // Accepts the plural with `s`.
        let plural = typed.strip_suffix('s') == Some(name);
        if typed != *name && !plural {
            continue;
        }
        // `mail` without `s` is also a plural. A redundant `file` may follow a noun of one word: `zip files`, `pdf file`.
        let plural = plural || typed == "mail";
        let file = words.get(length).filter(|_| (!plural || typed == "mail") && length == 1);
        let (length, plural, clear) = match file {
            Some(&"file") => (length + 1, false, true),
            Some(&"files") => (length + 1, true, true),
            Some(&"attachments") => continue,
            _ => (length, plural, *clear),
        };
        best = Some(FileTypeNoun { extensions: of.extensions(), length, is_unambiguous: clear, is_plural: plural });
    }
    best
}

/// Parses a noun for source code: `rust code`, `python scripts`, `source code`.
fn parse_code_noun(words: &[&str]) -> Option<FileTypeNoun> {
    let joined = |length: usize| words.get(..length).map(|it| it.join(" "));
    if joined(2).as_deref() == Some("source code") {
        let extensions = code_extensions();
        return Some(FileTypeNoun { extensions, length: 2, is_unambiguous: true, is_plural: true });
    }
    let name = words.first()?;
    let extensions = language_extensions(name).filter(|_| !AMBIGUOUS_LANGUAGES.contains(name))?;
    let (noun, plural) = CODE_NOUNS.iter().rev().find(|(noun, _)| {
        let length = noun.split(' ').count();
        words.get(1..1 + length).is_some_and(|it| it.join(" ") == *noun)
    })?;
    let length = 1 + noun.split(' ').count();
    Some(FileTypeNoun { extensions: with_dots(extensions), length, is_unambiguous: true, is_plural: *plural })
}

/// Parses an extension that stands for its files: `.toml files`, `*.toml`, `toml files`, `csvs`.
fn parse_extension_noun(words: &[&str]) -> Option<FileTypeNoun> {
    let first = *words.first()?;
    let followed = matches!(words.get(1), Some(&("file" | "files")));
    let plural = words.get(1) == Some(&"files") || first.starts_with('*');
    let bare = first.trim_start_matches('*').trim_start_matches('.');
    let marked = bare.len() < first.len();
    let known = |it: &str| !is_in_list(AMBIGUOUS_EXTENSIONS, it) && FileKind::from_extension(it) != FileKind::Other;
    let starred = first.starts_with('*');
    let extension = if marked && (followed || starred) || known(bare) && followed && bare.len() > 1 {
        bare
    } else if let Some(single) =
        first.strip_suffix('s').filter(|it| matches!(*it, "csv" | "docx" | "xlsx" | "epub" | "svg"))
    {
        return Some(FileTypeNoun {
            extensions: vec![format!(".{single}")],
            length: 1,
            is_unambiguous: true,
            is_plural: true,
        });
    } else {
        return None;
    };
    let plain = !extension.is_empty() && extension.chars().all(char::is_alphanumeric);
    plain.then(|| FileTypeNoun {
        extensions: vec![format!(".{extension}")],
        length: 1 + usize::from(followed),
        is_unambiguous: true,
        is_plural: plural,
    })
}

fn with_dots(extensions: &[&str]) -> Vec<String> {
    extensions.iter().map(|it| format!(".{it}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str) -> Option<(Vec<String>, usize)> {
        parse_noun(&text.split(' ').collect::<Vec<_>>()).map(|it| (it.extensions, it.length))
    }

    #[test]
    fn noun_matches_singular_plural_and_redundant_file() {
        for (text, extension, length) in [
            ("pdfs about", ".pdf", 1),
            ("pdf files about", ".pdf", 2),
            ("word documents", ".docx", 2),
            ("rust code that", ".rs", 2),
            ("c++ source code", ".cc", 3),
            ("python scripts", ".py", 2),
            ("zip files", ".zip", 2),
            (".toml files", ".toml", 2),
            ("*.toml", ".toml", 1),
            ("toml files", ".toml", 2),
            ("csvs", ".csv", 1),
        ] {
            let (extensions, found) = check(text).unwrap_or_default();
            assert_eq!((extensions.first().map(String::as_str), found), (Some(extension), length), "{text}");
        }
    }

    #[test]
    fn other_words_match_no_file_type() {
        for text in ["contracts", "go files", "r code", "c code", "documents", ".pdf", "notebook", "code of", "key", ""]
        {
            assert_eq!(check(text), None, "{text}");
        }
    }
}
