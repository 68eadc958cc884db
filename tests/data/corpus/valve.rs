//! Valves of the mill.

/// How far a valve is open.
pub struct Valve {
    turns: u32,
}

impl Valve {
    /// Opens it by one turn.
    pub fn open(&mut self) {
        self.turns += 1;
    }
}
