//! Decides whether a question needs L2 (skills that read the best files page by page), and which skills. Pure functions.

use crate::model::L0Filters;
use crate::planner::file_types;
use crate::planner::words::{Words, is_in_list};

pub(super) const PDF_LAYOUT: &str = "pdf_layout";
pub(super) const OCR_IMAGE: &str = "ocr_image";
pub(super) const VISION: &str = "vision";

/// Nouns for documents on paper. In a question with one of them, `stamp`, `signed` and the like mean marks on a page.
const PAPER_NOUNS: &str = "agreement agreements bill certificate contract contracts copy deed document documents form forms invoice invoices \
     lease letter letters licence license minutes order page passport pdf permit policy quote receipt receipts scan \
     statement ticket treaty waiver will";
/// Nouns for bills and similar documents, in which a `total` is a figure on the page.
const BILL_NOUNS: &str =
    "bill bills invoice invoices order offer quote receipt receipts statement statements ticket tickets";

/// Returns the skills that the question needs, in the order in which they run, and adds the file types that the question
/// implies to `filters`.
pub(super) fn needed_skills(words: &Words, filters: &mut L0Filters) -> Vec<String> {
    let mut skills: Vec<&str> = Vec::new();
    if is_signature(words) || is_total(words) {
        skills.extend([PDF_LAYOUT, OCR_IMAGE]);
    }
    if is_table(words) || is_form(words) {
        skills.push(PDF_LAYOUT);
    }
    if is_stamp(words) {
        skills.extend([OCR_IMAGE, VISION]);
    }
    if let Some(scanned) = asks_for_scan(words) {
        skills.push(OCR_IMAGE);
        if scanned && filters.extensions.is_empty() {
            filters.extensions = file_types::scan_extensions();
        }
    }
    if let Some(photo) = asks_for_picture(words) {
        skills.push(VISION);
        if photo && filters.extensions.is_empty() {
            filters.extensions = file_types::image_extensions();
        }
    }
    if asks_for_text_in_image(words) {
        skills.push(OCR_IMAGE);
    }
    let order = [PDF_LAYOUT, OCR_IMAGE, VISION];
    order.into_iter().filter(|it| skills.contains(it)).map(String::from).collect()
}

fn contains_any(words: &Words, list: &str) -> bool {
    (0..words.len()).any(|it| is_in_list(list, words.normalized_at(it)))
}

fn is_signature(words: &Words) -> bool {
    /// Words that show that `signature` does not mean a signature on paper.
    const OTHER_SIGNATURES: &str = "function method digital algorithm type key hash api gene genes integer integers cryptographic dish spectral \
         molecular mutational unsigned transcriptional";
    if contains_any(words, OTHER_SIGNATURES)
        || words.contains_any(&["signed off", "signed up", "signed in", "signed out"])
    {
        return false;
    }
    let paper = contains_any(words, PAPER_NOUNS);
    words.contains_any(&[
        "who signed",
        "who countersigned",
        "who has signed",
        "who else signed",
        "whose signature",
        "the signature",
        "signature page",
        "signature block",
        "signature field",
        "signature line",
        "show signature",
    ]) || paper && contains_any(words, "signed countersigned signature signatures signatory signatories unsigned")
}

fn is_total(words: &Words) -> bool {
    if words.contains_any(&[
        "grand total",
        "total amount due",
        "total due",
        "amount due",
        "balance due",
        "total payable",
        "amount payable",
    ]) {
        return true;
    }
    contains_any(words, BILL_NOUNS) && contains_any(words, "total totals subtotal vat sum")
}

fn is_table(words: &Words) -> bool {
    const TABLE_PHRASES: &[&str] = &[
        "in the table",
        "from the table",
        "in the fee table",
        "in the price table",
        "in the rate table",
        "fee table",
        "price table",
        "table on page",
        "which row",
        "rows of the table",
        "columns of the table",
        "column of the table",
        "row of the table",
        "in that table",
        "table lists",
        "table shows",
        "show the table",
        "show me the table",
        "as a table",
        "the tables in",
        "in the tables",
    ];
    let numbered = (0..words.len()).any(|it| {
        words.normalized_at(it) == "table"
            && words.normalized_at(it + 1).parse::<u32>().is_ok()
            && words.normalized_at(it.wrapping_sub(1)) != "times"
    });
    (words.contains_any(TABLE_PHRASES) || numbered)
        && !words.contains_any(&["table of contents", "sql table", "database table"])
}

fn is_form(words: &Words) -> bool {
    words.contains_any(&[
        "form field",
        "form fields",
        "filled in",
        "filled out",
        "check box",
        "tick box",
        "which box",
        "which boxes",
    ]) && contains_any(words, "form forms field fields box boxes")
        || contains_any(words, "checkbox checkboxes") && contains_any(words, "form forms ticked checked document pdf")
}

fn is_stamp(words: &Words) -> bool {
    let mark = contains_any(words, "stamp stamps stamped")
        || words.contains_any(&["official seal", "company seal", "the seal on"]);
    let other = contains_any(words, "postage duty collection collecting time album");
    mark && !other && (contains_any(words, PAPER_NOUNS) || words.contains_any(&["show the stamp", "show me the stamp"]))
}

/// Whether the question asks about scans: `Some(true)` if for scanned files, `Some(false)` if only for handwriting.
fn asks_for_scan(words: &Words) -> Option<bool> {
    let paper = |it: usize| {
        is_in_list(PAPER_NOUNS, words.normalized_at(it))
            || matches!(
                words.normalized_at(it),
                "originals" | "original" | "pages" | "copies" | "papers" | "files" | "version" | "invoice" | "permits"
            )
    };
    for at in 0..words.len() {
        if words.normalized_at(at) == "scanned"
            && (paper(at + 1) || paper(at + 2) && words.normalized_at(at + 1) != "by")
        {
            return Some(true);
        }
        if words.normalized_at(at) == "handwritten"
            && !matches!(words.normalized_at(at + 1), "digit" | "digits" | "character" | "text" | "recognition")
        {
            return Some(false);
        }
        if matches!(words.normalized_at(at), "scan" | "scans")
            && words.normalized_at(at + 1) == "of"
            && (paper(at + 2) || paper(at + 3))
        {
            return Some(true);
        }
    }
    None
}

/// Phrases that ask what an image shows.
const PICTURE_QUESTIONS: &[&str] = &[
    "what does",
    "what do",
    "what is in",
    "what's in",
    "what is on",
    "who is in",
    "who is on",
    "who can be seen",
    "what can be seen",
    "describe",
    "how many people are in",
    "what colour is",
    "what color is",
    "is there a",
];

/// Whether the question asks what an image shows: `Some(true)` if the image is a file of its own, such as a photo,
/// `Some(false)` if it is a drawing such as a chart, which may be part of a document.
fn asks_for_picture(words: &Words) -> Option<bool> {
    const PHOTOS: &str = "photo photos photograph photographs picture pictures image screenshot";
    const DRAWINGS: &str = "chart diagram drawing logo graph figure sketch map";
    if !words.contains_any(PICTURE_QUESTIONS) {
        return None;
    }
    let seen = contains_any(words, "show shows shown seen depict see visible");
    for at in 0..words.len() {
        let the = matches!(words.normalized_at(at.wrapping_sub(1)), "the" | "this" | "that" | "my" | "these" | "those");
        let start = words.normalized_at(0);
        let inside = matches!(words.normalized_at(at.wrapping_sub(2)), "in" | "on" | "describe") || start == "describe";
        if !the || !(seen || inside) {
            continue;
        }
        if is_in_list(PHOTOS, words.normalized_at(at)) {
            return Some(true);
        }
        if is_in_list(DRAWINGS, words.normalized_at(at))
            && (seen && words.normalized_at(1) != "is" || start == "describe")
        {
            return Some(false);
        }
    }
    None
}

fn asks_for_text_in_image(words: &Words) -> bool {
    words.contains_any(&[
        "text in the image",
        "text on the image",
        "text in the photo",
        "text on the photo",
        "text in the screenshot",
        "text on the sign",
        "written on the sign",
        "text of the image",
        "text of the scan",
    ])
}
