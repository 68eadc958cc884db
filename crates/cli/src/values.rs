//! What a user may type for a size, a date and a path.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use chrono::{DateTime, Local, TimeDelta, TimeZone, Utc};

use vic_protocol::client::Client;
use vic_protocol::error::{IoContext, Result};
use vic_protocol::model::{INSIDE, Place, below_roots, namings, path_of, printed};
use vic_protocol::units;

/// Understands bytes with an optional unit of 1024: `512`, `10k`, `1.5M`, `2GiB`.
pub fn size(text: &str) -> Result<u64, String> {
    units::size(text).ok_or_else(|| format!("`{text}` is not a size: use `512`, `10k`, `5M` or `1G`"))
}

/// Understands `2026-05-01` (midnight here), RFC 3339 date-times, and `12h`, `7d`, `2w`, `1y` ago.
pub fn date(text: &str) -> Result<DateTime<Utc>, String> {
    date_at(text, Local::now())
}

fn date_at<Z: TimeZone>(text: &str, now: DateTime<Z>) -> Result<DateTime<Utc>, String> {
    let wrong = || format!("`{text}` is not a date: use `2026-05-01`, `2026-05-01T12:00:00Z`, `7d` or `2w`");
    if let Some(moment) = units::moment_in(text, &now.timezone()) {
        return Ok(moment);
    }
    let (number, unit) = text.split_at(text.len() - text.chars().next_back().map_or(0, char::len_utf8));
    let number: i64 = number.parse::<u32>().map_err(|_| wrong())?.into();
    let hours = match unit {
        "h" => number,
        "d" => number * 24,
        "w" => number * 24 * 7,
        "y" => number * 24 * 365,
        _ => return Err(wrong()),
    };
    TimeDelta::try_hours(hours).and_then(|ago| now.to_utc().checked_sub_signed(ago)).ok_or_else(wrong)
}

/// Understands a length of time in seconds, with an optional unit: `90`, `90s`, `30m`, `1h`, `2d`.
pub fn seconds(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}` is no length of time: use `90s`, `30m`, `1h` or `2d`");
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

/// Makes a path absolute against the working directory, as the daemon knows it: symlinks resolved as far as the path
/// exists. The part after `!/`, inside an archive, stays as it is. A `file://` URL is understood, and one is made of what is
/// not UTF-8.
///
/// # Errors
/// There is no working directory.
pub fn absolute(path: &Path) -> Result<String> {
    let path = typed(path);
    let resolved = match resolve(&path).or_else(|| resolve_gone(&path)) {
        Some(resolved) => resolved,
        None => std::path::absolute(&path).at("resolve", &path)?,
    };
    Ok(printed(&resolved).into_owned())
}

/// As [`absolute`]; what is not there is looked for below the roots, as hits print paths.
///
/// # Errors
/// Several roots have it, or the daemon does not tell them.
pub async fn named(client: &Client, path: &Path) -> Result<String> {
    let path = typed(path);
    if path.is_absolute() || resolve(&path).is_some() || path.as_os_str().is_empty() || leads_upwards(&path) {
        return absolute(&path);
    }
    match below_roots(&client.roots().await?, &path, |it| resolve(it).is_some())? {
        Some(found) => absolute(&found),
        None => absolute(&path),
    }
}

/// As [`named`], of a folder that may be said.
///
/// # Errors
/// As there.
pub async fn named_root(client: &Client, path: Option<&Path>) -> Result<Option<String>> {
    match path {
        Some(path) => named(client, path).await.map(Some),
        None => Ok(None),
    }
}

/// As [`named`], of what may have its place in the file behind it, `lease.pdf, page 3`: returns both.
///
/// # Errors
/// As there.
pub async fn named_place(client: &Client, path: &Path) -> Result<(String, Place)> {
    let Some(text) = path.to_str() else { return Ok((absolute(path)?, Place::default())) };
    let roots = client.roots().await?;
    for (name, place) in namings(text) {
        let path = path_of(name);
        if resolve(&path).is_some() {
            return Ok((absolute(&path)?, place));
        }
        if !path.is_absolute()
            && !leads_upwards(&path)
            && let Some(found) = below_roots(&roots, &path, |it| resolve(it).is_some())?
        {
            return Ok((absolute(&found)?, place));
        }
    }
    Ok((absolute(path)?, Place::default()))
}

/// A path as it was typed, or the one of a URL.
fn typed(path: &Path) -> PathBuf {
    path.to_str().map_or_else(|| path.to_path_buf(), path_of)
}

fn leads_upwards(path: &Path) -> bool {
    path.components().any(|it| it == Component::ParentDir)
}

/// Where something is that exists.
fn resolve(path: &Path) -> Option<PathBuf> {
    std::fs::canonicalize(path).ok().or_else(|| resolve_archive(path))
}

/// `archive.zip!/member` with the archive resolved: the first file that there is, since a folder's name may end in `!` too.
fn resolve_archive(path: &Path) -> Option<PathBuf> {
    let name = path.as_os_str().as_bytes();
    let archive = |at: usize| {
        let archive = std::fs::canonicalize(OsStr::from_bytes(&name[..at])).ok()?;
        archive.is_file().then_some((archive, at))
    };
    let (archive, at) = memchr::memmem::find_iter(name, INSIDE).find_map(archive)?;
    let mut resolved = archive.into_os_string();
    resolved.push(OsStr::from_bytes(&name[at..]));
    Some(resolved.into())
}

/// A file that is not there in a folder that is.
fn resolve_gone(path: &Path) -> Option<PathBuf> {
    let folder = path.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Some(std::fs::canonicalize(folder).ok()?.join(path.file_name()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_understood() {
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
            ("yesterday", None),
        ] {
            let expected = expected.map(|it| it.parse::<DateTime<Utc>>().unwrap());
            assert_eq!(date_at(text, now).ok(), expected, "{text}");
        }
    }

    #[test]
    fn lengths_of_time_are_understood() {
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
            assert_eq!(seconds(text).ok(), expected, "{text}");
        }
    }

    #[test]
    fn paths_are_resolved_as_far_as_they_exist() {
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
            assert_eq!(absolute(&root.join(path)).unwrap(), root.join(expected).to_str().unwrap(), "{path}");
        }
        let odd = root.join(OsStr::from_bytes(b"caf\xe9.txt"));
        std::fs::write(&odd, "").unwrap();
        let url = absolute(&odd).unwrap();
        assert!(url.starts_with("file:///") && url.ends_with("/caf%E9.txt"), "{url}");
        assert_eq!(absolute(Path::new(&url)).unwrap(), url);
        let here = std::fs::canonicalize(".").unwrap();
        assert_eq!(absolute(Path::new("no such file")).unwrap(), here.join("no such file").to_str().unwrap());
    }
}
