//! `vic bridge`: where the HTTP bridge is, after starting the daemon that serves it when none runs.

use serde::Serialize;

use crate::cli::output::{Format, FormatArgs, Printer};
use crate::client::Client;
use crate::config::Config;
use crate::error::Result;

/// Arguments of `vic bridge`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    output: FormatArgs,
}

/// What a program needs to talk to the bridge, but for the key.
#[derive(Debug, Serialize)]
struct Address {
    url: String,
    pid: u32,
    auth_enabled: bool,
    curl: String,
}

/// Starts the daemon if there is none, and prints the address.
pub(crate) async fn run(args: Args, config: &Config, printer: &mut Printer) -> Result<()> {
    let status = Client::connect_or_start(config).await?.status().await?;
    let address = address(&status.listen, status.pid, status.auth_enabled);
    match args.output.format {
        Format::Json => printer.json(&address),
        Format::Human => {
            let key = if address.auth_enabled { "asks for the key of VIC_BRIDGE_API_KEY" } else { "asks for no key" };
            printer.line(&format!("{} (pid {}), {key}", address.url, address.pid))?;
            printer.line(&address.curl)
        }
    }
}

fn address(listen: &str, pid: u32, auth_enabled: bool) -> Address {
    let url = format!("http://{listen}");
    let key = if auth_enabled { " -H \"Authorization: Bearer $VIC_BRIDGE_API_KEY\"" } else { "" };
    let curl = format!("curl -s{key} {url}/v1/ask -d '{{\"query\": \"who signed the contract?\"}}'");
    Address { url, pid, auth_enabled, curl }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_to_type_shows_the_key_by_its_variable_only() {
        let open = address("127.0.0.1:8765", 1, false).curl;
        assert_eq!(open, "curl -s http://127.0.0.1:8765/v1/ask -d '{\"query\": \"who signed the contract?\"}'");
        assert!(address("127.0.0.1:8765", 1, true).curl.contains("Bearer $VIC_BRIDGE_API_KEY"));
    }
}
