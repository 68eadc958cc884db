//! `vic status`: shows how many files are indexed, and current problems.

use crate::output::{Format, FormatArgs, Printer, print_note};
use crate::{jobs, pause, text};
use vic_protocol::client::{self, Client};
use vic_protocol::config::Config;
use vic_protocol::error::Result;
use vic_protocol::model::{Coverage, FileState, Reason, Root, Status, Upkeep, WatchReport, display_path};

/// Arguments of `vic status`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    output: FormatArgs,
}

/// Gets the status from the daemon and prints it.
pub(crate) async fn run(args: Args, config: &Config, printer: &mut Printer) -> Result<()> {
    let status = Client::connect_or_start(config).await?.status().await?;
    if let Some(warning) = client::version_warning(&status) {
        print_note(&format!("warning: {warning}"));
    }
    match args.output.format {
        Format::Json => printer.json(&status.with_printable_paths()),
        Format::Human => printer.raw(&format_status(&status)),
    }
}

/// Formats the status as text for people, with control characters escaped for a terminal.
fn format_status(status: &Status) -> String {
    let mut lines = vec![
        daemon_line(status),
        format!("data:   {} ({} index)", status.data_dir, text::format_bytes(status.store_bytes)),
        format!("model:  {}, {} dimensions", status.embed_model, status.dimension),
        format!("mode:   {}", status.privacy_mode.name()),
    ];
    lines.extend(status.roots.iter().map(|root| format!("root:   {}", root_line(root))));
    if status.roots.is_empty() {
        lines.push("root:   none yet; `vic index FOLDER` adds one".into());
    }
    let ready = if status.index_ready { "ready" } else { "not ready" };
    lines.push(format!("index:  {ready}, {}", text::plural(status.chunks, "chunk")));
    lines.push(format!("store:  {}", upkeep_line(&status.upkeep)));
    let mut out: String = lines.iter().map(|line| format!("{}\n", text::escape_controls(line))).collect();
    out.push_str(&format_coverage(&status.coverage));
    if status.upkeep.unread_pictures > 0 {
        let files = text::plural(status.upkeep.unread_pictures, "file");
        out.push_str(&format!("        images: the text in images of {files} is not read yet\n"));
    }
    out.push_str(&format!("watch:  {}\n", watch_line(&status.watch)));
    if let Some(pause) = &status.paused {
        out.push_str(&format!("pause:  {}\n", pause::describe_pause(pause)));
    }
    for job in &status.running_jobs {
        out.push_str(&format!("{}\n", jobs::job_summary(job)));
    }
    for advice in &status.advice {
        out.push_str(&format!("advice: {}\n", text::escape_controls(advice)));
    }
    for problem in &status.degraded {
        out.push_str(&format!("warning: {}\n", text::escape_controls(problem)));
    }
    out
}

/// Describes the daemon in one line: version, address, process id, uptime and memory.
pub(crate) fn daemon_line(status: &Status) -> String {
    format!(
        "vicd:   {} at {}, pid {}, up {}, {:.0} MiB (peak {:.0} MiB)",
        status.version,
        status.listen,
        status.pid,
        text::format_duration(status.uptime_seconds as f64),
        status.rss_mib,
        status.peak_rss_mib,
    )
}

/// Describes the size and the maintenance of the store in one line.
fn upkeep_line(it: &Upkeep) -> String {
    let now = if it.now.is_empty() { String::new() } else { format!(", now {}", it.now) };
    let store = if it.store.is_empty() { String::new() } else { format!("{}: ", it.store) };
    format!(
        "{store}{}, {}, {} not in the keyword index yet, {} free on its disk{now}",
        text::plural(it.versions, "version"),
        text::plural(it.fragments, "fragment"),
        text::plural(it.unindexed_chunks, "chunk"),
        text::format_bytes(it.disk_free_bytes),
    )
}

/// Describes the state of the file watcher in one line.
fn watch_line(watch: &WatchReport) -> String {
    if !watch.watching {
        return "off; folders are scanned from time to time".into();
    }
    let mut line = text::plural(watch.folders, "folder");
    if watch.missing > 0 {
        line.push_str(&format!(", {} not watched", text::group_digits(watch.missing)));
    }
    if !watch.polled.is_empty() {
        line.push_str(&format!(
            ", {} scanned every few seconds instead",
            text::plural(watch.polled.len() as u64, "root")
        ));
    }
    if watch.overflows > 0 {
        line.push_str(&format!(", events lost {}", text::plural(watch.overflows, "time")));
    }
    if let Some(seconds) = watch.heartbeat_seconds {
        line.push_str(&format!(", heartbeat {} ago", text::format_duration(seconds)));
    }
    line
}

/// Describes a root in one line, with its problem if it has one.
pub(crate) fn root_line(root: &Root) -> String {
    let path = display_path(&root.path);
    let line = match (root.available, root.problem.as_str()) {
        (true, "") => path.into_owned(),
        (true, problem) => format!("{path} ({problem})"),
        (false, "") => format!("{path} (not available)"),
        (false, problem) => format!("{path} (not available: {problem})"),
    };
    text::escape_controls(&line).into_owned()
}

/// Describes how many files are indexed, and why the others are not.
pub(crate) fn format_coverage(it: &Coverage) -> String {
    let mut out = format!(
        "files:  {} found = {} indexed + {} skipped + {} failed + {} pending\n",
        text::group_digits(it.found),
        text::group_digits(it.indexed),
        text::group_digits(it.skipped),
        text::group_digits(it.failed),
        text::group_digits(it.pending),
    );
    if it.awaiting_vectors > 0 {
        let files = text::group_digits(it.awaiting_vectors);
        out.push_str(&format!("        indexed: {files} without vectors yet, found by keyword only\n"));
    }
    for (state, name) in [(FileState::Skipped, "skipped"), (FileState::Failed, "failed")] {
        let mut reasons: Vec<(&String, &u64)> = it
            .reasons
            .iter()
            .filter(|(reason, _)| Reason::from_name(reason).is_some_and(|it| it.state() == state))
            .collect();
        reasons.sort_by_key(|(_, number)| std::cmp::Reverse(**number));
        for (reason, number) in reasons {
            out.push_str(&format!(
                "        {name}: {} {}\n",
                text::group_digits(*number),
                text::escape_controls(reason)
            ));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use vic_protocol::model::samples;

    #[test]
    fn status_is_formatted_for_people() {
        let version = vic_protocol::client::VERSION;
        let expected = format!(
            "\
vicd:   {version} at 127.0.0.1:8765, pid 4242, up 1d 2h, 310 MiB (peak 420 MiB)
data:   /d (5.0 MiB index)
model:  all-MiniLM-L6-v2 (onnx), 384 dimensions
mode:   local_only
root:   /w
index:  ready, 1,234 chunks
store:  LanceDB: 12 versions, 3 fragments, 40 chunks not in the keyword index yet, 7.0 GiB free on its disk, now compacting
files:  12 found = 8 indexed + 2 skipped + 1 failed + 1 pending
        indexed: 3 without vectors yet, found by keyword only
        skipped: 2 too_large
        failed: 1 damaged
        images: the text in images of 5 files is not read yet
watch:  7 folders, 2 not watched, 1 root scanned every few seconds instead, events lost 1 time, heartbeat 2.5 s ago
pause:  indexing pauses; `vic resume` ends the pause
job job-1 running: 12 files found, 4 read, 1 failed, 2 removed, 40 chunks written
advice: most of the text is in German: `vic models use m` switches to a model for it
warning: watching is off: raise fs.inotify.max_user_watches
"
        );
        assert_eq!(format_status(&samples::status()), expected);
    }

    #[test]
    fn unavailable_root_shows_its_problem() {
        let root = Root { id: 1, path: "/w".into(), available: false, problem: "not mounted".into() };
        assert_eq!(root_line(&root), "/w (not available: not mounted)");
    }
}
