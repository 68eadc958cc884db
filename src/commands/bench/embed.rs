//! `vic bench embed`: measures all combinations of the given embedding settings, or finds the fastest one and stores it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use crate::bench::embed::{CallSettings, CallSize, MeasureLimits, config_label, failed_row, measure};
use crate::bench::figures::TOKENS_PER_SECOND;
use crate::bench::tune::{self, CONCURRENT_CALLS, Candidates, TunedSetting};
use crate::bench::{MatmulPeak, Report, Row, TextLengths, device, input_texts};
use crate::commands::bench::output::{OutputArgs, print_report};
use crate::commands::bench::search::parse_positive;
use crate::config::{self, Config, EmbedBackend, EmbedConfig, EmbedDevice, EmbedEngine, MAX_EMBED_THREADS};
use crate::data_dir::directory;
use crate::embed;
use crate::error::{Error, Result};
use vic_cli::output::{Printer, print_note};
use vic_cli::value_parsers;

/// How long `--autotune` measures each setting, in seconds, if `--seconds` is not given.
const DEFAULT_TUNE_SECONDS: f64 = 4.0;

/// Warning for servers, whose tokens can only be estimated because servers do not expose their tokenizers.
const SERVER_WARNING: &str = "tokens of embedding servers are estimated at four letters each: compare servers by texts/s; \
                         their memory and CPU use are not measured";

/// Settings to measure. An option that is not given has the configured value; an option with several values, separated by
/// commas, gives one row per value.
#[derive(Debug, clap::Args)]
pub(crate) struct EmbedArgs {
    /// Embed the `text` of each line of this JSON Lines file; default: generated passages
    #[arg(long, value_name = "FILE.jsonl", conflicts_with = "mix")]
    texts: Option<PathBuf>,
    /// Lengths of the generated passages
    #[arg(long, value_enum, value_delimiter = ',', default_value = "mixed")]
    mix: Vec<TextLengths>,
    /// Embedding backends: onnx, ollama or openai
    #[arg(long, value_delimiter = ',', value_parser = parse_backend)]
    backend: Vec<EmbedBackend>,
    /// Names of embedding models
    #[arg(long, value_delimiter = ',')]
    model: Vec<String>,
    /// Numeric precisions of in-process models
    #[arg(long, value_delimiter = ',', value_parser = ["int8", "fp32"])]
    precision: Vec<String>,
    /// Engines of in-process models: auto, own (vic's own encoder) or onnx (ONNX Runtime)
    #[arg(long, value_delimiter = ',', value_parser = parse_engine)]
    engine: Vec<EmbedEngine>,
    /// Numbers of texts that in-process models embed at the same time; 0 is one per core, at most eight
    #[arg(long, value_delimiter = ',', value_name = "N", value_parser = parse_threads)]
    threads: Vec<usize>,
    /// Numbers of texts per call
    #[arg(long, value_delimiter = ',', value_name = "N")]
    batch: Vec<usize>,
    /// Maximum numbers of tokens per call
    #[arg(long, value_delimiter = ',', value_name = "N", conflicts_with = "batch")]
    batch_tokens: Vec<usize>,
    /// Numbers of concurrent calls; indexing uses two
    #[arg(long, value_delimiter = ',', value_name = "N")]
    callers: Vec<usize>,
    /// Device of in-process models: cpu or cuda
    #[arg(long, value_parser = parse_device)]
    device: Option<EmbedDevice>,
    /// If the GPU cannot be used, measure the CPU instead, with a warning
    #[arg(long)]
    fallback: bool,
    /// Timeout of one call, in seconds
    #[arg(long, default_value = "120", value_name = "N", value_parser = parse_positive)]
    timeout: f64,
    /// End a measurement after this many seconds; it then counts the calls made so far
    #[arg(long, value_name = "N", value_parser = parse_positive)]
    seconds: Option<f64>,
    /// Memory limit of this process, checked after each call, e.g. 600M; a setting that exceeds it fails
    #[arg(long, value_name = "SIZE", value_parser = value_parsers::parse_size)]
    max_memory: Option<u64>,
    /// Skip measuring the peak throughput of the CPU in matrix multiplications
    #[arg(long)]
    no_peak: bool,
    /// Find the fastest number of threads and of texts per call for this machine, and store them in the data directory
    #[arg(long, conflicts_with_all = ["untune", "batch_tokens", "callers", "compare"])]
    autotune: bool,
    /// Remove the settings stored by --autotune
    #[arg(long)]
    untune: bool,
    #[command(flatten)]
    output: OutputArgs,
}

fn parse_backend(name: &str) -> Result<EmbedBackend, String> {
    let found = EmbedBackend::ALL.into_iter().find(|it| it.name() == name);
    found.ok_or_else(|| "use `onnx`, `ollama` or `openai`".to_string())
}

fn parse_engine(name: &str) -> Result<EmbedEngine, String> {
    let found = EmbedEngine::ALL.into_iter().find(|it| it.name() == name);
    found.ok_or_else(|| "use `auto`, `own` or `onnx`".to_string())
}

fn parse_device(name: &str) -> Result<EmbedDevice, String> {
    let found = EmbedDevice::ALL.into_iter().find(|it| it.name() == name);
    found.ok_or_else(|| "use `cpu` or `cuda`".to_string())
}

fn parse_threads(count: &str) -> Result<usize, String> {
    let found = count.parse::<u32>().ok().filter(|it| *it <= MAX_EMBED_THREADS);
    found.map(|it| it as usize).ok_or_else(|| format!("use a number from 0 to {MAX_EMBED_THREADS}"))
}

/// Runs the benchmark and prints the report, or stores or removes tuned settings.
pub(crate) async fn run(args: &EmbedArgs, config: &Config, printer: &mut Printer) -> Result<()> {
    if args.untune {
        let done = if config::remove_tuned(&config.data_dir)? {
            "removed the tuned setting"
        } else {
            "there is no tuned setting"
        };
        return printer.line(done);
    }
    let earlier = args.output.earlier()?;
    let mut report = Report::new("embed", Some(TOKENS_PER_SECOND));
    let config = &args.with_device(config, &mut report)?;
    if args.backends(config).iter().any(|it| *it != EmbedBackend::Onnx) {
        report.warnings.push(SERVER_WARNING.into());
    }
    // Prints the warnings before the measurement, which takes minutes; they are printed again with the result.
    report.warnings.iter().for_each(|it| print_note(&format!("warning: {it}")));
    if args.autotune {
        return autotune(args, config, report, printer).await;
    }
    let corpora = args.corpora()?;
    // Caches the peak throughput for each number of threads, so that it is measured only once.
    let mut peaks: BTreeMap<usize, MatmulPeak> = BTreeMap::new();
    for setting in args.combine_settings(config) {
        let threads = embed::onnx::thread_count(setting.config.embed.threads);
        let embed = &setting.config.embed;
        let on_processor = embed.backend == EmbedBackend::Onnx && embed.device == EmbedDevice::Cpu;
        let has_peak = !args.no_peak && on_processor;
        let peak = has_peak.then(|| &*peaks.entry(threads).or_insert_with(|| MatmulPeak::measure(threads)));
        for (mix, texts) in &corpora {
            report.rows.push(measure_setting(&setting, *mix, texts, peak).await);
        }
    }
    extend_labels(&mut report.rows, &args.varied_settings());
    print_report(report, &args.output, earlier.as_ref(), config, printer)
}

/// One combination of settings to measure.
struct Setting {
    config: Config,
    manner: CallSettings,
}

async fn measure_setting(
    setting: &Setting,
    mix: Option<TextLengths>,
    texts: &[String],
    peak: Option<&MatmulPeak>,
) -> Row {
    let measured = measure(&setting.config, texts, setting.manner, peak).await;
    let mut row = measured.unwrap_or_else(|error| failed_row(&setting.config, &setting.manner, error));
    row.setting("mix", mix.map_or("file", TextLengths::name));
    row
}

/// Adds to the labels of rows the settings in which the rows differ.
fn extend_labels(rows: &mut [Row], varied: &[&str]) {
    for row in rows {
        for key in varied {
            if let Some(value) = row.settings.get(*key) {
                let value = value.as_str().map_or_else(|| value.to_string(), String::from);
                row.label.push_str(&format!(", {} {value}", key.replace('_', " ")));
            }
        }
    }
}

impl EmbedArgs {
    /// Fails if an option has several values, because only one setting is stored, for one model.
    fn check_single_setting(&self) -> Result<()> {
        let named = [
            ("--backend", self.backend.len()),
            ("--model", self.model.len()),
            ("--precision", self.precision.len()),
            ("--engine", self.engine.len()),
            ("--mix", self.mix.len()),
        ];
        match named.into_iter().find(|it| it.1 > 1) {
            Some((option, count)) => {
                Err(Error::invalid(format!("--autotune takes one value of {option}, not {count}"))
                    .hint("--autotune varies only --threads and --batch: give one value, or omit --autotune"))
            }
            None => Ok(()),
        }
    }

    /// Returns the configuration with the device that in-process models use for this benchmark.
    fn with_device(&self, config: &Config, report: &mut Report) -> Result<Config> {
        let mut config = config.clone();
        if self.backends(&config).contains(&EmbedBackend::Onnx) {
            let asked = self.device.unwrap_or(config.embed.device);
            let (device, said) = device::choose_device(asked, &config, self.fallback)?;
            report.warnings.extend(said);
            if device != config.embed.device {
                let configured = config.embed.device.name();
                if self.autotune {
                    return Err(Error::invalid(format!(
                        "tuned settings are stored for the configured device, `{configured}`"
                    ))
                    .hint(format!("set VIC_EMBED_DEVICE={} and tune again", device.name())));
                }
                config.embed.device = device;
                if !has_precision()? {
                    config.embed.precision = device.default_precision().into();
                }
            }
        }
        Ok(config)
    }

    fn bounds(&self) -> MeasureLimits {
        MeasureLimits {
            call: Duration::from_secs_f64(self.timeout),
            total: self.seconds.map(Duration::from_secs_f64),
            memory_mib: self.max_memory.map(|it| it as f64 / f64::from(1 << 20)),
            ..MeasureLimits::default()
        }
    }

    fn backends(&self, config: &Config) -> Vec<EmbedBackend> {
        if self.backend.is_empty() { vec![config.embed.backend] } else { self.backend.clone() }
    }

    /// Returns the texts to embed, with the name of their length mix if they are generated.
    fn corpora(&self) -> Result<Vec<(Option<TextLengths>, Vec<String>)>> {
        match &self.texts {
            Some(path) => Ok(vec![(None, input_texts::read_json_lines(path, &["text"])?)]),
            None => Ok(self.mix.iter().map(|it| (Some(*it), it.generate())).collect()),
        }
    }

    /// Returns all combinations of the given values. Settings that only in-process models have are not varied for
    /// servers.
    fn combine_settings(&self, config: &Config) -> Vec<Setting> {
        let mut all = Vec::new();
        for backend in self.backends(config) {
            let usual = match backend == config.embed.backend {
                true => config.embed.model.clone(),
                false => backend.default_model().to_string(),
            };
            let mut configs = vec![config.clone()];
            configs[0].embed.backend = backend;
            configs = combine(configs, or_default(&self.model, &usual), |embed, it| embed.model = it);
            if backend == EmbedBackend::Onnx {
                let own = &config.embed;
                configs =
                    combine(configs, or_default(&self.precision, &own.precision), |embed, it| embed.precision = it);
                configs = combine(configs, or_default(&self.engine, &own.engine), |embed, it| embed.engine = it);
                configs = combine(configs, or_default(&self.threads, &own.threads), |embed, it| embed.threads = it);
            }
            for config in configs {
                all.extend(self.call_settings().map(|manner| Setting { config: config.clone(), manner }));
            }
        }
        all
    }

    fn call_settings(&self) -> impl Iterator<Item = CallSettings> + use<'_> {
        let texts = self.batch.iter().map(|it| CallSize::Texts(*it));
        let mut batches: Vec<CallSize> =
            texts.chain(self.batch_tokens.iter().map(|it| CallSize::Tokens(*it))).collect();
        if batches.is_empty() {
            batches.push(CallSize::Preferred);
        }
        let bounds = self.bounds();
        let callers = or_default(&self.callers, &CONCURRENT_CALLS);
        batches.into_iter().flat_map(move |batch| {
            callers.clone().into_iter().map(move |callers| CallSettings { batch, callers, bounds })
        })
    }

    /// Returns the names of settings that have several values and are not part of the label already.
    fn varied_settings(&self) -> Vec<&'static str> {
        let all = [
            ("mix", self.mix.len()),
            ("engine", self.engine.len()),
            ("threads", self.threads.len()),
            ("batch", self.batch.len()),
            ("batch_tokens", self.batch_tokens.len()),
            ("callers", self.callers.len()),
        ];
        all.into_iter().filter(|it| it.1 > 1).map(|it| it.0).collect()
    }
}

/// Returns each configuration combined with each value, which `set` writes into it.
fn combine<T: Clone>(configs: Vec<Config>, values: Vec<T>, set: impl Fn(&mut EmbedConfig, T)) -> Vec<Config> {
    let mut all = Vec::with_capacity(configs.len() * values.len());
    for config in configs {
        for value in &values {
            let mut config = config.clone();
            set(&mut config.embed, value.clone());
            all.push(config);
        }
    }
    all
}

/// Returns whether the precision is configured, instead of being the default of the device.
fn has_precision() -> Result<bool> {
    let settings = config::settings()?;
    Ok(settings.iter().any(|it| it.name == "VIC_EMBED_PRECISION" && it.origin != config::Origin::Default))
}

/// Returns the given values, or the usual value if none are given.
fn or_default<T: Clone>(named: &[T], usual: &T) -> Vec<T> {
    if named.is_empty() { vec![usual.clone()] } else { named.to_vec() }
}

async fn autotune(args: &EmbedArgs, config: &Config, mut report: Report, printer: &mut Printer) -> Result<()> {
    args.check_single_setting()?;
    let Some(Setting { config: setting, .. }) = args.combine_settings(config).into_iter().next() else { return Ok(()) };
    let Some((mix, texts)) = args.corpora()?.into_iter().next() else { return Ok(()) };
    let candidates = Candidates {
        threads: args.threads.clone(),
        batches: args.batch.clone(),
        seconds: args.seconds.unwrap_or(DEFAULT_TUNE_SECONDS),
        bounds: args.bounds(),
    };
    let told = |row: &Row| {
        let speed = row.get(TOKENS_PER_SECOND).unwrap_or(0.0);
        print_note(&format!("{}: {} tokens/s", row.label, TOKENS_PER_SECOND.show(speed)));
    };
    let (best, rows) = tune::tune(&setting, &texts, &candidates, told).await?;
    report.rows = rows;
    report.rows.iter_mut().for_each(|row| row.setting("mix", mix.map_or("file", TextLengths::name)));
    report.warnings.extend(store_tuned(best, &setting, &report)?);
    print_report(report, &args.output, None, config, printer)
}

/// Stores the fastest setting in the data directory; returns warnings for the user.
fn store_tuned(best: TunedSetting, config: &Config, report: &Report) -> Result<Vec<String>> {
    let mut values = vec![("VIC_EMBED_BATCH", best.batch)];
    if config.embed.backend == EmbedBackend::Onnx {
        values.insert(0, ("VIC_EMBED_THREADS", best.threads));
    }
    let machine = &report.machine;
    let remark = format!("{} on {}, {} cores, {}", config_label(config), machine.cpu, machine.cores, report.taken_at);
    directory::create_checked(config)?;
    config::write_tuned(&config.data_dir, &values, &remark)?;
    let set: Vec<String> = values.iter().map(|(name, value)| format!("{name}={value}")).collect();
    print_note(&format!(
        "stored in `{}`: {}; a daemon uses it from its next start on; `vic bench embed --untune` removes it",
        config::tuned_path(&config.data_dir).display(),
        set.join(" ")
    ));
    let over = config::settings()?.into_iter().filter(|it| {
        let set_otherwise = matches!(it.origin, config::Origin::Environment | config::Origin::File);
        set_otherwise && values.iter().any(|(name, _)| *name == it.name)
    });
    Ok(over
        .map(|it| {
            format!(
                "{} is set to {} in the environment or a file, which overrides the stored value",
                it.name,
                it.value.unwrap_or_default()
            )
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: EmbedArgs,
    }

    fn parse(line: &[&str]) -> EmbedArgs {
        Line::try_parse_from([&["x"], line].concat()).unwrap().args
    }

    fn config() -> Config {
        Config::from_lookup(&|name| (name == "VIC_DATA_DIR").then(|| "/d".into())).unwrap()
    }

    #[test]
    fn values_are_combined_and_servers_have_no_threads() {
        let check = |line: &[&str], expected: usize| {
            assert_eq!(parse(line).combine_settings(&config()).len(), expected, "{line:?}");
        };
        check(&[], 1);
        check(&["--threads", "1,2", "--precision", "int8,fp32"], 4);
        check(&["--engine", "own,onnx", "--threads", "1,2"], 4);
        check(&["--threads", "1,2", "--batch", "32,64", "--callers", "1,4"], 8);
        check(&["--backend", "ollama", "--threads", "1,2", "--precision", "int8,fp32"], 1);
        check(&["--backend", "onnx,ollama", "--threads", "1,2"], 3);
        check(&["--batch-tokens", "512,1024,2048"], 3);
    }

    #[test]
    fn unconfigured_backend_uses_its_default_model() {
        let settings = parse(&["--backend", "ollama"]).combine_settings(&config());
        assert_eq!(settings[0].config.embed.model, EmbedBackend::Ollama.default_model());
        let settings = parse(&["--backend", "ollama", "--model", "m"]).combine_settings(&config());
        assert_eq!(settings[0].config.embed.model, "m");
    }

    #[test]
    fn labels_name_varied_settings() {
        let args = parse(&["--threads", "1,2", "--batch", "64"]);
        let mut row = Row::new("model int8");
        row.setting("threads", 2);
        row.setting("batch", 64);
        let mut rows = [row];
        extend_labels(&mut rows, &args.varied_settings());
        assert_eq!(rows[0].label, "model int8, threads 2");
    }

    #[test]
    fn autotune_takes_one_setting() {
        assert!(parse(&["--autotune", "--threads", "1,2", "--batch", "32,64"]).check_single_setting().is_ok());
        for option in ["--backend=onnx,ollama", "--precision=int8,fp32", "--engine=own,onnx", "--mix=short,long"] {
            let error = parse(&["--autotune", option]).check_single_setting().unwrap_err();
            assert!(error.message.contains(option.split('=').next().unwrap()), "{error}");
        }
    }

    #[test]
    fn invalid_values_are_rejected() {
        for line in [
            &["--backend", "abacus"][..],
            &["--precision", "int4"],
            &["--engine", "cuda"],
            &["--device", "abacus"],
            &["--timeout", "0"],
            &["--batch", "8", "--batch-tokens", "8"],
            &["--autotune", "--untune"],
            &["--max-memory", "much"],
        ] {
            assert!(Line::try_parse_from([&["x"], line].concat()).is_err(), "{line:?}");
        }
    }
}
