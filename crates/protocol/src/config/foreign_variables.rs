//! Variables of other programs. Many libraries send data to the proxy, collector or hub that these name. vic ignores
//! them, and reports them where a user may expect otherwise.

use std::ffi::OsString;

/// Proxies, collectors, hubs, name servers, and preloaded code.
const FOREIGN_VARIABLES: [&str; 16] = [
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
pub(super) fn set_variables(lookup: &dyn Fn(&str) -> Option<OsString>) -> Vec<&'static str> {
    FOREIGN_VARIABLES.into_iter().filter(|it| lookup(it).is_some()).collect()
}
