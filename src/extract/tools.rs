//! The libraries and models that a worker can load before it is jailed.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// External libraries that readers can use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tools {
    /// Path of `libpdfium.so`. Without it, a weaker reader extracts PDFs.
    pub pdfium: Option<PathBuf>,
    /// Libraries and models for OCR in skills.
    pub ocr: Option<OcrTools>,
}

/// Libraries and models for OCR.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OcrTools {
    /// Path of the ONNX Runtime library.
    pub runtime: PathBuf,
    /// Directory of the models.
    pub models: PathBuf,
    /// Number of threads per worker.
    pub threads: usize,
}
