//! `vic view`: manages views, the sets of documents that corpus verbs work on.

use clap::Subcommand;
use serde_json::{Map, Value};

use crate::corpus;
use crate::output::Printer;
use vic_protocol::client::Client;
use vic_protocol::config::Config;
use vic_protocol::error::Result;
use vic_protocol::model::CorpusRequest;

/// Arguments of `vic view`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Creates a view from a filter, a set of files, or a session
    Create(Create),
    /// Lists views and sessions
    List,
    /// Shows a view and its documents
    Show {
        /// Name of the view
        name: String,
    },
    /// Deletes a view, or a session with its stored texts; files on disk are not changed
    Delete {
        /// Name of the view
        #[arg(required_unless_present = "session", conflicts_with = "session")]
        name: Option<String>,
        /// Number of the session
        #[arg(long)]
        session: Option<i64>,
    },
}

#[derive(Debug, clap::Args)]
struct Create {
    /// Name of the view
    #[arg(long)]
    name: String,
    /// Filter on metadata that documents must match, e.g. "content_type=academic AND citations>50"
    #[arg(long)]
    filter: Option<String>,
    /// Ids or paths of files, separated by commas
    #[arg(long, alias = "urls", value_delimiter = ',')]
    files: Vec<String>,
    /// Number of an ingest session, whose files the view contains
    #[arg(long)]
    session: Option<i64>,
    /// Only files changed since a date, or within a period such as `30 days`
    #[arg(long)]
    since: Option<String>,
    /// Keep the view up to date: new files that match are added
    #[arg(long)]
    auto_update: bool,
}

/// Sends the request to the daemon and prints the reply.
pub(crate) async fn run(args: Args, config: &Config, printer: &mut Printer) -> Result<()> {
    let call = CorpusRequest { verb: "VIEW".into(), request: view_request(args.action) };
    let reply = Client::connect_or_start(config).await?.corpus(call).await?;
    corpus::print_reply(&reply, printer)
}

fn view_request(action: Action) -> Map<String, Value> {
    let (name, fields) = match action {
        Action::List => ("list", vec![]),
        Action::Show { name } => ("show", vec![("name", Value::from(name))]),
        Action::Delete { name, session } => {
            let given = [("name", Value::from(name)), ("session", Value::from(session))];
            ("delete", given.into_iter().filter(|it| !it.1.is_null()).collect())
        }
        Action::Create(Create { name, filter, files, session, since, auto_update }) => {
            let files: Option<Value> = (!files.is_empty()).then(|| files.into());
            let fields = vec![
                ("name", name.into()),
                ("filter", filter.into()),
                ("files", files.unwrap_or_default()),
                ("session", session.into()),
                ("since", since.into()),
                ("auto_update", auto_update.into()),
            ];
            ("create", fields.into_iter().filter(|it: &(&str, Value)| !it.1.is_null() && it.1 != false).collect())
        }
    };
    let fields = fields.into_iter().map(|(name, value)| (name.to_string(), value));
    std::iter::once(("action".to_string(), name.into())).chain(fields).collect()
}
