//! Settings of vic. Precedence: environment, `config.toml` in the data directory, values tuned for this machine, defaults.
//! No other module reads the environment or looks up the home directory.
//!
//! A key of `config.toml` is the name of its variable in lower case without `VIC_`: `VIC_PRIVACY_MODE` becomes
//! `privacy_mode`. [`VARIABLES`] lists all variables; an unknown key is an error that names the key.

mod bridge;
mod embed;
mod file_edit;
mod foreign_variables;
mod load;
mod variables;
mod ollama_host;
mod paths;
mod resolve;
mod describe;
mod sections;
mod sources;
mod toolsets;
mod tuned;
mod user_folders;

pub use crate::config::describe::{Origin, Setting, check_value, config_template, settings, unknown_variables};
pub use crate::config::variables::VARIABLES;
pub use bridge::{AuthMode, BridgeConfig, TlsFiles};
pub use embed::{EmbedBackend, EmbedConfig, EmbedDevice, EmbedEngine, MAX_EMBED_THREADS};
pub use file_edit::set_in_file;
pub use load::{DESKTOP_VARIABLES, desktop_environment, plugin_environment};
pub use sections::{
    BackgroundConfig, Config, LlmBackend, LlmConfig, RerankConfig, VectorBackend, VectorConfig, WalkConfig, split_globs,
};
pub use toolsets::Toolsets;
pub use tuned::{remove_tuned, tuned_path, write_tuned};
pub use user_folders::UserFolders;
