//! Describes the hardware of this machine, for the records of measurements.

use std::path::Path;

use serde::{Deserialize, Serialize};

/// The folder where the NVIDIA driver lists its graphics cards.
pub const NVIDIA_CARDS: &str = "/proc/driver/nvidia/gpus";

/// Description of a machine's hardware, as recorded with each measurement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Model of the processor.
    pub cpu: String,
    /// Cores that this process may use.
    pub cores: usize,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// Operating system and architecture.
    pub os: String,
    /// SIMD instruction sets of the processor, e.g. `avx512vnni`.
    pub instructions: Vec<String>,
    /// Graphics cards that CUDA could use.
    pub gpus: Vec<String>,
    /// Load average of the last minute, over all programs. A high load explains low speeds in a measurement.
    pub load: Option<f64>,
}

impl Machine {
    /// Describes this machine. Fields that the system does not report are empty.
    pub fn detect() -> Machine {
        let cpu =
            value_of_key("/proc/cpuinfo", "model name").map(|it| it.trim_start_matches([':', ' ', '\t']).to_string());
        Machine {
            cpu: cpu.unwrap_or_else(|| "unknown".into()),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_mib: memory_kib() / 1024,
            os: format!("{}-{}", std::env::consts::OS, std::env::consts::ARCH),
            instructions: instructions(),
            gpus: gpu_models(Path::new(NVIDIA_CARDS)),
            load: load_average(),
        }
    }
}

/// Returns the names of the graphics card models that the NVIDIA driver lists in the folder `cards`.
pub fn gpu_models(cards: &Path) -> Vec<String> {
    let Ok(entries) = cards.read_dir() else { return Vec::new() };
    let model = |folder: &Path| {
        let text = std::fs::read_to_string(folder.join("information")).ok()?;
        text.lines().find_map(|line| line.strip_prefix("Model:")).map(|it| it.trim().to_string())
    };
    entries.flatten().map(|it| model(&it.path()).unwrap_or_else(|| "unknown".into())).collect()
}

#[cfg(target_arch = "x86_64")]
fn instructions() -> Vec<String> {
    let all = [
        ("avx2", std::is_x86_feature_detected!("avx2")),
        ("fma", std::is_x86_feature_detected!("fma")),
        ("avxvnni", std::is_x86_feature_detected!("avxvnni")),
        ("avx512f", std::is_x86_feature_detected!("avx512f")),
        ("avx512vnni", std::is_x86_feature_detected!("avx512vnni")),
        ("avx512bf16", std::is_x86_feature_detected!("avx512bf16")),
    ];
    all.iter().filter(|it| it.1).map(|it| it.0.to_string()).collect()
}

#[cfg(not(target_arch = "x86_64"))]
fn instructions() -> Vec<String> {
    Vec::new()
}

fn memory_kib() -> u64 {
    let line = value_of_key("/proc/meminfo", "MemTotal:").unwrap_or_default();
    line.split_whitespace().next().and_then(|it| it.parse().ok()).unwrap_or(0)
}

fn load_average() -> Option<f64> {
    std::fs::read_to_string("/proc/loadavg").ok()?.split_whitespace().next()?.parse().ok()
}

/// Returns the text after `key` in the first line of the file that begins with `key`; `None` on systems other than Linux.
fn value_of_key(path: &str, key: &str) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    text.lines().find_map(|line| line.strip_prefix(key)).map(|it| it.trim().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_here_reports_processor_and_os() {
        let machine = Machine::detect();
        assert!(machine.cores > 0 && !machine.cpu.is_empty() && machine.os.contains('-'), "{machine:?}");
    }

    #[test]
    fn gpus_are_named_by_driver_model() {
        let dir = tempfile::tempdir().unwrap();
        assert!(gpu_models(dir.path()).is_empty());
        assert!(gpu_models(&dir.path().join("gone")).is_empty());
        std::fs::create_dir(dir.path().join("0000:01:00.0")).unwrap();
        std::fs::write(dir.path().join("0000:01:00.0/information"), "Model: \t\t Some Card 9\nIRQ: 1\n").unwrap();
        assert_eq!(gpu_models(dir.path()), ["Some Card 9"]);
    }
}
