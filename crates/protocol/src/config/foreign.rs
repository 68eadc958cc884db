//! Variables of other programs. Libraries of many of them send what they see through a proxy, to a collector or to a hub;
//! vic asks none of these variables, and says so where somebody may believe that it does.

use std::ffi::OsString;

/// Proxies, collectors, hubs, name servers, and code that is put into every program.
const NAMES: [&str; 16] = [
    "HTTP_PROXY",
    "http_proxy",
    "HTTPS_PROXY",
    "https_proxy",
    "ALL_PROXY",
    "all_proxy",
    "RES_OPTIONS",
    "LOCALDOMAIN",
    "LD_PRELOAD",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT",
    "OTEL_TRACES_EXPORTER",
    "HF_ENDPOINT",
    "HF_TOKEN",
    "SENTRY_DSN",
];

/// Returns those that are set.
pub(super) fn set(lookup: &dyn Fn(&str) -> Option<OsString>) -> Vec<&'static str> {
    NAMES.into_iter().filter(|it| lookup(it).is_some()).collect()
}
