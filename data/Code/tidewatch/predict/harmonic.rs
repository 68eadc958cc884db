//! Predicts the tide as a sum of cosines, one for each constituent.

use std::f64::consts::TAU;

/// One harmonic constituent of a harbour.
#[derive(Debug, Clone, Copy)]
pub struct Constituent {
    /// Usual short name, for example `M2`.
    pub name: &'static str,
    /// Half the range, in millimetres.
    pub amplitude_mm: f64,
    /// Degrees per hour.
    pub speed_deg_per_hour: f64,
    /// Lag behind the reference time, in degrees.
    pub phase_deg: f64,
}

/// The four constituents that carry nine tenths of the tide at Gullpoint pier.
pub const GULLPOINT: [Constituent; 4] = [
    Constituent { name: "M2", amplitude_mm: 1182.0, speed_deg_per_hour: 28.984_104, phase_deg: 141.2 },
    Constituent { name: "S2", amplitude_mm: 396.0, speed_deg_per_hour: 30.0, phase_deg: 186.7 },
    Constituent { name: "N2", amplitude_mm: 231.0, speed_deg_per_hour: 28.439_73, phase_deg: 118.9 },
    Constituent { name: "K1", amplitude_mm: 87.0, speed_deg_per_hour: 15.041_069, phase_deg: 17.4 },
];

/// Height above the mean level, in millimetres, `hours` after the reference time.
pub fn predict_level(constituents: &[Constituent], hours: f64) -> f64 {
    constituents
        .iter()
        .map(|c| {
            let angle = c.speed_deg_per_hour * hours - c.phase_deg;
            c.amplitude_mm * (angle / 360.0 * TAU).cos()
        })
        .sum()
}

/// Finds the first low water after `from`, stepping one minute at a time.
///
/// Returns the hours since the reference time and the height in millimetres.
pub fn next_low_water(constituents: &[Constituent], from: f64) -> (f64, f64) {
    const MINUTE: f64 = 1.0 / 60.0;
    let mut time = from;
    let mut level = predict_level(constituents, time);
    let mut falling = false;
    loop {
        let next = predict_level(constituents, time + MINUTE);
        if next < level {
            falling = true;
        } else if falling {
            return (time, level);
        }
        time += MINUTE;
        level = next;
    }
}

fn main() {
    let (hours, level) = next_low_water(&GULLPOINT, 0.0);
    println!("low water after {hours:.2} h at {level:.0} mm");
}
