//! `vic bridge`: prints the address of the HTTP API, and how to authenticate. Starts the daemon if none runs.

use std::path::PathBuf;

use serde::Serialize;

use crate::output::{Format, FormatArgs, Printer};
use crate::text;
use vic_protocol::client::Client;
use vic_protocol::config::Config;
use vic_protocol::error::Result;
use vic_protocol::model::Status;

/// Arguments of `vic bridge`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    output: FormatArgs,
}

/// What a program needs to use the HTTP API. Does not contain the key itself.
#[derive(Debug, Serialize)]
struct BridgeAddress {
    url: String,
    pid: u32,
    auth_enabled: bool,
    /// The file that contains the key; `None` if VIC_BRIDGE_API_KEY contains the key, or if no key is needed.
    key_file: Option<PathBuf>,
    curl: String,
}

/// Starts the daemon if none runs, and prints the address of the HTTP API.
pub(crate) async fn run(args: Args, config: &Config, printer: &mut Printer) -> Result<()> {
    let status = Client::connect_or_start(config).await?.status().await?;
    let address = bridge_address(&status, config);
    match args.output.format {
        Format::Json => printer.json(&address),
        Format::Human => {
            let key = match (&address.key_file, address.auth_enabled) {
                (Some(path), _) => format!("the key is in {}", text::escape_controls(&path.to_string_lossy())),
                (None, true) => "the key is in VIC_BRIDGE_API_KEY".into(),
                (None, false) => "no key is required".into(),
            };
            printer.line(&format!("{} (pid {}), {key}", address.url, address.pid))?;
            printer.line(&address.curl)
        }
    }
}

fn bridge_address(status: &Status, config: &Config) -> BridgeAddress {
    let scheme = if config.bridge.tls.is_some() { "https" } else { "http" };
    let url = format!("{scheme}://{}", status.listen);
    let own = status.auth_enabled && config.bridge.api_key.is_none();
    let key_file = own.then(|| config.key_path());
    let key = match (&key_file, status.auth_enabled) {
        (Some(path), _) => {
            format!(" -H \"Authorization: Bearer $(cat {})\"", shell_quoted(&path.to_string_lossy()))
        }
        (None, true) => " -H \"Authorization: Bearer $VIC_BRIDGE_API_KEY\"".into(),
        (None, false) => String::new(),
    };
    let curl = format!("curl -s{key} {url}/v1/ask -d '{{\"query\": \"who signed the contract?\"}}'");
    BridgeAddress { url, pid: status.pid, auth_enabled: status.auth_enabled, key_file, curl }
}

/// Quotes a word for a shell. The result can also be used in a command substitution within double quotes.
fn shell_quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;
    use vic_protocol::model::samples;

    fn check(auth_enabled: bool, variables: &[(&str, &str)]) -> BridgeAddress {
        let lookup = |name: &str| {
            let given = variables.iter().find(|(it, _)| *it == name).map(|(_, value)| OsString::from(value));
            given.or_else(|| (name == "VIC_DATA_DIR").then(|| "/d'ata".into()))
        };
        bridge_address(&Status { auth_enabled, ..samples::status() }, &Config::from_lookup(&lookup).unwrap())
    }

    #[test]
    fn curl_line_refers_to_key_without_showing_it() {
        let open = check(false, &[]);
        assert_eq!(open.curl, "curl -s http://127.0.0.1:8765/v1/ask -d '{\"query\": \"who signed the contract?\"}'");
        let own = check(true, &[]);
        assert!(own.curl.contains("Bearer $(cat '/d'\\''ata/key')"), "{}", own.curl);
        assert_eq!(own.key_file, Some("/d'ata/key".into()));
        let given = check(true, &[("VIC_BRIDGE_API_KEY", "s3cret")]);
        assert!(given.curl.contains("Bearer $VIC_BRIDGE_API_KEY") && given.key_file.is_none(), "{}", given.curl);
    }

    #[test]
    fn certificate_makes_scheme_https() {
        let address = check(true, &[("VIC_BRIDGE_TLS_CERT", "/c"), ("VIC_BRIDGE_TLS_KEY", "/k")]);
        assert_eq!(address.url, "https://127.0.0.1:8765");
    }
}
