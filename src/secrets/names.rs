//! Known secrets: files whose content is never read, whatever the ignore rules say.
//!
//! A table of names, not a detector: a key in `notes.txt` is not found here.

use std::ffi::OsStr;
use std::path::{Component, Path};

/// What a path alone says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Not a known secret.
    Plain,
    /// A known secret.
    Secret,
    /// A private key, unless it is large and begins like a zip archive: Keynote presentations share the extension.
    SecretUnlessZip,
}

/// Whole names, in lower case.
const NAMES: &[&str] = &[
    ".netrc",
    "_netrc",
    ".pgpass",
    "pgpass.conf",
    ".my.cnf",
    ".git-credentials",
    ".htpasswd",
    ".npmrc",
    ".pypirc",
    ".vault-token",
    ".dockercfg",
    "credentials",
    "credentials.json",
    "application_default_credentials.json",
    ".bash_history",
    ".zsh_history",
    ".sh_history",
    ".python_history",
    ".psql_history",
    ".mysql_history",
    ".sqlite_history",
    ".node_repl_history",
    "fish_history",
    "consolehost_history.txt",
    ".boto",
    ".s3cfg",
    ".passwd-s3fs",
    ".rclone.conf",
    "rclone.conf",
    "service-account.json",
    "service_account.json",
    "client_secret.json",
    "secrets.yml",
    "secrets.yaml",
    "secrets.json",
    "secrets.toml",
    "terraform.tfstate",
    "terraform.tfstate.backup",
    "web data",
    "cookies",
    "cookies-journal",
    "wallet.dat",
    "login data",
    "logins.json",
    "key3.db",
    "key4.db",
    "cookies.sqlite",
    "secring.gpg",
];

/// Names of private keys; a suffix after `_` or `-` still names a key, an extension does not, except those of backups.
const KEY_NAMES: &[&str] = &["id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", "id_ecdsa_sk", "id_ed25519_sk"];

/// Extensions under which a copy of a key is still a key.
const BACKUP_EXTENSIONS: &[&str] = &["bak", "old", "orig", "backup", "key", "pem", "ppk"];

/// Extensions, in lower case.
const EXTENSIONS: &[&str] =
    &["pem", "p12", "pfx", "p8", "kdbx", "kdb", "keychain", "keychain-db", "jks", "keystore", "ppk", "env", "ovpn"];

/// Endings of `.env.*` that are templates, made to be read.
const ENV_TEMPLATES: &[&str] = &["example", "sample", "template", "dist", "defaults"];

/// Folders whose files are all secret, as consecutive components in lower case.
const FOLDERS: &[&[&str]] = &[
    &[".ssh"],
    &[".aws"],
    &[".gnupg"],
    &[".azure"],
    &[".pki"],
    &[".kube"],
    &[".docker"],
    &[".password-store"],
    &[".mozilla"],
    &[".thunderbird"],
    &[".config", "gcloud"],
    &[".config", "gh"],
    &[".config", "google-chrome"],
    &[".config", "chromium"],
    &[".config", "bravesoftware"],
    &[".config", "microsoft-edge"],
    &[".local", "share", "keyrings"],
    &[".config", "rclone"],
    &[".config", "op"],
    &[".config", "vivaldi"],
    &[".config", "opera"],
    &[".terraform.d"],
    &[".minikube"],
    &["library", "keychains"],
    &["library", "cookies"],
    &["library", "safari"],
    &["google", "chrome", "user data"],
    &["application support", "google", "chrome"],
    &["application support", "firefox", "profiles"],
];

/// Judges an absolute path by its folders and its name.
pub fn judge(path: &Path) -> Verdict {
    if in_secret_folder(path) {
        return Verdict::Secret;
    }
    let Some(name) = path.file_name() else { return Verdict::Plain };
    let name = lower(name);
    if NAMES.contains(&name.as_str()) || is_key_name(&name) || is_env(&name) {
        return Verdict::Secret;
    }
    match name.rsplit_once('.') {
        // `.key` alone is a hidden file, not an extension, and just as likely a key.
        Some((_, "key")) => Verdict::SecretUnlessZip,
        Some((_, extension)) if EXTENSIONS.contains(&extension) => Verdict::Secret,
        _ => Verdict::Plain,
    }
}

fn is_key_name(name: &str) -> bool {
    let (stem, extension) = name.split_once('.').unwrap_or((name, ""));
    let is_key = KEY_NAMES.iter().any(|key| match stem.strip_prefix(key) {
        Some("") => true,
        Some(rest) => rest.starts_with(['_', '-']),
        None => false,
    });
    is_key && (extension.is_empty() || BACKUP_EXTENSIONS.contains(&extension))
}

fn is_env(name: &str) -> bool {
    match name.strip_prefix(".env") {
        Some("") => true,
        Some(rest) => match rest.strip_prefix('.') {
            Some(kind) => !ENV_TEMPLATES.iter().any(|it| kind == *it || kind.ends_with(&format!(".{it}"))),
            None => false,
        },
        None => false,
    }
}

fn in_secret_folder(path: &Path) -> bool {
    // Without an allocation for the usual path: the first folder name of each entry is looked for first.
    let Some(parent) = path.parent() else { return false };
    let mut components = parent.components();
    while let Some(component) = components.next() {
        let Component::Normal(name) = component else { continue };
        for folder in FOLDERS {
            if !name.eq_ignore_ascii_case(folder[0]) {
                continue;
            }
            let mut rest = components.clone();
            let follows = |it: &&str| rest.next().is_some_and(|next| next.as_os_str().eq_ignore_ascii_case(it));
            if folder[1..].iter().all(follows) {
                return true;
            }
        }
    }
    false
}

fn lower(name: &OsStr) -> String {
    name.to_string_lossy().to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(expected: Verdict, paths: &[&str]) {
        for path in paths {
            assert_eq!(judge(Path::new(path)), expected, "{path}");
        }
    }

    #[test]
    fn known_secrets_are_known_by_name() {
        check(
            Verdict::Secret,
            &[
                "/r/.env",
                "/r/.env.local",
                "/r/prod.env",
                "/r/id_rsa",
                "/r/ID_RSA",
                "/r/id_ed25519-work",
                "/r/id_rsa.bak",
                "/r/server.pem",
                "/r/cert.P12",
                "/r/cert.pfx",
                "/r/passwords.kdbx",
                "/r/.netrc",
                "/r/.pgpass",
                "/r/credentials",
                "/r/login.keychain",
                "/r/login.keychain-db",
                "/r/wallet.dat",
                "/h/.ssh/config",
                "/h/.aws/anything",
                "/h/.gnupg/x/y",
                "/h/.config/google-chrome/Default/Preferences",
                "/h/Library/Keychains/a.txt",
                "/p/Login Data",
                "/h/.pki/nssdb/cert9.db",
                "/h/.bash_history",
                "/r/service-account.json",
            ],
        );
    }

    #[test]
    fn names_that_only_sound_secret_are_plain() {
        check(
            Verdict::Plain,
            &[
                "/r/public-key.txt",
                "/r/key.md",
                "/r/keys.csv",
                "/r/id_rsa.pub",
                "/r/id_rsa_notes.md",
                "/r/environment.yml",
                "/r/.env.example",
                "/r/.env.production.sample",
                "/r/credentials.md",
                "/r/history.txt",
                "/r/cookies.md",
                "/r/secrets.md",
                "/r/ssh/config",
                "/r/.config/app/settings.toml",
                "/r/.ssh",
                "/r/password policy.docx",
            ],
        );
    }

    #[test]
    fn a_key_file_is_a_secret_unless_it_is_a_keynote() {
        check(Verdict::SecretUnlessZip, &["/r/server.key", "/r/talk.KEY"]);
    }
}
