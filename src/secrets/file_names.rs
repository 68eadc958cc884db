//! Detects secret files, such as private keys and browser profiles, by their paths. vic never reads their content, and
//! ignore rules cannot change that.
//!
//! Only names are compared: a key inside `notes.txt` is not found here.

use std::ffi::OsStr;
use std::path::{Component, Path};

/// Whether the file at a path is a known secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathVerdict {
    /// The path is not a known secret.
    Plain,
    /// The path is a known secret; the file must not be read.
    Secret,
    /// The file is taken for a private key, unless it is large and starts like a zip archive, because Keynote presentations
    /// have the same extension `.key`.
    SecretUnlessZip,
}

/// Complete names of secret files, in lower case.
const SECRET_NAMES: &[&str] = &[
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
    "credentials.toml",
    "application_default_credentials.json",
    ".bash_history",
    ".zsh_history",
    ".sh_history",
    ".python_history",
    ".psql_history",
    ".mysql_history",
    ".sqlite_history",
    ".node_repl_history",
    ".ksh_history",
    ".ash_history",
    ".irb_history",
    ".rediscli_history",
    ".mongo_history",
    ".history",
    ".zhistory",
    ".histfile",
    ".lesshst",
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
    "login data for account",
    "logins.json",
    "key3.db",
    "key4.db",
    "cookies.sqlite",
    "secring.gpg",
];

/// Names of SSH private keys. A name with a suffix after `_` or `-` also counts. A name with an extension counts only if
/// the extension is in `BACKUP_EXTENSIONS`.
const KEY_NAMES: &[&str] = &["id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", "id_ecdsa_sk", "id_ed25519_sk"];

/// Extensions that copies of SSH private keys have.
const BACKUP_EXTENSIONS: &[&str] = &["bak", "old", "orig", "backup", "key", "pem", "ppk"];

/// Extensions of secret files, in lower case.
const SECRET_EXTENSIONS: &[&str] = &[
    "pem",
    "p12",
    "pfx",
    "p8",
    "kdbx",
    "kdb",
    "keychain",
    "keychain-db",
    "jks",
    "keystore",
    "ppk",
    "env",
    "ovpn",
    "1pux",
    "psafe3",
    "kwl",
    "enpassdb",
];

/// Endings of secret folder names, in lower case.
const FOLDER_ENDINGS: &[&str] = &[".opvault", ".agilekeychain"];

/// Endings of templates of environment files, such as `.env.example`, which are not secret.
const ENV_TEMPLATES: &[&str] = &["example", "sample", "template", "dist", "defaults"];

/// Folders in which every file is secret; each is a list of consecutive path components, in lower case.
const SECRET_FOLDERS: &[&[&str]] = &[
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
    &[".librewolf"],
    &[".waterfox"],
    &[".electrum"],
    &[".config", "gcloud"],
    &[".config", "gh"],
    &[".config", "google-chrome"],
    &[".config", "google-chrome-beta"],
    &[".config", "google-chrome-unstable"],
    &[".config", "chromium"],
    &[".config", "bravesoftware"],
    &[".config", "microsoft-edge"],
    &[".local", "share", "keyrings"],
    &[".local", "share", "kwalletd"],
    &[".config", "keepassxc"],
    &[".config", "bitwarden"],
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
    &["application support", "bravesoftware"],
    &["application support", "chromium"],
    &["application support", "microsoft edge"],
    &["application support", "firefox", "profiles"],
];

/// Returns whether an absolute path is a known secret, by its folders and its file name.
pub fn judge_path(path: &Path) -> PathVerdict {
    if in_secret_folder(path) {
        return PathVerdict::Secret;
    }
    let Some(name) = path.file_name() else { return PathVerdict::Plain };
    let name = lowercase(name);
    if SECRET_NAMES.contains(&name.as_str()) || is_key_name(&name) || is_env(&name) || is_client_secret(&name) {
        return PathVerdict::Secret;
    }
    match name.rsplit_once('.') {
        // Also matches a file named `.key`, which has no extension but is as likely to be a key.
        Some((_, "key")) => PathVerdict::SecretUnlessZip,
        Some((_, extension)) if SECRET_EXTENSIONS.contains(&extension) => PathVerdict::Secret,
        _ => PathVerdict::Plain,
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

/// Whether a name is an environment file or a copy of one: `.env.local`, `.env-prod`, `.envrc`, `.env~`.
fn is_env(name: &str) -> bool {
    let Some(rest) = name.strip_prefix(".env") else { return false };
    let rest = rest.strip_prefix("rc").unwrap_or(rest);
    match rest.strip_prefix(['.', '-', '_', '~']) {
        Some(kind) => !ENV_TEMPLATES.iter().any(|it| kind == *it || kind.ends_with(&format!(".{it}"))),
        None => rest.is_empty(),
    }
}

/// Whether a name is a Google client secret: `client_secret_<number>.apps.googleusercontent.com.json`.
fn is_client_secret(name: &str) -> bool {
    name.starts_with("client_secret_") && name.ends_with(".json")
}

fn in_secret_folder(path: &Path) -> bool {
    // Compares path components in place, and first with the first folder of each entry, so that paths outside secret
    // folders cost no allocation.
    let Some(parent) = path.parent() else { return false };
    let mut components = parent.components();
    while let Some(component) = components.next() {
        let Component::Normal(name) = component else { continue };
        if FOLDER_ENDINGS.iter().any(|it| ends_with(name, it)) {
            return true;
        }
        for folder in SECRET_FOLDERS {
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

fn ends_with(name: &OsStr, ending: &str) -> bool {
    let name = name.as_encoded_bytes();
    name.len() >= ending.len() && name[name.len() - ending.len()..].eq_ignore_ascii_case(ending.as_bytes())
}

fn lowercase(name: &OsStr) -> String {
    name.to_string_lossy().to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(expected: PathVerdict, paths: &[&str]) {
        for path in paths {
            assert_eq!(judge_path(Path::new(path)), expected, "{path}");
        }
    }

    #[test]
    fn known_secret_names_are_secret() {
        check(
            PathVerdict::Secret,
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
    fn env_files_are_secret_but_templates_are_not() {
        check(
            PathVerdict::Secret,
            &[
                "/r/.envrc",
                "/r/.envrc.local",
                "/r/.envrc~",
                "/r/.env-prod",
                "/r/.env_local",
                "/r/.env~",
                "/r/.ENV-PROD",
                "/r/.env_my_sample",
            ],
        );
        check(
            PathVerdict::Plain,
            &["/r/.env-example", "/r/.env_template", "/r/.envrc.example", "/r/.env-prod.sample", "/r/.environment"],
        );
    }

    #[test]
    fn histories_and_credentials_are_secret() {
        check(
            PathVerdict::Secret,
            &[
                "/h/.zhistory",
                "/h/.histfile",
                "/h/.history",
                "/h/.ksh_history",
                "/h/.ash_history",
                "/h/.irb_history",
                "/h/.rediscli_history",
                "/h/.mongo_history",
                "/h/.lesshst",
                "/h/.cargo/credentials.toml",
                "/h/client_secret_123-abc.apps.googleusercontent.com.json",
            ],
        );
        check(PathVerdict::Plain, &["/r/client_secret_rotation.md", "/r/my_client_secret_notes.json", "/r/lesshst"]);
    }

    #[test]
    fn password_stores_and_browser_profiles_are_secret() {
        check(
            PathVerdict::Secret,
            &[
                "/h/Export.1pux",
                "/h/old.psafe3",
                "/h/kdewallet.kwl",
                "/h/vault.enpassdb",
                "/h/My.opvault/default/profile.js",
                "/h/.opvault/band_0.js",
                "/h/1Password.AgileKeychain/data/default/contents.js",
                "/h/.local/share/kwalletd/kdewallet.salt",
                "/h/.config/keepassxc/keepassxc.ini",
                "/h/.config/Bitwarden/data.json",
                "/h/.electrum/wallets/default_wallet",
                "/h/.librewolf/x/prefs.js",
                "/h/.waterfox/x/prefs.js",
                "/h/.config/google-chrome-beta/Default/Preferences",
                "/h/.config/google-chrome-unstable/Default/Preferences",
                "/h/Library/Application Support/BraveSoftware/Brave-Browser/Default/History",
                "/h/Library/Application Support/Chromium/Default/History",
                "/h/Library/Application Support/Microsoft Edge/Default/History",
                "/p/Login Data For Account",
            ],
        );
        check(PathVerdict::Plain, &["/r/opvault/a.md", "/r/notes.opvault", "/r/electrum/a.md", "/r/chromium/a.md"]);
    }

    #[test]
    fn similar_names_are_plain() {
        check(
            PathVerdict::Plain,
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
    fn key_extension_is_secret_unless_keynote() {
        check(PathVerdict::SecretUnlessZip, &["/r/server.key", "/r/talk.KEY"]);
    }
}
