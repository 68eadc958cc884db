//! Deep reading of single files: what looks at pixels and page layout, for the files that deserve it.

pub mod ocr;
