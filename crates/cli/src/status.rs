//! `vic status`: how much of the files is in the index, and what is not as it should be.

use crate::output::{Format, FormatArgs, Printer, note};
use crate::{jobs, pause, text};
use vic_protocol::client::{self, Client};
use vic_protocol::config::Config;
use vic_protocol::error::Result;
use vic_protocol::model::{Coverage, FileState, Reason, Root, Status, Upkeep, WatchReport, printed};

/// Arguments of `vic status`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    output: FormatArgs,
}

/// Asks, and prints.
pub(crate) async fn run(args: Args, config: &Config, printer: &mut Printer) -> Result<()> {
    let status = Client::connect_or_start(config).await?.status().await?;
    if let Some(warning) = client::version_warning(&status) {
        note(&format!("warning: {warning}"));
    }
    match args.output.format {
        Format::Json => printer.json(&status.printable()),
        Format::Human => printer.raw(&human(&status)),
    }
}

/// The status for people, made safe for a terminal.
fn human(status: &Status) -> String {
    let mut lines = vec![
        daemon_line(status),
        format!("data:   {} ({} index)", status.data_dir, text::bytes(status.store_bytes)),
        format!("model:  {}, {} dimensions", status.embed_model, status.dimension),
        format!("mode:   {}", status.privacy_mode.name()),
    ];
    lines.extend(status.roots.iter().map(|root| format!("root:   {}", root_line(root))));
    if status.roots.is_empty() {
        lines.push("root:   none yet; `vic index FOLDER` adds one".into());
    }
    let ready = if status.index_ready { "ready" } else { "not ready to be asked" };
    lines.push(format!("index:  {ready}, {}", text::plural(status.chunks, "chunk")));
    lines.push(format!("store:  {}", upkeep_line(&status.upkeep)));
    let mut out: String = lines.iter().map(|line| format!("{}\n", text::visible(line))).collect();
    out.push_str(&coverage(&status.coverage));
    if status.upkeep.unread_pictures > 0 {
        let files = text::plural(status.upkeep.unread_pictures, "file");
        out.push_str(&format!("        pictures: the text in those of {files} is to follow\n"));
    }
    out.push_str(&format!("watch:  {}\n", watch_line(&status.watch)));
    if let Some(pause) = &status.paused {
        out.push_str(&format!("pause:  {}\n", pause::sentence(pause)));
    }
    for job in &status.running_jobs {
        out.push_str(&format!("{}\n", jobs::summary(job)));
    }
    for problem in &status.degraded {
        out.push_str(&format!("warning: {}\n", text::visible(problem)));
    }
    out
}

/// One line on the daemon.
pub(crate) fn daemon_line(status: &Status) -> String {
    format!(
        "vicd:   {} at {}, pid {}, up {}, {:.0} MiB (peak {:.0} MiB)",
        status.version,
        status.listen,
        status.pid,
        text::duration(status.uptime_seconds as f64),
        status.rss_mib,
        status.peak_rss_mib,
    )
}

/// One line on the files of the store.
fn upkeep_line(it: &Upkeep) -> String {
    let now = if it.now.is_empty() { String::new() } else { format!(", now {}", it.now) };
    format!(
        "{}, {}, {} not in the keyword index yet, {} free on its disk{now}",
        text::plural(it.versions, "version"),
        text::plural(it.fragments, "fragment"),
        text::plural(it.unindexed_chunks, "chunk"),
        text::bytes(it.disk_free_bytes),
    )
}

/// One line on how changes are seen.
fn watch_line(watch: &WatchReport) -> String {
    if !watch.watching {
        return "off; folders are walked from time to time".into();
    }
    let mut line = text::plural(watch.folders, "folder");
    if watch.missing > 0 {
        line.push_str(&format!(", {} not watched", text::count(watch.missing)));
    }
    if !watch.polled.is_empty() {
        line.push_str(&format!(
            ", {} walked every few seconds instead",
            text::plural(watch.polled.len() as u64, "root")
        ));
    }
    if watch.overflows > 0 {
        line.push_str(&format!(", events lost {}", text::plural(watch.overflows, "time")));
    }
    if let Some(seconds) = watch.heartbeat_seconds {
        line.push_str(&format!(", heartbeat {} ago", text::duration(seconds)));
    }
    line
}

/// One line on a root.
pub(crate) fn root_line(root: &Root) -> String {
    let path = printed(&root.path);
    let line = match (root.available, root.problem.as_str()) {
        (true, "") => path.into_owned(),
        (true, problem) => format!("{path} ({problem})"),
        (false, "") => format!("{path} (not available)"),
        (false, problem) => format!("{path} (not available: {problem})"),
    };
    text::visible(&line).into_owned()
}

/// How much is in the index, and why the rest is not.
pub(crate) fn coverage(it: &Coverage) -> String {
    let mut out = format!(
        "files:  {} found = {} indexed + {} skipped + {} failed + {} pending\n",
        text::count(it.found),
        text::count(it.indexed),
        text::count(it.skipped),
        text::count(it.failed),
        text::count(it.pending),
    );
    if it.awaiting_vectors > 0 {
        let files = text::count(it.awaiting_vectors);
        out.push_str(&format!("        indexed: {files} found by words so far, their vectors are to follow\n"));
    }
    for (state, name) in [(FileState::Skipped, "skipped"), (FileState::Failed, "failed")] {
        let mut reasons: Vec<(&String, &u64)> = it
            .reasons
            .iter()
            .filter(|(reason, _)| Reason::from_name(reason).is_some_and(|it| it.state() == state))
            .collect();
        reasons.sort_by_key(|(_, number)| std::cmp::Reverse(**number));
        for (reason, number) in reasons {
            out.push_str(&format!("        {name}: {} {}\n", text::count(*number), text::visible(reason)));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use vic_protocol::model::samples;

    #[test]
    fn a_status_reads_like_this() {
        let version = vic_protocol::client::VERSION;
        let expected = format!(
            "\
vicd:   {version} at 127.0.0.1:8765, pid 4242, up 1d 2h, 310 MiB (peak 420 MiB)
data:   /d (5.0 MiB index)
model:  all-MiniLM-L6-v2 (onnx), 384 dimensions
mode:   local_only
root:   /w
index:  ready, 1,234 chunks
store:  12 versions, 3 fragments, 40 chunks not in the keyword index yet, 7.0 GiB free on its disk, now compacting
files:  12 found = 8 indexed + 2 skipped + 1 failed + 1 pending
        indexed: 3 found by words so far, their vectors are to follow
        skipped: 2 too_large
        failed: 1 damaged
        pictures: the text in those of 5 files is to follow
watch:  7 folders, 2 not watched, 1 root walked every few seconds instead, events lost 1 time, heartbeat 2.5 s ago
pause:  indexing pauses; `vic resume` goes on
job job-1 running: 12 files found, 4 read, 1 failed, 2 removed, 40 chunks written
warning: watching is off: raise fs.inotify.max_user_watches
"
        );
        assert_eq!(human(&samples::status()), expected);
    }

    #[test]
    fn a_root_that_is_gone_says_why() {
        let root = Root { id: 1, path: "/w".into(), available: false, problem: "not mounted".into() };
        assert_eq!(root_line(&root), "/w (not available: not mounted)");
    }
}
