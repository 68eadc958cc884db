//! Opens the PDF of a job with the PDF library.

use pdfium_render::prelude::{PdfDocument, Pdfium};

use crate::extract::{self, SkillInput, new_failure, pdf_library};
use crate::model::{ExtractFailure, Reason};

/// Returns whether the file of a job is a PDF, by its content or its name.
pub(super) fn is_pdf(input: &SkillInput<'_>) -> bool {
    input.bytes.starts_with(b"%PDF") || is_pdf_name(input.name)
}

fn is_pdf_name(name: &str) -> bool {
    name.rsplit('.').next().is_some_and(|it| it.eq_ignore_ascii_case("pdf"))
}

/// Opens the PDF of a job.
pub(super) fn open_pdf<'a>(input: &SkillInput<'a>) -> Result<PdfDocument<'a>, ExtractFailure> {
    let library: Option<&'static Pdfium> = input.job.tools.pdfium.as_deref().and_then(pdf_library);
    let library = library.ok_or_else(|| {
        new_failure(Reason::UnsupportedType, "the PDF library is not installed; run `vic models pull pdfium`")
    })?;
    extract::open_pdf(library, input.bytes)
}
