//! Parses sizes, dates, durations and paths from the command line.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use chrono::{DateTime, Local, TimeZone, Utc};

use vic_protocol::client::Client;
use vic_protocol::error::{IoContext, Result};
use vic_protocol::model::{MEMBER_SEPARATOR, Place, display_path, parse_path, resolve_in_roots, split_path_and_place};
use vic_protocol::units;

/// Parses a number of bytes with an optional unit of 1024: `512`, `10k`, `1.5M`, `2GiB`.
pub fn parse_size(text: &str) -> Result<u64, String> {
    units::parse_size(text).ok_or_else(|| format!("`{text}` is not a size: use `512`, `10k`, `5M` or `1G`"))
}

/// Parses a date: `2026-05-01` (local midnight), an RFC 3339 date-time, or a time ago: `12h`, `7 days`, `2w`, `yesterday`.
pub fn parse_date(text: &str) -> Result<DateTime<Utc>, String> {
    parse_date_at(text, Local::now())
}

fn parse_date_at<Z: TimeZone>(text: &str, now: DateTime<Z>) -> Result<DateTime<Utc>, String> {
    let zone = now.timezone();
    units::parse_moment_in(text, &zone)
        .or_else(|| units::parse_time_ago(text, now.to_utc(), &zone))
        .ok_or_else(|| format!("`{text}` is not a date: use `2026-05-01`, `2026-05-01T12:00:00Z`, `7 days` or `2w`"))
}

/// Parses a duration into seconds; the unit is optional: `90`, `90s`, `30m`, `1h`, `2d`.
pub fn parse_seconds(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}` is not a duration: use `90s`, `30m`, `1h` or `2d`");
    let number = text.trim_end_matches(|it: char| !it.is_ascii_digit());
    let unit = match &text[number.len()..] {
        "" | "s" => 1,
        "m" => 60,
        "h" => 3_600,
        "d" => 24 * 3_600,
        _ => return Err(wrong()),
    };
    number.parse::<u32>().ok().filter(|it| *it > 0).map(|it| u64::from(it) * unit).ok_or_else(wrong)
}

/// Makes a path absolute by the working directory, and resolves symlinks as far as the path exists. The part after `!/`,
/// inside an archive, is not changed. Accepts a `file://` URL, and returns one for a path that is not UTF-8.
///
/// # Errors
/// The working directory does not exist.
pub fn absolute_path(path: &Path) -> Result<String> {
    let path = typed_path(path);
    let resolved = match resolve_existing(&path).or_else(|| resolve_missing(&path)) {
        Some(resolved) => resolved,
        None => std::path::absolute(&path).io_context("resolve", &path)?,
    };
    Ok(display_path(&resolved).into_owned())
}

/// Makes a path absolute like [`absolute_path`]. If the path does not exist, looks for it below the roots, because hits
/// print such paths.
///
/// # Errors
/// Several roots contain the path, or the daemon cannot list the roots.
pub async fn resolve_path(client: &Client, path: &Path) -> Result<String> {
    let path = typed_path(path);
    if path.is_absolute() || resolve_existing(&path).is_some() || path.as_os_str().is_empty() || leads_upwards(&path) {
        return absolute_path(&path);
    }
    match resolve_in_roots(&client.roots().await?, &path, |it| resolve_existing(it).is_some())? {
        Some(found) => absolute_path(&found),
        None => absolute_path(&path),
    }
}

/// Resolves an optional path by [`resolve_path`].
///
/// # Errors
/// The same as for [`resolve_path`].
pub async fn resolve_root(client: &Client, path: Option<&Path>) -> Result<Option<String>> {
    match path {
        Some(path) => resolve_path(client, path).await.map(Some),
        None => Ok(None),
    }
}

/// Resolves a path as [`resolve_path`] does, and first splits off a location at its end, as in `lease.pdf, page 3`. Returns
/// the path and the location.
///
/// # Errors
/// The same as for [`resolve_path`].
pub async fn resolve_place(client: &Client, path: &Path) -> Result<(String, Place)> {
    let Some(text) = path.to_str() else { return Ok((absolute_path(path)?, Place::default())) };
    let roots = client.roots().await?;
    for (name, place) in split_path_and_place(text) {
        let path = parse_path(name);
        if resolve_existing(&path).is_some() {
            return Ok((absolute_path(&path)?, place));
        }
        if !path.is_absolute()
            && !leads_upwards(&path)
            && let Some(found) = resolve_in_roots(&roots, &path, |it| resolve_existing(it).is_some())?
        {
            return Ok((absolute_path(&found)?, place));
        }
    }
    Ok((absolute_path(path)?, Place::default()))
}

/// Returns the typed path; for a `file://` URL, the path in the URL.
fn typed_path(path: &Path) -> PathBuf {
    path.to_str().map_or_else(|| path.to_path_buf(), parse_path)
}

fn leads_upwards(path: &Path) -> bool {
    path.components().any(|it| it == Component::ParentDir)
}

/// Returns a path with its symlinks resolved if the file, or the archive that contains it, exists.
fn resolve_existing(path: &Path) -> Option<PathBuf> {
    std::fs::canonicalize(path).ok().or_else(|| resolve_archive(path))
}

/// Resolves the archive in `archive.zip!/member`: the first part before a `!/` that is a file, because the name of a
/// folder may also end in `!`.
fn resolve_archive(path: &Path) -> Option<PathBuf> {
    let name = path.as_os_str().as_bytes();
    let archive = |at: usize| {
        let archive = std::fs::canonicalize(OsStr::from_bytes(&name[..at])).ok()?;
        archive.is_file().then_some((archive, at))
    };
    let (archive, at) = memchr::memmem::find_iter(name, MEMBER_SEPARATOR).find_map(archive)?;
    let mut resolved = archive.into_os_string();
    resolved.push(OsStr::from_bytes(&name[at..]));
    Some(resolved.into())
}

/// Resolves the folder of a file that does not exist.
fn resolve_missing(path: &Path) -> Option<PathBuf> {
    let folder = path.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Some(std::fs::canonicalize(folder).ok()?.join(path.file_name()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_parsed() {
        let zone = chrono::FixedOffset::east_opt(2 * 3_600).unwrap();
        let now = zone.with_ymd_and_hms(2026, 5, 15, 12, 0, 0).unwrap();
        for (text, expected) in [
            ("2026-05-01", Some("2026-04-30T22:00:00Z")),
            ("2026-05-01T12:00:00+02:00", Some("2026-05-01T10:00:00Z")),
            ("7d", Some("2026-05-08T10:00:00Z")),
            ("2w", Some("2026-05-01T10:00:00Z")),
            ("12h", Some("2026-05-14T22:00:00Z")),
            ("1y", Some("2025-05-15T10:00:00Z")),
            ("", None),
            ("d", None),
            ("-7d", None),
            ("7", None),
            ("7ä", None),
            ("4294967295y", None),
            ("2026-02-30", None),
            ("7 days", Some("2026-05-08T10:00:00Z")),
            ("yesterday", Some("2026-05-13T22:00:00Z")),
            ("soon", None),
        ] {
            let expected = expected.map(|it| it.parse::<DateTime<Utc>>().unwrap());
            assert_eq!(parse_date_at(text, now).ok(), expected, "{text}");
        }
    }

    #[test]
    fn durations_are_parsed() {
        for (text, expected) in [
            ("90", Some(90)),
            ("90s", Some(90)),
            ("30m", Some(1_800)),
            ("1h", Some(3_600)),
            ("2d", Some(172_800)),
            ("", None),
            ("0", None),
            ("h", None),
            ("-1h", None),
            ("1.5h", None),
            ("1 h", None),
            ("4294967296", None),
        ] {
            assert_eq!(parse_seconds(text).ok(), expected, "{text}");
        }
    }

    #[test]
    fn absolute_resolves_existing_part_of_path() {
        let dir = tempfile::tempdir().unwrap();
        let root = std::fs::canonicalize(dir.path()).unwrap();
        std::fs::create_dir(root.join("real")).unwrap();
        std::fs::write(root.join("real/a.zip"), "").unwrap();
        std::fs::create_dir(root.join("real/Wham!")).unwrap();
        std::fs::write(root.join("real/Wham!/a.zip"), "").unwrap();
        std::os::unix::fs::symlink(root.join("real"), root.join("link")).unwrap();
        for (path, expected) in [
            ("link/../real", "real"),
            ("link/a.zip", "real/a.zip"),
            ("link/a.zip!/b/c.txt", "real/a.zip!/b/c.txt"),
            ("link/Wham!/a.zip!/b/c.txt", "real/Wham!/a.zip!/b/c.txt"),
            ("gone/b.txt", "gone/b.txt"),
            ("link/../gone.txt", "gone.txt"),
        ] {
            assert_eq!(absolute_path(&root.join(path)).unwrap(), root.join(expected).to_str().unwrap(), "{path}");
        }
        let odd = root.join(OsStr::from_bytes(b"caf\xe9.txt"));
        std::fs::write(&odd, "").unwrap();
        let url = absolute_path(&odd).unwrap();
        assert!(url.starts_with("file:///") && url.ends_with("/caf%E9.txt"), "{url}");
        assert_eq!(absolute_path(Path::new(&url)).unwrap(), url);
        let here = std::fs::canonicalize(".").unwrap();
        assert_eq!(absolute_path(Path::new("no such file")).unwrap(), here.join("no such file").to_str().unwrap());
    }
}
