//! Tests of the web page in a real browser. Those that are ignored are the long form, which `make test-browser` runs.

mod accessibility;
mod failures;
mod feature_list;
mod features;
mod hostile;
mod origins;
mod session;
