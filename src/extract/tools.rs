//! The libraries and models that a worker can load before it is jailed.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// External libraries and models that workers can load; `None` if they are not installed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tools {
    /// Path of `libpdfium.so`. Without this library, a weaker reader extracts PDFs.
    pub pdfium: Option<PathBuf>,
    /// Libraries and models for the OCR skills.
    pub ocr: Option<OcrTools>,
}

/// Library, models and thread count for OCR.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OcrTools {
    /// Path of the ONNX Runtime library.
    pub runtime: PathBuf,
    /// Directory of the OCR models.
    pub models: PathBuf,
    /// Number of OCR threads per worker.
    pub threads: usize,
}
