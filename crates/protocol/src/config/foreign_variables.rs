//! Environment variables of other programs that send data to a proxy, collector or hub. vic ignores these variables, but
//! reports them, because a user may expect that they apply.

use std::ffi::OsString;

/// The reported variables: proxies, telemetry collectors, model hubs, name servers, and preloaded libraries.
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

/// Returns the [`FOREIGN_VARIABLES`] that are set in the environment.
pub(super) fn set_variables(lookup: &dyn Fn(&str) -> Option<OsString>) -> Vec<&'static str> {
    FOREIGN_VARIABLES.into_iter().filter(|it| lookup(it).is_some()).collect()
}
