//! `vic models suggest`: samples the languages of the index and names the model that fits them.

use serde::Serialize;
use vic_cli::output::{Format, Printer};

use crate::client::Client;
use crate::config::{Config, EmbedBackend};
use crate::embed::models::ModelStore;
use crate::embed::suggest_model;
use crate::error::{Error, Result};
use crate::text::language_name;

/// What `vic models suggest` prints.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Report {
    /// Model in use.
    current: String,
    /// Languages of the sample, the most frequent first.
    languages: Vec<LanguageShare>,
    /// Name of the model that fits better; `None` if the current one fits.
    suggested: Option<String>,
    /// The suggestion as a sentence with the command to type.
    advice: String,
}

/// The share of one language in the sample.
#[derive(Debug, PartialEq, Serialize)]
struct LanguageShare {
    /// ISO 639-1 code.
    code: String,
    /// English name.
    name: String,
    /// Number of chunks.
    chunks: u64,
    /// Share of the chunks whose language is clear, from 0 to 1.
    share: f64,
}

/// Asks the daemon for the languages, and prints them with the suggestion.
pub(super) async fn run(store: &ModelStore, config: &Config, format: Format, printer: &mut Printer) -> Result<()> {
    if config.embed.backend != EmbedBackend::Onnx {
        let backend = config.embed.backend.name();
        return Err(Error::invalid(format!("the embedding backend is `{backend}`, whose models vic does not know"))
            .hint("set VIC_EMBED_BACKEND to `onnx` to use a model of `vic models list`"));
    }
    let status = Client::connect_or_start(config).await?.status().await?;
    let suggestion = suggest_model(&store.entries()?, &config.embed.model, &status.languages);
    let total: u64 = status.languages.values().sum();
    let mut languages: Vec<LanguageShare> = status
        .languages
        .iter()
        .map(|(code, chunks)| LanguageShare {
            code: code.clone(),
            name: language_name(code).to_string(),
            chunks: *chunks,
            share: *chunks as f64 / total.max(1) as f64,
        })
        .collect();
    languages.sort_by(|a, b| b.chunks.cmp(&a.chunks).then_with(|| a.code.cmp(&b.code)));
    let advice = match &suggestion {
        Some(it) => it.sentence(),
        None if total == 0 => "the index has no text of a clear language yet; `vic index FOLDER` adds some".into(),
        None => format!("`{}` fits the text", config.embed.model),
    };
    let report =
        Report { current: config.embed.model.clone(), languages, suggested: suggestion.map(|it| it.model), advice };
    match format {
        Format::Json => printer.json(&report),
        Format::Human => printer.raw(&report_text(&report)),
    }
}

fn report_text(report: &Report) -> String {
    let lines = report.languages.iter().map(|it| {
        let chunks = vic_cli::text::plural(it.chunks, "chunk");
        format!("{:3.0} %  {} ({chunks} of the sample)\n", it.share * 100.0, it.name)
    });
    lines.collect::<String>() + &report.advice + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_names_shares_and_advice() {
        let share = |code: &str, chunks, share| LanguageShare {
            code: code.into(),
            name: language_name(code).into(),
            chunks,
            share,
        };
        let report = Report {
            current: "m".into(),
            languages: vec![share("de", 9, 0.9), share("en", 1, 0.1)],
            suggested: None,
            advice: "`m` fits the text".into(),
        };
        let expected =
            " 90 %  German (9 chunks of the sample)\n 10 %  English (1 chunk of the sample)\n`m` fits the text\n";
        assert_eq!(report_text(&report), expected);
    }
}
