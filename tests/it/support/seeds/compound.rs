//! Generates seeds in compound file formats: Office before 2007, and Outlook. Each file has the streams and tables that its
//! parser needs to get past the header.

use std::io::{Cursor, Write};
use std::time::UNIX_EPOCH;

use crate::support::seeds::SENTENCE;
use crate::support::seeds::Seed;
use crate::support::seeds::seed;

pub(super) fn compound() -> Vec<Seed> {
    vec![
        seed("letter.doc", word()),
        seed("older.doc", word_6()),
        seed("table.xls", workbook()),
        seed("talk.ppt", slides()),
        seed("letter.msg", message()),
    ]
}

/// Returns a compound file with these streams.
fn container(streams: &[(&str, &[u8])]) -> Vec<u8> {
    let mut file = cfb::CompoundFile::create(Cursor::new(Vec::new())).unwrap();
    for (path, bytes) in streams {
        if let Some((parent, _)) = path.rsplit_once('/').filter(|(parent, _)| !parent.is_empty()) {
            file.create_storage_all(parent).unwrap();
            // Fixed times: with the current time, each run would mutate different bytes.
            for folder in std::path::Path::new(parent).ancestors() {
                file.set_created_time(folder, UNIX_EPOCH).unwrap();
                file.set_modified_time(folder, UNIX_EPOCH).unwrap();
            }
        }
        file.create_stream(path).unwrap().write_all(bytes).unwrap();
    }
    file.flush().unwrap();
    file.into_inner().into_inner()
}

fn utf16(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}

fn le_bytes(all: &[u32]) -> Vec<u8> {
    all.iter().flat_map(|it| it.to_le_bytes()).collect()
}

fn put(bytes: &mut [u8], at: usize, part: &[u8]) {
    bytes[at..at + part.len()].copy_from_slice(part);
}

/// Returns a Word 97 document: a heading and a paragraph, with a piece table, a page of paragraph properties, and styles.
fn word() -> Vec<u8> {
    /// Offsets of the text and of the page of paragraph properties in the stream.
    const TEXT_AT: usize = 0x600;
    const PAGE_AT: usize = 0x800;
    let text = format!("Reeds\r{SENTENCE}\r");
    let (begin, middle, end) = (TEXT_AT as u32, TEXT_AT as u32 + 12, (TEXT_AT + 2 * text.len()) as u32);
    let mut page = [0; 512];
    put(&mut page, 0, &le_bytes(&[begin, middle, end]));
    // Offsets of the properties of each paragraph, in 16-bit words. At each offset: their length in words, and the style.
    (page[12], page[25]) = (200, 204);
    put(&mut page, 400, &[0, 1, 1, 0]);
    put(&mut page, 408, &[0, 1, 0, 0]);
    page[511] = 2;
    let plan = [le_bytes(&[0, text.len() as u32]), vec![0, 0], le_bytes(&[begin]), vec![0, 0]].concat();
    let pieces = [&[2][..], &le_bytes(&[plan.len() as u32]), &plan].concat();
    let pages = le_bytes(&[begin, end, (PAGE_AT / 512) as u32]);
    let styles = styles();
    let mut main = vec![0; PAGE_AT + 512];
    put(&mut main, 0, &[0xec, 0xa5, 0xc1, 0]);
    // Says in the header that the tables are in the stream `1Table`.
    put(&mut main, 0x0a, &[0, 2]);
    put(&mut main, 32, &[14, 0]);
    put(&mut main, 62, &[22, 0]);
    put(&mut main, 64 + 12, &le_bytes(&[text.len() as u32]));
    put(&mut main, 152, &[93, 0]);
    let mut place = 0;
    for (number, part) in [(33, &pieces), (13, &pages), (1, &styles)] {
        put(&mut main, 154 + number * 8, &le_bytes(&[place, part.len() as u32]));
        place += part.len() as u32;
    }
    put(&mut main, TEXT_AT, &utf16(&text));
    put(&mut main, PAGE_AT, &page);
    container(&[("/WordDocument", &main), ("/1Table", &[pieces, pages, styles].concat())])
}

/// Returns a style sheet with the styles `Normal` and `heading 1`, in this order.
fn styles() -> Vec<u8> {
    let mut styles = vec![18, 0, 2, 0, 10, 0];
    styles.resize(20, 0);
    for (number, name) in [(0, "Normal"), (1, "heading 1")] {
        let mut style = vec![0; 10];
        style[0] = number;
        style.extend((name.len() as u16).to_le_bytes());
        style.extend(utf16(name));
        style.extend([0, 0]);
        styles.extend((style.len() as u16).to_le_bytes());
        styles.extend(style);
    }
    styles
}

/// Returns a Word 6 document: single-byte text in two pieces, a piece table, and a font table.
fn word_6() -> Vec<u8> {
    const TEXT_AT: u32 = 0x300;
    let text = format!("Reeds\r{SENTENCE}\r");
    let mut main = vec![0; 0xa00];
    put(&mut main, 0, &[0xdc, 0xa5, 101, 0]);
    main[0x0a] = 4;
    put(&mut main, 0x18, &le_bytes(&[TEXT_AT, TEXT_AT + text.len() as u32]));
    put(&mut main, 0x34, &le_bytes(&[text.len() as u32]));
    put(&mut main, TEXT_AT as usize, text.as_bytes());
    let font = [&[16, 0, 13, 0, 0x90, 1, 0, 0][..], b"Courier\0"].concat();
    put(&mut main, 0x600, &font);
    put(&mut main, 0xd0, &le_bytes(&[0x600, font.len() as u32]));
    let mut plan = le_bytes(&[0, 6, text.len() as u32]);
    for place in [TEXT_AT, TEXT_AT + 6] {
        plan.extend([&[0, 0][..], &le_bytes(&[place]), &[0, 0]].concat());
    }
    let pieces = [&[2][..], &le_bytes(&[plan.len() as u32]), &plan].concat();
    put(&mut main, 0x700, &pieces);
    put(&mut main, 0x160, &le_bytes(&[0x700, pieces.len() as u32]));
    container(&[("/WordDocument", &main)])
}

/// Returns a record of an Excel 97 workbook.
fn workbook_record(kind: u16, body: &[u8]) -> Vec<u8> {
    [&kind.to_le_bytes()[..], &(body.len() as u16).to_le_bytes(), body].concat()
}

/// Returns an Excel 97 workbook: a sheet with a shared string, a date, and a formula with its string result.
fn workbook() -> Vec<u8> {
    let head = |kind: u8| workbook_record(0x809, &[0, 6, kind, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    let globals = |place: u32| {
        let strings = [le_bytes(&[1, 1]), vec![SENTENCE.len() as u8, 0, 0], SENTENCE.as_bytes().to_vec()].concat();
        [
            head(5),
            workbook_record(0x42, &[0xb0, 4]),
            workbook_record(0x22, &[0, 0]),
            workbook_record(0x41e, &[&[164, 0, 10, 0, 0][..], b"yyyy-mm-dd"].concat()),
            workbook_record(0xe0, &[0, 0, 164, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
            workbook_record(0x85, &[&le_bytes(&[place])[..], &[0, 0, 5, 0], b"Reeds"].concat()),
            workbook_record(0xfc, &strings),
            workbook_record(0x0a, &[]),
        ]
        .concat()
    };
    // The body of a cell begins with row, column and format. The result of the formula is the string `made`.
    let formula = [&[0, 0, 2, 0, 0, 0][..], &[0, 0, 0, 0, 0, 0, 0xff, 0xff], &[0; 6], &[7, 0, 0x17, 4, 0], b"made"];
    let sheet = [
        head(16),
        workbook_record(0x200, &[0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 3, 0, 0, 0]),
        workbook_record(0xfd, &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
        workbook_record(0x203, &[&[0, 0, 1, 0, 0, 0][..], &45_351f64.to_le_bytes()].concat()),
        workbook_record(0x06, &formula.concat()),
        workbook_record(0x207, &[&[4, 0, 0][..], b"made"].concat()),
        workbook_record(0x0a, &[]),
    ];
    let place = globals(0).len() as u32;
    container(&[("/Workbook", &[globals(place), sheet.concat()].concat())])
}

/// Returns an atom of a PowerPoint 97 presentation, or a container of atoms.
fn presentation_atom(head: u16, kind: u16, body: &[u8]) -> Vec<u8> {
    [&head.to_le_bytes()[..], &kind.to_le_bytes(), &(body.len() as u32).to_le_bytes(), body].concat()
}

/// Returns a PowerPoint 97 presentation: a slide with an outline title, a text box and notes, a directory of all parts, and
/// the stream `Current User`.
fn slides() -> Vec<u8> {
    let parts = |head: u16, kind: u16, parts: &[Vec<u8>]| presentation_atom(head | 0x0f, kind, &parts.concat());
    let is_of_kind = |kind: u32| presentation_atom(0, 0xf9f, &le_bytes(&[kind]));
    let reference = |place: u32, id: u32| presentation_atom(0, 0x3f3, &le_bytes(&[place, 0, 0, id, 0]));
    let outline = [reference(2, 256), is_of_kind(0), presentation_atom(0, 0xfa8, b"Reeds")];
    let document = [parts(0, 0xff0, &outline), parts(0x20, 0xff0, &[reference(3, 512)])];
    let words = |text: &str| presentation_atom(0, 0xfa0, &utf16(text));
    let shapes = [
        parts(0, 0xf00d, &[presentation_atom(0, 0xf9e, &le_bytes(&[0]))]),
        parts(0, 0xf00d, &[is_of_kind(4), words(SENTENCE)]),
    ];
    let slide = [presentation_atom(0, 0x3ef, &le_bytes(&[0, 0, 0, 0, 512, 0])), parts(0, 0xf004, &shapes)];
    let notes = parts(0, 0xf00d, &[is_of_kind(2), words("It waits.")]);
    let (mut stream, mut directory) = (Vec::new(), Vec::new());
    let objects = [parts(0, 0x3e8, &document), parts(0, 0x3ee, &slide), parts(0, 0x3f0, &[notes])];
    for (number, object) in objects.iter().enumerate() {
        directory.extend(le_bytes(&[(number as u32 + 1) | 1 << 20, stream.len() as u32]));
        stream.extend(object);
    }
    let directory_at = stream.len() as u32;
    stream.extend(presentation_atom(0, 0x1772, &directory));
    let edit_at = stream.len() as u32;
    stream.extend(presentation_atom(0, 0xff5, &le_bytes(&[0, 0, 0, directory_at, 1, 0, 0])));
    let user = presentation_atom(0, 0xff6, &le_bytes(&[0x14, 0xe391_c05f, edit_at, 0, 0]));
    container(&[("/Current User", &user), ("/PowerPoint Document", &stream)])
}

/// Returns an Outlook message with a table and an embedded message that has a compressed body.
fn message() -> Vec<u8> {
    let mut properties = vec![0; 32];
    // Sets the code page to 1251 and the time to 2020-01-01.
    for (number, value) in [(0x3ffd_u16, 1_251_u64), (0x39, (1_577_836_800 + 11_644_473_600) * 10_000_000)] {
        properties.extend([&[3, 0][..], &number.to_le_bytes(), &[0; 4], &value.to_le_bytes()].concat());
    }
    let rtf = b"{\\rtf1 inner}";
    let packed = [&le_bytes(&[rtf.len() as u32 + 12, rtf.len() as u32, 0x414c_454d, 0])[..], rtf].concat();
    let inner = "/__attach_version1.0_#00000001/__substg1.0_3701000D";
    container(&[
        ("/__properties_version1.0", &properties),
        ("/__substg1.0_0037001F", &utf16("Reeds")),
        ("/__substg1.0_0C1A001E", b"\xc0\xed\xed\xe0"),
        ("/__substg1.0_0C1F001F", &utf16("ann@example.org")),
        ("/__substg1.0_1000001F", &utf16(SENTENCE)),
        ("/__attach_version1.0_#00000000/__substg1.0_3707001F", &utf16("a.csv")),
        ("/__attach_version1.0_#00000000/__substg1.0_37010102", b"a,b\n1,2\n"),
        (&format!("{inner}/__properties_version1.0"), &[0; 24]),
        (&format!("{inner}/__substg1.0_0037001F"), &utf16("Inner")),
        (&format!("{inner}/__substg1.0_10090102"), &packed),
    ])
}
