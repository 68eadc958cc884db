//! Analyses of documents that several verbs use: statements, clusters, pros and cons, citations, warnings.

pub(in crate::corpus) mod citation_graph;
pub(in crate::corpus) mod clustering;
pub(in crate::corpus) mod pros_cons;
pub(in crate::corpus) mod statements;
pub(in crate::corpus) mod warnings;
