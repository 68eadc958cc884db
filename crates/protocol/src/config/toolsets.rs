//! The toolsets of the Model Context Protocol (MCP): groups of tools that are listed only on request.

use std::fmt;
use std::str::FromStr;

use crate::error::Error;

/// Groups of MCP tools that are listed besides the tools for files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Toolsets {
    /// `graph`: tools for the graph of references between files.
    pub graph: bool,
    /// `corpus`: a tool for each verb of the corpus API.
    pub corpus: bool,
}

impl Toolsets {
    /// Every toolset.
    pub const ALL: Toolsets = Toolsets { graph: true, corpus: true };

    /// What a list of toolsets may contain, for error messages.
    pub const KNOWN: &str = "`graph`, `corpus` or `all`, separated by commas";

    /// Parses a list of names such as `graph,corpus`; `all` is every toolset, an empty list is none.
    pub fn from_names(names: &str) -> Option<Toolsets> {
        names.split(',').map(str::trim).filter(|it| !it.is_empty()).try_fold(Toolsets::default(), |sets, name| {
            match name.to_ascii_lowercase().as_str() {
                "graph" => Some(Toolsets { graph: true, ..sets }),
                "corpus" => Some(Toolsets { corpus: true, ..sets }),
                "all" => Some(Toolsets::ALL),
                _ => None,
            }
        })
    }

    /// Returns the names of the toolsets.
    pub fn names(self) -> Vec<&'static str> {
        [("graph", self.graph), ("corpus", self.corpus)].into_iter().filter(|it| it.1).map(|it| it.0).collect()
    }

    /// Returns the toolsets of both.
    #[must_use]
    pub fn with(self, other: Toolsets) -> Toolsets {
        Toolsets { graph: self.graph || other.graph, corpus: self.corpus || other.corpus }
    }

    /// Returns the toolsets that are not in `self`.
    pub fn missing(self) -> Toolsets {
        Toolsets { graph: !self.graph, corpus: !self.corpus }
    }
}

impl fmt::Display for Toolsets {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.names().join(","))
    }
}

impl FromStr for Toolsets {
    type Err = Error;

    fn from_str(names: &str) -> Result<Toolsets, Error> {
        Toolsets::from_names(names)
            .ok_or_else(|| Error::invalid(format!("`{names}` is not a list of toolsets: use {}", Toolsets::KNOWN)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_of_toolsets_is_parsed_and_printed() {
        for (typed, names) in [
            ("", vec![]),
            ("graph", vec!["graph"]),
            (" corpus , Graph,", vec!["graph", "corpus"]),
            ("graph,all", vec!["graph", "corpus"]),
        ] {
            let parsed: Toolsets = typed.parse().unwrap();
            assert_eq!(parsed.names(), names, "{typed}");
            assert_eq!(parsed.to_string().parse::<Toolsets>().unwrap(), parsed);
        }
        let error = "graph,files".parse::<Toolsets>().unwrap_err();
        assert!(error.message.contains("`graph,files`") && error.message.contains("`corpus`"));
        assert_eq!(Toolsets::default().missing(), Toolsets::ALL);
    }
}
