//! Detects whether the machine runs on battery, so that background work can pause.

use std::path::Path;

/// The folder where Linux lists batteries and mains supplies.
pub const POWER_SUPPLIES: &str = "/sys/class/power_supply";

/// Returns whether this machine runs on battery: a battery discharges and no mains supply is online. A machine that lists no
/// power supplies is taken to have mains.
pub fn on_battery(supplies: &Path) -> bool {
    let Ok(entries) = supplies.read_dir() else { return false };
    let mut discharges = false;
    for supply in entries.flatten().map(|it| it.path()) {
        let says = |name: &str| std::fs::read_to_string(supply.join(name)).unwrap_or_default().trim().to_string();
        // Skips the batteries of devices such as a mouse, which do not power the machine.
        if says("scope") == "Device" {
            continue;
        }
        match says("type").as_str() {
            "Battery" => discharges |= says("status") == "Discharging",
            _ if says("online") == "1" => return false,
            _ => (),
        }
    }
    discharges
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks `on_battery` with these supplies; each supply is a list of its files with their content.
    fn check(supplies: &[&[(&str, &str)]], expected: bool) {
        let dir = tempfile::tempdir().unwrap();
        for (number, supply) in supplies.iter().enumerate() {
            let folder = dir.path().join(number.to_string());
            std::fs::create_dir(&folder).unwrap();
            supply.iter().for_each(|(name, text)| std::fs::write(folder.join(name), format!("{text}\n")).unwrap());
        }
        assert_eq!(on_battery(dir.path()), expected, "{supplies:?}");
    }

    #[test]
    fn on_battery_requires_discharging_without_mains() {
        let (mains, none) = ([("type", "Mains"), ("online", "1")], [("type", "Mains"), ("online", "0")]);
        let battery = |status| [("type", "Battery"), ("status", status)];
        check(&[], false);
        check(&[&none, &battery("Discharging")], true);
        check(&[&battery("Discharging")], true);
        check(&[&mains, &battery("Discharging")], false);
        check(&[&none, &battery("Full")], false);
        check(&[&[("type", "Battery"), ("status", "Discharging"), ("scope", "Device")]], false);
        assert!(!on_battery(Path::new("/no/such/folder")));
    }
}
