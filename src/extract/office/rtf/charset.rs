//! Maps the code pages and font charsets that RTF files declare to text encodings.

use encoding_rs::Encoding;

/// Returns the encoding of a Windows code page; Windows-1252 if it is unknown or has no decoder (1361, 50225, 52936), and
/// for 1200 (UTF-16), which some messages declare although their text is not UTF-16.
pub(crate) fn encoding_of_code_page(number: i32) -> &'static Encoding {
    let label = match number {
        866 => "ibm866",
        874 => "windows-874",
        932 => "shift_jis",
        936 | 20936 | 51936 => "gbk",
        949 | 20949 | 51949 => "euc-kr",
        950 => "big5",
        10000 => "macintosh",
        10007 | 10017 => "x-mac-cyrillic",
        20866 => "koi8-r",
        20932 | 51932 => "euc-jp",
        21866 => "koi8-u",
        38598 => "iso-8859-8-i",
        50220..=50222 => "iso-2022-jp",
        54936 => "gb18030",
        65001 => "utf-8",
        1250..=1258 => return by_label(&format!("windows-{number}")),
        28591..=28606 => return by_label(&format!("iso-8859-{}", number - 28590)),
        _ => "windows-1252",
    };
    by_label(label)
}

fn by_label(label: &str) -> &'static Encoding {
    Encoding::for_label(label.as_bytes()).unwrap_or(encoding_rs::WINDOWS_1252)
}

/// Returns the encoding of a font charset number; `None` if the encoding of the document applies.
pub(super) fn encoding_of_font_charset(charset: i32) -> Option<&'static Encoding> {
    let page = match charset {
        77 => 10000,
        128 => 932,
        129 => 949,
        134 => 936,
        136 => 950,
        161 => 1253,
        162 => 1254,
        163 => 1258,
        177 => 1255,
        178 => 1256,
        186 => 1257,
        204 => 1251,
        222 => 874,
        238 => 1250,
        _ => return None,
    };
    Some(encoding_of_code_page(page))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn supported_code_pages_map_to_encodings() {
        for (number, name) in [
            (1251, "windows-1251"),
            (1361, "windows-1252"),
            (20127, "windows-1252"),
            (20866, "KOI8-R"),
            (21866, "KOI8-U"),
            (28591, "windows-1252"),
            (28592, "ISO-8859-2"),
            (28599, "windows-1254"),
            (28602, "windows-1252"),
            (28605, "ISO-8859-15"),
            (28606, "ISO-8859-16"),
            (50220, "ISO-2022-JP"),
            (50222, "ISO-2022-JP"),
            (51932, "EUC-JP"),
            (51949, "EUC-KR"),
            (54936, "gb18030"),
            (65001, "UTF-8"),
            (-1, "windows-1252"),
        ] {
            assert_eq!(encoding_of_code_page(number).name(), name, "{number}");
        }
    }
}
