//! `vic mcp`: serves the Model Context Protocol over standard input and output to the client that starts it. Passes all
//! calls on to the daemon, which is started if necessary. Standard output carries only the protocol.

use std::sync::Arc;

use crate::client::Client;
use crate::config::{Config, Toolsets};
use crate::error::Result;
use crate::serve::mcp;

/// Arguments of `vic mcp`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Toolsets besides the tools for files: graph, corpus or all [default: VIC_MCP_TOOLS]
    #[arg(long, value_name = "TOOLSETS")]
    tools: Option<Toolsets>,
}

/// Serves the protocol until the client disconnects.
pub(crate) async fn run(args: Args, config: &Config) -> Result<()> {
    let client = Client::connect_or_start(config).await?;
    mcp::stdio(Arc::new(client), args.tools.unwrap_or(config.mcp_tools)).await
}
