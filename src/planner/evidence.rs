//! Decides whether a question needs the file itself (L2), and which skills. Pure.

use crate::model::L0Filters;
use crate::planner::kinds;
use crate::planner::words::{Words, among};

pub(super) const PDF_LAYOUT: &str = "pdf_layout";
pub(super) const OCR_IMAGE: &str = "ocr_image";
pub(super) const VISION: &str = "vision";

/// Documents on paper: beside them, `total`, `stamp` and `signed` mean marks on a page.
const PAPERS: &str = "agreement agreements bill certificate contract contracts copy deed document documents form forms invoice invoices \
     lease letter letters licence license minutes order page passport pdf permit policy quote receipt receipts scan \
     statement ticket treaty waiver will";
/// Bills and similar documents.
const BILLS: &str =
    "bill bills invoice invoices order offer quote receipt receipts statement statements ticket tickets";

/// Returns the skills that the question needs, in the order of their use, and adds the filters that it implies.
pub(super) fn skills(words: &Words, filters: &mut L0Filters) -> Vec<String> {
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
    if let Some(scanned) = scanned(words) {
        skills.push(OCR_IMAGE);
        if scanned && filters.extensions.is_empty() {
            filters.extensions = kinds::scans();
        }
    }
    if let Some(photo) = picture(words) {
        skills.push(VISION);
        if photo && filters.extensions.is_empty() {
            filters.extensions = kinds::images();
        }
    }
    if text_in_image(words) {
        skills.push(OCR_IMAGE);
    }
    let order = [PDF_LAYOUT, OCR_IMAGE, VISION];
    order.into_iter().filter(|it| skills.contains(it)).map(String::from).collect()
}

fn has(words: &Words, list: &str) -> bool {
    (0..words.len()).any(|it| among(list, words.at(it)))
}

fn is_signature(words: &Words) -> bool {
    /// Words that mark other meanings of `signature`.
    const OTHERS: &str = "function method digital algorithm type key hash api gene genes integer integers cryptographic dish spectral \
         molecular mutational unsigned transcriptional";
    if has(words, OTHERS) || words.any(&["signed off", "signed up", "signed in", "signed out"]) {
        return false;
    }
    let paper = has(words, PAPERS);
    words.any(&[
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
    ]) || paper && has(words, "signed countersigned signature signatures signatory signatories unsigned")
}

fn is_total(words: &Words) -> bool {
    if words.any(&[
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
    has(words, BILLS) && has(words, "total totals subtotal vat sum")
}

fn is_table(words: &Words) -> bool {
    const NAMED: &[&str] = &[
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
        words.at(it) == "table" && words.at(it + 1).parse::<u32>().is_ok() && words.at(it.wrapping_sub(1)) != "times"
    });
    (words.any(NAMED) || numbered) && !words.any(&["table of contents", "sql table", "database table"])
}

fn is_form(words: &Words) -> bool {
    words.any(&[
        "form field",
        "form fields",
        "filled in",
        "filled out",
        "check box",
        "tick box",
        "which box",
        "which boxes",
    ]) && has(words, "form forms field fields box boxes")
        || has(words, "checkbox checkboxes") && has(words, "form forms ticked checked document pdf")
}

fn is_stamp(words: &Words) -> bool {
    let mark = has(words, "stamp stamps stamped") || words.any(&["official seal", "company seal", "the seal on"]);
    let other = has(words, "postage duty collection collecting time album");
    mark && !other && (has(words, PAPERS) || words.any(&["show the stamp", "show me the stamp"]))
}

/// Whether the question asks for a scan; `Some(true)` if it wants scans only.
fn scanned(words: &Words) -> Option<bool> {
    let paper = |it: usize| {
        among(PAPERS, words.at(it))
            || matches!(
                words.at(it),
                "originals" | "original" | "pages" | "copies" | "papers" | "files" | "version" | "invoice" | "permits"
            )
    };
    for at in 0..words.len() {
        if words.at(at) == "scanned" && (paper(at + 1) || paper(at + 2) && words.at(at + 1) != "by") {
            return Some(true);
        }
        if words.at(at) == "handwritten"
            && !matches!(words.at(at + 1), "digit" | "digits" | "character" | "text" | "recognition")
        {
            return Some(false);
        }
        if matches!(words.at(at), "scan" | "scans") && words.at(at + 1) == "of" && (paper(at + 2) || paper(at + 3)) {
            return Some(true);
        }
    }
    None
}

/// Whether the question asks about a picture; `Some(true)` if the picture is a file of its own.
fn picture(words: &Words) -> Option<bool> {
    const PHOTOS: &str = "photo photos photograph photographs picture pictures image screenshot";
    const DRAWINGS: &str = "chart diagram drawing logo graph figure sketch map";
    let shows = words.any(&[
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
    ]);
    if !shows {
        return None;
    }
    let seen = has(words, "show shows shown seen depict see visible");
    for at in 0..words.len() {
        let the = matches!(words.at(at.wrapping_sub(1)), "the" | "this" | "that" | "my" | "these" | "those");
        let start = words.at(0);
        let inside = matches!(words.at(at.wrapping_sub(2)), "in" | "on" | "describe") || start == "describe";
        if !the || !(seen || inside) {
            continue;
        }
        if among(PHOTOS, words.at(at)) {
            return Some(true);
        }
        if among(DRAWINGS, words.at(at)) && (seen && words.at(1) != "is" || start == "describe") {
            return Some(false);
        }
    }
    None
}

fn text_in_image(words: &Words) -> bool {
    words.any(&[
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
