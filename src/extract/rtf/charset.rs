//! Which code page the bytes of an RTF file are in.

use encoding_rs::Encoding;

/// Returns the encoding of a Windows code page number; Windows-1252 where there is none.
pub(crate) fn of_code_page(number: i32) -> &'static Encoding {
    let label = match number {
        866 => "ibm866",
        874 => "windows-874",
        932 => "shift_jis",
        936 => "gbk",
        949 => "euc-kr",
        950 => "big5",
        10000 => "macintosh",
        65001 => "utf-8",
        1250..=1258 => {
            return Encoding::for_label(format!("windows-{number}").as_bytes()).unwrap_or(encoding_rs::WINDOWS_1252);
        }
        _ => "windows-1252",
    };
    Encoding::for_label(label.as_bytes()).unwrap_or(encoding_rs::WINDOWS_1252)
}

/// Returns the encoding that the character set of a font implies; none where the document's own holds.
pub(super) fn of_font(charset: i32) -> Option<&'static Encoding> {
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
    Some(of_code_page(page))
}
