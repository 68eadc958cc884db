//! `vic ui`: opens the web page of the daemon in the browser, or ends its sessions. Starts the daemon if none runs.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::process::{Command, Stdio};

use crate::output::{Printer, print_note};
use crate::text;
use vic_protocol::client::Client;
use vic_protocol::config::{Config, desktop_environment};
use vic_protocol::error::Result;

/// Arguments of `vic ui`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Print the address instead of opening the browser; it is valid once, for a minute
    #[arg(long)]
    print: bool,
    /// End every session of the page
    #[arg(long, conflicts_with = "print")]
    end: bool,
}

/// Opens the page in a session of its own, or ends all sessions.
pub(crate) async fn run(args: &Args, config: &Config, printer: &mut Printer) -> Result<()> {
    if args.end {
        let ended = Client::connect(config).await?.end_web_sessions().await?;
        return printer.line(&format!("ended {}", text::plural(ended, "session")));
    }
    let client = Client::connect_or_start(config).await?;
    let desktop: BTreeMap<String, String> = desktop_environment().into_iter().collect();
    let has_desktop = desktop.contains_key("DISPLAY") || desktop.contains_key("WAYLAND_DISPLAY");
    let listen = client.status().await?.listen;
    let code = client.open_web_session(desktop).await?;
    let address = page_address(&listen, config.bridge.tls.is_some(), &code);
    if args.print || !has_desktop || !open_browser(&address) {
        if !args.print {
            print_note("no browser could be started: open this address on this machine within a minute");
        }
        return printer.line(&address);
    }
    printer.line("the page is open in your browser; `vic ui --end` ends its sessions")
}

/// Returns the address of the page. The code is in the fragment, which browsers do not send, so that it is in no log.
fn page_address(listen: &str, tls: bool, code: &str) -> String {
    let scheme = if tls { "https" } else { "http" };
    let host = match listen.parse::<SocketAddr>() {
        Ok(address) if address.ip().is_unspecified() => match address.ip() {
            IpAddr::V4(_) => format!("127.0.0.1:{}", address.port()),
            IpAddr::V6(_) => format!("[::1]:{}", address.port()),
        },
        _ => listen.to_string(),
    };
    format!("{scheme}://{host}/ui/#code={code}")
}

/// Opens an address in the browser of the user; returns whether that could be started.
fn open_browser(address: &str) -> bool {
    let mut command = Command::new("xdg-open");
    command.arg(address).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|it| it.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_names_a_host_that_a_browser_can_reach() {
        for (listen, tls, expected) in [
            ("127.0.0.1:8765", false, "http://127.0.0.1:8765/ui/#code=x"),
            ("0.0.0.0:8765", true, "https://127.0.0.1:8765/ui/#code=x"),
            ("[::]:8765", true, "https://[::1]:8765/ui/#code=x"),
            ("192.0.2.7:8765", true, "https://192.0.2.7:8765/ui/#code=x"),
        ] {
            assert_eq!(page_address(listen, tls, "x"), expected);
        }
    }
}
