//! `vic mcp`: the Model Context Protocol over standard input and output, for a client that starts it. A thin proxy: every
//! call goes to the daemon, which is started when none runs. Standard output carries the protocol and nothing else.

use std::sync::Arc;

use crate::client::Client;
use crate::config::Config;
use crate::error::Result;
use crate::serve::mcp;

/// Arguments of `vic mcp`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

/// Speaks until the client goes.
pub(crate) async fn run(_: Args, config: &Config) -> Result<()> {
    let client = Client::connect_or_start(config).await?;
    mcp::stdio(Arc::new(client)).await
}
